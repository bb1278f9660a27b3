//! What requests about profiles state: which one, which of all, and how it is shown.

use std::ops::Range;

use plimsoll_profile::{Redaction, ThreadState};
use plimsoll_schemas::ids::{NodeName, ProfileName, RuleName, RunName};
use plimsoll_schemas::summary::ProfileRow;
use plimsoll_schemas::time::{Wall, seconds};
use plimsoll_schemas::wire::capture::{CaptureId, CaptureIdError, CaptureKind};
use serde::Deserialize;

use crate::io::http::history::range;
use crate::io::http::parameters::{
    BadRequest, count, name, one_of, optional_name, pick, required, value,
};
use crate::io::profiles::ProfileRef;
use crate::limits::captures::{FUNCTIONS_MAX, PAGE_MAX};

/// Profiles of a page without `limit`.
const LISTED: usize = 100;
/// Functions of a ranking without `n`.
const RANKED: usize = 20;
/// Before the name of a profile where an id may be.
const NAME: &str = "name:";

/// Which captures are listed.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct ListQuery {
    pub(super) wanted: Wanted,
    pub(super) run: Option<RunName>,
    pub(super) limit: usize,
}

/// What a capture must have; what is absent may be anything.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Wanted {
    pub(super) nodes: Option<Vec<NodeName>>,
    pub(super) rule: Option<RuleName>,
    pub(super) kind: Option<CaptureKind>,
    /// In which it starts, in seconds since 1970.
    pub(super) range: Option<Range<f64>>,
}

/// A picture of a profile, or of what it has more than another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PictureQuery {
    pub(super) of: ProfileRef,
    pub(super) minus: Option<ProfileRef>,
    /// Threads in this state alone.
    pub(super) state: Option<ThreadState>,
    pub(super) redaction: Option<Redaction>,
}

/// Two profiles, and how many functions are ranked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CompareQuery {
    pub(super) a: ProfileRef,
    pub(super) b: ProfileRef,
    pub(super) state: Option<ThreadState>,
    pub(super) functions: usize,
}

/// The name under which a profile is kept.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "KeepRequest"))]
#[serde(deny_unknown_fields)]
pub(in crate::io::http) struct KeepBody {
    /// It goes where an id may be, as `name:NAME`.
    pub(super) name: ProfileName,
}

impl Wanted {
    pub(super) fn has(&self, row: &ProfileRow) -> bool {
        let Self { nodes, rule, kind, range } = self;
        // A sum of several is of none of them.
        nodes.as_ref().is_none_or(|all| row.nodes.is_none() && all.contains(&row.node))
            && rule.as_ref().is_none_or(|rule| row.rule.as_ref() == Some(rule))
            && kind.is_none_or(|kind| kind == row.kind)
            && range.as_ref().is_none_or(|of| of.contains(&row.start_seconds))
    }
}

pub(super) fn list(pairs: &[(String, String)], now: Wall) -> Result<ListQuery, BadRequest> {
    let keys = ["node", "run", "rule", "kind", "from", "to", "last", "limit"];
    let known = "node, run, rule, kind, from, to, last and limit";
    let [node, run, rule, kind, from, to, last, limit] = pick(pairs, keys, known)?;
    let has_range = from.or(to).or(last).is_some();
    let range = has_range.then(|| range(from, to, last, now)).transpose()?;
    let range = range.map(|Range { start, end }| {
        // What was just ordered starts in a second.
        let end = if to.is_some() { seconds(end.0) } else { f64::INFINITY };
        seconds(start.0)..end
    });
    Ok(ListQuery {
        wanted: Wanted { range, ..wanted(node, rule, kind)? },
        run: optional_name("run", run)?,
        limit: count("limit", limit, LISTED, PAGE_MAX)?,
    })
}

pub(super) fn last(pairs: &[(String, String)]) -> Result<Wanted, BadRequest> {
    let [node, rule, kind] = pick(pairs, ["node", "rule", "kind"], "node, rule and kind")?;
    wanted(node, rule, kind)
}

fn wanted(
    node: Option<&str>,
    rule: Option<&str>,
    kind: Option<&str>,
) -> Result<Wanted, BadRequest> {
    let node: Option<NodeName> = optional_name("node", node)?;
    Ok(Wanted {
        nodes: node.map(|node| vec![node]),
        rule: optional_name("rule", rule)?,
        kind: one_of("kind", kind, CaptureKind::ALL, CaptureKind::as_str)?,
        range: None,
    })
}

pub(super) fn picture(id: &str, pairs: &[(String, String)]) -> Result<PictureQuery, BadRequest> {
    let known = "minus, state and redact";
    let [minus, text, redact] = pick(pairs, ["minus", "state", "redact"], known)?;
    Ok(PictureQuery {
        of: profile_ref("id", id)?,
        minus: minus.map(|text| profile_ref("minus", text)).transpose()?,
        state: state(text)?,
        redaction: redaction(redact)?,
    })
}

/// Whether a tree is in columns.
pub(super) fn has_columns(forms: &[String]) -> Result<bool, BadRequest> {
    match forms {
        [] => Ok(false),
        [form] if form == "columns" => Ok(true),
        [form] => Err(value("form", form, "columns, or left out for a tree")),
        _ => Err(BadRequest::Twice("form".to_owned())),
    }
}

pub(super) fn redaction(text: Option<&str>) -> Result<Option<Redaction>, BadRequest> {
    match text {
        None | Some("false") => Ok(None),
        Some("true") => Ok(Some(Redaction::Names)),
        Some(text) => {
            let found = Redaction::ALL.into_iter().find(|of| of.as_str() == text);
            let unknown = || value("redact", text, "true, false, names or functions");
            found.map(Some).ok_or_else(unknown)
        }
    }
}

pub(super) fn state(text: Option<&str>) -> Result<Option<ThreadState>, BadRequest> {
    let Some(text) = text.filter(|text| *text != "all") else { return Ok(None) };
    let unknown = || value("state", text, "running, waiting, gil or all");
    ThreadState::parse(text).map(Some).ok_or_else(unknown)
}

pub(super) fn comparison(pairs: &[(String, String)]) -> Result<CompareQuery, BadRequest> {
    let [a, b, text, n] = pick(pairs, ["a", "b", "state", "n"], "a, b, state and n")?;
    Ok(CompareQuery {
        a: profile_ref("a", required("a", a)?)?,
        b: profile_ref("b", required("b", b)?)?,
        state: state(text)?,
        functions: functions(n)?,
    })
}

pub(super) fn functions(n: Option<&str>) -> Result<usize, BadRequest> {
    count("n", n, RANKED, FUNCTIONS_MAX)
}

/// An id, or `name:` and the name under which a profile is kept.
pub(super) fn profile_ref(key: &'static str, text: &str) -> Result<ProfileRef, BadRequest> {
    match text.strip_prefix(NAME) {
        Some(named) => name(key, named).map(ProfileRef::Name),
        None => capture_id(key, text).map(ProfileRef::Id),
    }
}

pub(super) fn capture_id(key: &'static str, text: &str) -> Result<CaptureId, BadRequest> {
    text.parse()
        .map_err(|error: CaptureIdError| value(key, text, &format!("the id of a profile: {error}")))
}
