//! Links from alerts to pages: to one that shows their time, a template that is checked once and
//! filled for each, and to the section of the runbook.

use std::fmt::Write;
use std::str::FromStr;
use std::time::Duration;

use crate::limits::LINK_BYTES_MAX;
use plimsoll_schemas::alert::AlertKey;
use plimsoll_schemas::ids::MeshName;
use plimsoll_schemas::limits::wire::OPERATION_BYTES_MAX;
use plimsoll_schemas::time::Wall;
use thiserror::Error;

/// A link's time reaches so far to either side of the alert's, or twice its window before it.
const AROUND: Duration = Duration::from_secs(15 * 60);

/// What runbooks of shipped rules begin with: a file of this repository.
const SHIPPED_RUNBOOK: &str = "deploy/RUNBOOK.md#";

/// The URL of the page that shows the runbook, if there is one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunbookPage(Option<String>);

impl RunbookPage {
    /// The runbook on the aggregator's page at this URL.
    pub fn at(page_url: &str) -> Self {
        Self(Some(format!("{page_url}/?view=runbook&section=")))
    }

    /// Where a rule's runbook is: a section of the shipped one is on the page, others are where
    /// the rule states.
    pub fn link(&self, runbook: Option<String>) -> Option<String> {
        runbook.map(|text| match (&self.0, text.strip_prefix(SHIPPED_RUNBOOK)) {
            (Some(page), Some(name)) => format!("{page}{name}"),
            _ => text,
        })
    }
}

/// A link with placeholders for an alert's names and times.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dashboard(Vec<Part>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Text(String),
    Placeholder(Placeholder),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Placeholder {
    From,
    To,
    Mesh,
    Rule,
    Node,
    Operation,
}

const PLACEHOLDERS: [(&str, Placeholder); 6] = [
    ("from_ms", Placeholder::From),
    ("to_ms", Placeholder::To),
    ("mesh", Placeholder::Mesh),
    ("rule", Placeholder::Rule),
    ("node", Placeholder::Node),
    ("operation", Placeholder::Operation),
];

/// Why a template was refused.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum DashboardError {
    #[error("{0:?} is not a link; it must start with http:// or https://")]
    Scheme(String),
    #[error("contains {0:?}, which is not allowed in a link; percent-encode it, such as %20")]
    Character(char),
    #[error(
        "{{{0}}} is unknown; there are {{from_ms}}, {{to_ms}}, {{mesh}}, {{rule}}, {{node}} and \
         {{operation}}"
    )]
    Unknown(String),
    #[error("has an unbalanced brace; write one that belongs to the link as %7B or %7D")]
    Brace,
    #[error("makes links of {0} bytes with the longest names, more than {LINK_BYTES_MAX}")]
    TooLong(usize),
}

impl FromStr for Dashboard {
    type Err = DashboardError;

    fn from_str(template: &str) -> Result<Self, DashboardError> {
        if !["http://", "https://"].iter().any(|scheme| template.starts_with(scheme)) {
            return Err(DashboardError::Scheme(template.chars().take(64).collect()));
        }
        if let Some(found) = template.chars().find(|c| !c.is_ascii_graphic()) {
            return Err(DashboardError::Character(found));
        }
        let mut parts = Vec::new();
        let mut pieces = template.split('{');

        let mut text = |text: &str| match text.contains('}') {
            true => Err(DashboardError::Brace),
            false => Ok(Part::Text(text.to_owned())),
        };

        parts.extend(pieces.next().map(&mut text).transpose()?);

        for piece in pieces {
            let (name, after) = piece.split_once('}').ok_or(DashboardError::Brace)?;
            let place = PLACEHOLDERS.iter().find(|(known, _)| *known == name);
            let (_, place) = place.ok_or_else(|| DashboardError::Unknown(name.to_owned()))?;
            parts.extend([Part::Placeholder(*place), text(after)?]);
        }

        // Every character of a name may take three.
        let longest = parts.iter().map(|part| match part {
            Part::Text(text) => text.len(),
            Part::Placeholder(_) => 3 * OPERATION_BYTES_MAX,
        });

        match longest.sum() {
            bytes if bytes > LINK_BYTES_MAX => Err(DashboardError::TooLong(bytes)),
            _ => Ok(Self(parts)),
        }
    }
}

