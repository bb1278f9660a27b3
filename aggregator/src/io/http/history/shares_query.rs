//! The parameters of `/api/v1/bottlenecks`.

use std::ops::Range;

use plimsoll_schemas::ids::{NodeName, Operation, RunName};
use plimsoll_schemas::run::run_name;
use plimsoll_schemas::time::Wall;

use super::parameters::{check_length, range};
use crate::io::http::parameters::{BadRequest, optional_name, pick, take_all, value};

const KNOWN: [&str; 7] = ["run", "rollup", "node", "cycle", "from", "to", "last"];
const NAMES: &str = "run, rollup, value, node, cycle, from, to and last";

/// What is asked for.
#[derive(Debug, PartialEq)]
pub(super) struct SharesQuery {
    pub(super) subject: Subject,
    /// `None` for the last hour, and for all of a run.
    pub(super) range: Option<Range<Wall>>,
    /// An operation that is a cycle although no phases are below its name.
    pub(super) cycle: Option<Operation>,
}

/// Whose samples are asked for.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Subject {
    Fleet,
    Run(RunName),
    Group {
        rollup: String,
        values: Vec<Box<str>>,
    },
    /// A node, by its own history.
    Node(NodeName),
}

pub(super) fn parse(pairs: &[(String, String)], now: Wall) -> Result<SharesQuery, BadRequest> {
    let (values, pairs) = take_all(pairs, "value");
    let [run, rollup, node, cycle, from, to, last] = pick(&pairs, KNOWN, NAMES)?;
    values.iter().try_for_each(|text| check_length("value", text))?;

    let subject = match (run, rollup) {
        (Some(_), Some(rollup)) => {
            return Err(value("rollup", rollup, "left out where run is given"));
        }
        (Some(run), None) => Subject::Run(
            run_name(run)
                .map_err(|error| value("run", run, &format!("the name of a run: {error}")))?,
        ),
        (None, Some(_)) if values.is_empty() => return Err(BadRequest::Missing("value")),
        (None, Some(rollup)) => {
            check_length("rollup", rollup)?;
            let values = values.iter().map(|value| value.as_str().into()).collect();
            Subject::Group { rollup: rollup.to_owned(), values }
        }
        (None, None) => optional_name("node", node)?.map_or(Subject::Fleet, Subject::Node),
    };
    if let Some(node) = node.filter(|_| run.is_some() || rollup.is_some()) {
        return Err(value("node", node, "left out where run or rollup is given"));
    }
    if !values.is_empty() && rollup.is_none() {
        return Err(BadRequest::Missing("rollup"));
    }

    let is_given = [from, to, last].iter().any(Option::is_some);
    let range = is_given.then(|| range(from, to, last, now)).transpose()?;
    Ok(SharesQuery { subject, range, cycle: optional_name("cycle", cycle)? })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const NOW: Wall = Wall(1_700_000_000_000_000_000);

    fn read(pairs: &[(&str, &str)]) -> Result<SharesQuery, String> {
        let owned: Vec<_> =
            pairs.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect();
        parse(&owned, NOW).map_err(|error| error.to_string())
    }

    #[test]
    fn a_run_a_group_a_node_or_the_fleet_is_asked_for() {
        let node = read(&[("node", "gpu7"), ("last", "5m")]).unwrap();
        assert_eq!(node.subject, Subject::Node(NodeName::new("gpu7").unwrap()));
        let fleet = SharesQuery { subject: Subject::Fleet, range: None, cycle: None };
        assert_eq!(read(&[]), Ok(fleet));
        let run = read(&[("run", "v42"), ("cycle", "turn")]).unwrap();
        assert_eq!(run.subject, Subject::Run(RunName::new("v42").unwrap()));
        assert_eq!((run.range, run.cycle), (None, Some(Operation::new("turn").unwrap())));
        let group = read(&[("rollup", "rank"), ("value", "3"), ("last", "5m")]).unwrap();
        let values = vec!["3".into()];
        assert_eq!(group.subject, Subject::Group { rollup: "rank".to_owned(), values });
        assert_eq!(group.range, Some(NOW.minus(Duration::from_secs(300))..NOW));
    }

    #[test]
    fn a_bad_parameter_is_named_with_what_is_allowed() {
        let table: [(&[(&str, &str)], &str); 8] = [
            (&[("run", "a"), ("node", "n")], "node is \"n\"; it must be left out where run"),
            (&[("node", "a b")], "node is \"a b\""),
            (&[("operation", "o")], "unknown parameter \"operation\"; the parameters are run"),
            (&[("run", "a"), ("rollup", "rank")], "rollup is \"rank\"; it must be left out"),
            (&[("run", "a b")], "run is \"a b\"; it must be the name of a run"),
            (&[("rollup", "rank")], "value is missing"),
            (&[("value", "3")], "rollup is missing"),
            (&[("last", "5")], "last is \"5\"; it must be a duration"),
        ];
        for (pairs, text) in table {
            let error = read(pairs).unwrap_err();
            assert!(error.starts_with(text), "{error}");
        }
    }
}
