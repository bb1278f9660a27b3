//! Parses requests about runs. A request that is not understood is rejected with the key at fault.

use std::collections::BTreeSet;

use plimsoll_schemas::ids::{Labels, Operation, RunName};
use plimsoll_schemas::run::run_name;
use plimsoll_schemas::summary::RunState;
use serde::Deserialize;

use crate::core::runs::{RunCommand, RunsQuery};
use crate::io::http::parameters::{
    self, BadRequest, count, one_of, pick, read, required, take_all, value,
};
use crate::limits::runs::{RUN_OPERATIONS_MAX, RUNS_MAX};

/// The runs of a listing without `limit`.
const LISTED: usize = 100;

/// A run that begins.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "RunRequest"))]
#[serde(deny_unknown_fields)]
pub(in crate::io::http) struct BeginBody {
    /// Its name; no other run has had it.
    name: String,
    /// Its further labels.
    #[serde(default)]
    labels: Labels,
    /// Who begins it.
    by: Option<String>,
}

/// The end of a run.
#[derive(Debug, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "StopRequest"))]
#[serde(deny_unknown_fields)]
pub(in crate::io::http) struct StopBody {
    /// With which it ended, if that is known.
    exit_code: Option<u8>,
}

/// Which runs are compared, and in which operations; in all without any.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ComparedRuns {
    /// Names of runs separated by commas, `*` in one for any text.
    pub(super) a: String,
    /// The same of B.
    pub(super) b: String,
    pub(super) operations: BTreeSet<Operation>,
}

pub(super) fn begin(body: &[u8]) -> Result<RunCommand, BadRequest> {
    let BeginBody { name: text, labels, by } = read(body)?;
    Ok(RunCommand::Begin { name: name("name", &text)?, labels, by })
}

/// The body may be left out.
pub(super) fn stop(text: &str, body: &[u8]) -> Result<RunCommand, BadRequest> {
    let body = body.trim_ascii();
    let StopBody { exit_code } = if body.is_empty() { StopBody::default() } else { read(body)? };
    Ok(RunCommand::Stop { name: name("name", text)?, exit_code })
}

pub(super) fn list(pairs: &[(String, String)]) -> Result<RunsQuery, BadRequest> {
    let [state, limit] = pick(pairs, ["state", "limit"], "state and limit")?;
    Ok(RunsQuery {
        name: None,
        state: one_of("state", state, RunState::ALL, RunState::as_str)?,
        limit: count("limit", limit, LISTED, RUNS_MAX)?,
    })
}

pub(super) fn none(pairs: &[(String, String)]) -> Result<(), BadRequest> {
    let unknown = |(key, _): &(String, String)| BadRequest::Unknown {
        key: key.clone(),
        known: "none; the run is part of the path",
    };
    pairs.first().map_or(Ok(()), |pair| Err(unknown(pair)))
}

pub(super) fn comparison(pairs: &[(String, String)]) -> Result<ComparedRuns, BadRequest> {
    let (operations, pairs) = take_all(pairs, "operation");
    let [a, b] = pick(&pairs, ["a", "b"], "a, b and operation")?;
    let (a, b) = (required("a", a)?, required("b", b)?);
    if operations.len() > RUN_OPERATIONS_MAX {
        let given = operations.len().to_string();
        let allowed = format!("given at most {RUN_OPERATIONS_MAX} times");
        return Err(value("operation", &given, &allowed));
    }
    let operations = operations.iter().map(|text| parameters::name("operation", text));
    let operations = operations.collect::<Result<_, _>>()?;
    Ok(ComparedRuns { a: names("a", a)?, b: names("b", b)?, operations })
}

/// Names and patterns of runs, each of characters that a name may have.
fn names(key: &'static str, text: &str) -> Result<String, BadRequest> {
    let checked = |one: &str| match one.contains('*') {
        true => name(key, &one.replace('*', "x")).map(drop),
        false => name(key, one).map(drop),
    };
    text.split(',').try_for_each(checked).map(|()| text.to_owned())
}