impl Dashboard {
    /// The link for an alert that moved at a time, about that much time before it; `None` where
    /// there is no template.
    pub fn link(
        &self,
        mesh: &MeshName,
        key: &AlertKey,
        at: Wall,
        before: Duration,
    ) -> Option<String> {
        if self.0.is_empty() {
            return None;
        }
        let ms = |at: Wall| (at.0 / 1_000_000).to_string();
        let mut link = String::new();

        for part in &self.0 {
            match part {
                Part::Text(text) => link.push_str(text),
                Part::Placeholder(Placeholder::From) => {
                    link.push_str(&ms(at.minus(before.max(AROUND))));
                }
                Part::Placeholder(Placeholder::To) => link.push_str(&ms(at.plus(AROUND))),
                Part::Placeholder(Placeholder::Mesh) => encode(&mut link, mesh.as_str()),
                Part::Placeholder(Placeholder::Rule) => encode(&mut link, key.rule.as_str()),
                Part::Placeholder(Placeholder::Node) => encode(&mut link, key.scope.node()),
                Part::Placeholder(Placeholder::Operation) => {
                    encode(&mut link, key.operation.as_str());
                }
            }
        }

        Some(link)
    }
}

/// Appends a name so that it is one part of a path or a query (RFC 3986, section 2.3).
fn encode(link: &mut String, name: &str) {
    for byte in name.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                link.push(char::from(byte));
            }
            _ => write!(link, "%{byte:02X}").expect("a string takes whatever is written"),
        }
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_schemas::alert::Scope;
    use plimsoll_schemas::ids::{NodeName, Operation, RuleName};

    use super::*;

    fn link(template: &str, scope: Scope) -> Option<String> {
        let key = AlertKey {
            rule: RuleName::new("disk_full").unwrap(),
            scope,
            operation: Operation::new("sensor:a/b").unwrap(),
        };
        let dashboard: Dashboard = template.parse().unwrap();
        let at = Wall(2_000_000_000_000_000);
        dashboard.link(&MeshName::new("m").unwrap(), &key, at, Duration::from_secs(3_600))
    }

    #[test]
    fn names_and_times_take_their_places_and_are_encoded() {
        let template = "https://g.example/d/x?from={from_ms}&to={to_ms}&v={mesh}-{rule}&n={node}\
                        &o={operation}";
        let node = || Scope::Node(NodeName::new("n-1").unwrap());
        let expected = "https://g.example/d/x?from=1996400000&to=2000900000&v=m-disk_full&n=n-1\
                    &o=sensor%3Aa%2Fb";
        assert_eq!(link(template, node()).unwrap(), expected);
        let fleet = expected.replace("n=n-1", "n=");
        assert_eq!(link(template, Scope::Fleet).unwrap(), fleet);
        let key = AlertKey {
            rule: RuleName::new("r").unwrap(),
            scope: Scope::Fleet,
            operation: Operation::new("o").unwrap(),
        };
        let mesh = MeshName::new("m").unwrap();
        assert_eq!(Dashboard::default().link(&mesh, &key, Wall(1), AROUND), None);
    }

    #[test]
    fn a_section_of_the_shipped_runbook_is_on_the_page_and_others_stay_where_they_are() {
        let page = RunbookPage::at("http://p");
        let own = || Some("deploy/RUNBOOK.md#disk_full".to_owned());
        let expected = "http://p/?view=runbook&section=disk_full";
        assert_eq!(page.link(own()).as_deref(), Some(expected));
        let other = Some("https://wiki/RUNBOOK.md#disk_full".to_owned());
        assert_eq!(page.link(other.clone()), other);
        assert_eq!(page.link(None), None);
        assert_eq!(RunbookPage::default().link(own()), own());
    }

    #[test]
    fn a_template_that_cannot_be_filled_is_refused_with_the_fix() {
        for (template, part) in [
            ("g.example/d", "must start with http"),
            ("javascript:alert(1)", "must start with http"),
            ("http://g/{nod}", "{nod} is unknown; there are {from_ms}"),
            ("http://g/{node", "an unbalanced brace"),
            ("http://g/node}", "an unbalanced brace"),
            ("http://g/{node}}", "an unbalanced brace"),
            ("http://g/a b", "contains ' '"),
            (&format!("http://g/{}", "{node}".repeat(11)), "4233 bytes with the longest names"),
        ] {
            let error = template.parse::<Dashboard>().unwrap_err().to_string();
            assert!(error.contains(part), "{template}: {error}");
        }
    }
}