pub(super) fn name(key: &'static str, text: &str) -> Result<RunName, BadRequest> {
    run_name(text).map_err(|error| value(key, text, &format!("the name of a run: {error}")))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn owned(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn bodies_have_their_defaults() {
        let begun = begin(br#"{"name":"v42","labels":{"rank":"3"},"by":"ann"}"#).unwrap();
        let (name, by) = (RunName::new("v42").unwrap(), Some("ann".to_owned()));
        let labels = Labels::new([("rank", "3")]).unwrap();
        assert_eq!(begun, RunCommand::Begin { name: name.clone(), labels, by });
        let bare = RunCommand::Begin { name: name.clone(), labels: Labels::default(), by: None };
        assert_eq!(begin(br#"{"name":"v42"}"#), Ok(bare));
        for (body, exit_code) in [("", None), ("{}", None), (r#"{"exit_code":3}"#, Some(3))] {
            let stopped = RunCommand::Stop { name: name.clone(), exit_code };
            assert_eq!(stop("v42", body.as_bytes()), Ok(stopped), "{body}");
        }
        let query = RunsQuery { limit: 100, ..RunsQuery::default() };
        assert_eq!(list(&[]), Ok(query.clone()));
        let ended = RunsQuery { state: Some(RunState::Ended), limit: 5, ..query };
        assert_eq!(list(&owned(&[("limit", "5"), ("state", "ended")])), Ok(ended));
        let pairs = [("a", "v1"), ("operation", "fetch"), ("b", "v2"), ("operation", "load")];
        let found = comparison(&owned(&pairs)).unwrap();
        assert_eq!((found.a.as_str(), found.b.as_str(), found.operations.len()), ("v1", "v2", 2));
        let found = comparison(&owned(&[("a", "v1-*,v0"), ("b", "*")])).unwrap();
        assert_eq!((found.a.as_str(), found.b.as_str()), ("v1-*,v0", "*"));
    }

    #[test]
    fn what_is_wrong_is_named_with_what_is_allowed() {
        let begun = |body: &str| begin(body.as_bytes()).map(|_| ()).unwrap_err().to_string();
        let stopped = |name: &str, body: &str| stop(name, body.as_bytes()).unwrap_err().to_string();
        let listed = |pairs: &[(&str, &str)]| list(&owned(pairs)).unwrap_err().to_string();
        let compared = |pairs: &[(&str, &str)]| comparison(&owned(pairs)).unwrap_err().to_string();
        let shown = |pairs: &[(&str, &str)]| none(&owned(pairs)).unwrap_err().to_string();
        for (found, words) in [
            (begun("{"), "the body is invalid: EOF"),
            (begun("{}"), "missing field `name`"),
            (begun(r#"{"name":"a","label":{}}"#), "unknown field `label`"),
            (begun(r#"{"name":"a","labels":{"b c":"d"}}"#), "label key contains a space"),
            (begun(r#"{"name":"last"}"#), "\"last\" is reserved; choose another name"),
            (begun(r#"{"name":"a/b"}"#), "run name contains '/'"),
            (stopped("v", r#"{"exit_code":256}"#), "expected u8"),
            (stopped("v", r#"{"code":1}"#), "unknown field `code`"),
            (listed(&[("state", "over")]), "one of running, ended, no_end"),
            (listed(&[("limit", "0")]), "a whole number from 1 to 1000"),
            (listed(&[("from", "1")]), "the parameters are state and limit"),
            (compared(&[("a", "v")]), "b is missing"),
            (compared(&[("a", "v"), ("b", "a b")]), "b is \"a b\"; it must be the name of a run"),
            (compared(&[("a", "v"), ("b", "w,b/*")]), "b is \"b/x\"; it must be the name of a run"),
            (compared(&[("a", "v"), ("a", "w")]), "a is given twice"),
            (shown(&[("operation", "o")]), "unknown parameter \"operation\""),
        ] {
            assert!(found.contains(words), "{found}");
        }
    }

    proptest! {
        #[test]
        fn arbitrary_bodies_and_parameters_never_panic(
            body in prop::collection::vec(any::<u8>(), 0..40),
            text in any::<String>(),
            pairs in prop::collection::vec((
                prop_oneof![Just("a".to_owned()), Just("limit".to_owned()), any::<String>()],
                any::<String>(),
            ), 0..4),
        ) {
            if let Ok(RunCommand::Begin { name, .. }) = begin(&body) {
                prop_assert!(run_name(name.as_str()).is_ok());
            }
            if let Ok(RunCommand::Stop { name, .. }) = stop(&text, &body) {
                prop_assert_eq!(name.as_str(), text);
            }
            if let Ok(query) = list(&pairs) {
                prop_assert!((1..=RUNS_MAX).contains(&query.limit));
            }
            if let Ok(found) = comparison(&pairs) {
                prop_assert!(found.operations.len() <= RUN_OPERATIONS_MAX);
            }
        }
    }
}
