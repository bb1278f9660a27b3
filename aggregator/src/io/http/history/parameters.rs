//! The parameters of `/api/v1/query` and `/api/v1/heatmap`.

use std::ops::Range;
use std::time::{Duration, UNIX_EPOCH};

use plimsoll_schemas::ids::{Labels, Operation};
use plimsoll_schemas::limits::api::QUERY_METRICS_MAX;
use plimsoll_schemas::limits::wire::LABEL_VALUE_BYTES_MAX;
use plimsoll_schemas::rule::WrittenLimit;
use plimsoll_schemas::time::Wall;
use plimsoll_schemas::unit::Unit;

use crate::core::fleet::{Group, Pool};
use crate::core::history::{AskedNodes, HistoryQuery};
use crate::io::http::parameters::{BadRequest, bad, count, name, pick, required, take_all, value};
use crate::limits::{
    HEATMAP_BANDS_MAX, HISTORY_LIMITS_MAX, HISTORY_NODES_MAX, HISTORY_QUANTILES_MAX,
    METRIC_DIVISORS_MAX,
};

const KNOWN: [&str; 9] =
    ["operation", "rollup", "from", "to", "last", "step", "quantiles", "over", "distribution"];
const NAMES: &str =
    "operation, rollup, value, node, label, from, to, last, step, quantiles, over and distribution";
const QUANTILES: &str = "0.5,0.9,0.99,0.999";
/// Columns of a heatmap whose `step` is not given.
const COLUMNS: u32 = 120;
const BANDS: usize = 48;
/// The range without `from`, `to` and `last`.
const LAST: Duration = Duration::from_secs(3_600);
const TIME: &str = "seconds since 1970, UTC as 2026-11-24T10:05:00Z, now, or now-2h";
const SPAN: &str = "a duration with a unit, such as 10s or 2h";

pub(super) fn parse(pairs: &[(String, String)], now: Wall) -> Result<HistoryQuery, BadRequest> {
    // These may be repeated; all others are refused the
    // second time, since one of two would be ignored.
    let (values, pairs) = take_all(pairs, "value");
    let (nodes, pairs) = take_all(&pairs, "node");
    let (labels, pairs) = take_all(&pairs, "label");
    let nodes = asked_nodes(&nodes, &labels)?;
    let picked = pick(&pairs, KNOWN, NAMES)?;
    let [operation, rollup, from, to, last, step, quantiles, over, distribution] = picked;
    let operation: Operation = name("operation", required("operation", operation)?)?;
    let unit = Unit::of(operation.as_str());

    no_rollup(rollup, nodes.is_some())?;
    let pool = pool(operation, rollup, values)?;
    let range = range(from, to, last, now)?;

    let with_distribution = match distribution {
        None | Some("false") => false,
        Some("true") => true,
        Some(text) => return Err(value("distribution", text, "true or false")),
    };

    Ok(HistoryQuery {
        pool,
        metrics: Vec::new(),
        range,
        step: step.map(|text| span("step", text)).transpose()?,
        quantiles: list(quantiles.unwrap_or(QUANTILES), HISTORY_QUANTILES_MAX, quantile)?,
        limits_ns: list(over.unwrap_or_default(), HISTORY_LIMITS_MAX, |text| limit(text, unit))?,
        with_distribution,
        nodes,
    })
}

/// The query of each metric.
pub(super) fn parse_metrics(
    pairs: &[(String, String)],
    now: Wall,
) -> Result<Vec<HistoryQuery>, BadRequest> {
    let (metrics, pairs) = take_all(pairs, "metric");
    let (values, pairs) = take_all(&pairs, "value");
    let (per, pairs) = take_all(&pairs, "per");
    let (nodes, pairs) = take_all(&pairs, "node");
    let (labels, pairs) = take_all(&pairs, "label");
    let nodes = asked_nodes(&nodes, &labels)?;
    let known = ["rollup", "from", "to", "last", "step"];
    let names = "metric, per, rollup, value, node, label, from, to, last and step";
    let [rollup, from, to, last, step] = pick(&pairs, known, names)?;
    no_rollup(rollup, nodes.is_some())?;
    let one = metrics.len() <= 1;
    for (key, given, most) in [
        ("metric", metrics.len(), if nodes.is_some() { 1 } else { QUERY_METRICS_MAX }),
        ("per", per.len(), if one { METRIC_DIVISORS_MAX } else { 0 }),
    ] {
        if given > most {
            let bound = match (key, most) {
                ("per", 0) => "left out where several metrics are given".to_owned(),
                ("metric", 1) => "given once where node is given".to_owned(),
                _ => format!("given at most {most} times"),
            };
            return Err(value(key, &format!("given {given} times"), &bound));
        }
    }

    let per = per.iter().map(|text| name("per", text)).collect::<Result<Vec<Operation>, _>>()?;
    if let Some(twice) = per.iter().enumerate().find(|(at, name)| per[..*at].contains(name)) {
        return Err(value("per", twice.1.as_str(), "given once for each counter"));
    }
    let of = |name: Operation| match rollup {
        None => Pool::Fleet(name),
        Some(rollup) => {
            let values = values.iter().map(|value| value.as_str().into()).collect();
            Pool::Group(rollup.to_owned(), Group { operation: name, values })
        }
    };
    let step = step.map(|text| span("step", text)).transpose()?;
    let range = range(from, to, last, now)?;
    let query = |text: &String| {
        let metric: Operation = name("metric", text)?;
        // Refused here, so that a pool of each name can be made above.
        pool(metric.clone(), rollup, values.clone())?;
        let query = HistoryQuery::of_metric(&metric, &per, of, range.clone(), step);
        Ok(HistoryQuery { nodes: nodes.clone(), ..query })
    };
    metrics.iter().map(query).collect()
}

/// Nodes know no groups.
fn no_rollup(rollup: Option<&str>, has_nodes: bool) -> Result<(), BadRequest> {
    match rollup.filter(|_| has_nodes) {
        None => Ok(()),
        Some(of) => Err(value("rollup", of, "left out where node is given; name labels")),
    }
}

/// The fleet, or the group of a roll-up with these values.
fn pool(
    operation: Operation,
    rollup: Option<&str>,
    values: Vec<String>,
) -> Result<Pool, BadRequest> {
    match rollup {
        None if values.is_empty() => Ok(Pool::Fleet(operation)),
        None => Err(BadRequest::Missing("rollup")),
        Some(_) if values.is_empty() => Err(BadRequest::Missing("value")),
        Some(rollup) => {
            check_length("rollup", rollup)?;
            for value in &values {
                check_length("value", value)?;
            }
            let values = values.into_iter().map(String::into_boxed_str).collect();
            Ok(Pool::Group(rollup.to_owned(), Group { operation, values }))
        }
    }
}

/// What is asked of nodes' hardware.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct HardwareQuery {
    pub(super) nodes: AskedNodes,
    /// One sensor; all without it.
    pub(super) sensor: Option<String>,
    /// From when until when.
    pub(super) range: Range<Wall>,
    /// Length of a point; one point for the whole range without it.
    pub(super) step: Option<Duration>,
}

pub(super) fn parse_hardware(
    pairs: &[(String, String)],
    now: Wall,
) -> Result<HardwareQuery, BadRequest> {
    let (nodes, pairs) = take_all(pairs, "node");
    let nodes = asked_nodes(&nodes, &[])?.ok_or(BadRequest::Missing("node"))?;
    let known = ["sensor", "from", "to", "last", "step"];
    let [sensor, from, to, last, step] =
        pick(&pairs, known, "node, sensor, from, to, last and step")?;
    if let Some(sensor) = sensor {
        check_length("sensor", sensor)?;
    }

    Ok(HardwareQuery {
        nodes,
        sensor: sensor.map(str::to_owned),
        range: range(from, to, last, now)?,
        step: step.map(|step| span("step", step)).transpose()?,
    })
}

/// The range that `from`, `to` and `last` name; the last hour without them.
pub(in crate::io::http) fn range(
    from: Option<&str>,
    to: Option<&str>,
    last: Option<&str>,
    now: Wall,
) -> Result<Range<Wall>, BadRequest> {
    let end = to.map_or(Ok(now), |text| time("to", text, now))?;
    let start = match (from, last) {
        (Some(text), None) => time("from", text, now)?,
        (None, Some(text)) => end.minus(span("last", text)?),
        (None, None) => end.minus(LAST),
        (Some(_), Some(text)) => {
            return Err(value("last", text, "left out where from is given"));
        }
    };
    Ok(start..end)
}

/// The nodes that are to be asked for their own histories, if any are.
fn asked_nodes(nodes: &[String], labels: &[String]) -> Result<Option<AskedNodes>, BadRequest> {
    if nodes.is_empty() {
        let label = labels.first();
        return label.map_or(Ok(None), |_| Err(BadRequest::Missing("node")));
    }

    let pairs = labels
        .iter()
        .map(|label| label.split_once('=').ok_or_else(|| value("label", label, "as key=value")));
    let pairs = pairs.collect::<Result<Vec<_>, _>>()?;
    let labels = Labels::new(pairs).map_err(|error| bad("label", &labels.join(","), &error))?;

    let names = match nodes {
        [all] if all == "*" => None,
        [..] if nodes.len() > HISTORY_NODES_MAX => {
            let bound = format!("given at most {HISTORY_NODES_MAX} times");
            return Err(value("node", &format!("given {} times", nodes.len()), &bound));
        }
        named => {
            let names = named.iter().map(|text| name("node", text));
            let mut names = names.collect::<Result<Vec<_>, _>>()?;
            names.sort_unstable();
            names.dedup();
            Some(names)
        }
    };

    Ok(Some(AskedNodes { names, labels }))
}

/// No longer than any label can be.
pub(super) fn check_length(key: &'static str, text: &str) -> Result<(), BadRequest> {
    let fits = text.len() <= LABEL_VALUE_BYTES_MAX;
    fits.then_some(())
        .ok_or_else(|| value(key, "longer", &format!("at most {LABEL_VALUE_BYTES_MAX} bytes long")))
}

/// The query of a heatmap, and its number of bands.
pub(super) fn parse_heatmap(
    pairs: &[(String, String)],
    now: Wall,
) -> Result<(HistoryQuery, usize), BadRequest> {
    let (bands, pairs) = take_all(pairs, "bands");
    let bands = match bands.as_slice() {
        [] => BANDS,
        [text] => count("bands", Some(text), BANDS, HEATMAP_BANDS_MAX)?,
        _ => return Err(BadRequest::Twice("bands".to_owned())),
    };
    let query = parse(&pairs, now)?;
    let length = query.range.end.since(query.range.start);
    let step = query.step.or(Some(length / COLUMNS)).filter(|step| !step.is_zero());
    Ok((HistoryQuery { step, ..query }, bands))
}

fn list<T>(
    text: &str,
    most: usize,
    read: impl Fn(&str) -> Result<T, BadRequest>,
) -> Result<Vec<T>, BadRequest> {
    let items: Vec<&str> = text.split(',').filter(|item| !item.is_empty()).collect();
    if items.len() > most {
        return Err(value("the list", text, &format!("of at most {most} values")));
    }
    items.into_iter().map(read).collect()
}

fn quantile(text: &str) -> Result<f64, BadRequest> {
    let found = text.parse().ok().filter(|quantile| (0.0..=1.0).contains(quantile));
    found.ok_or_else(|| value("quantiles", text, "numbers of 0 to 1, separated by commas"))
}

/// In the unit of the operation; of latencies any time.
fn limit(text: &str, unit: Unit) -> Result<u64, BadRequest> {
    if unit == Unit::Nanoseconds {
        return span("over", text).map(plimsoll_schemas::time::nanos);
    }
    let read = WrittenLimit::of(text).raw(unit);
    read.map_err(|problem| value("over", text, &format!("a limit of this operation: {problem}")))
}

fn span(key: &'static str, text: &str) -> Result<Duration, BadRequest> {
    let found = humantime::parse_duration(text).ok().filter(|span| !span.is_zero());
    found.ok_or_else(|| value(key, text, SPAN))
}

/// A point in time as people write it.
fn time(key: &'static str, text: &str, now: Wall) -> Result<Wall, BadRequest> {
    let wrong = || value(key, text, TIME);
    if text == "now" {
        return Ok(now);
    }
    if let Some(back) = text.strip_prefix("now-") {
        return humantime::parse_duration(back).map(|back| now.minus(back)).map_err(|_| wrong());
    }

    let since = match text.parse::<f64>() {
        Ok(seconds) => Duration::try_from_secs_f64(seconds).map_err(|_| wrong())?,
        Err(_) => {
            let at = humantime::parse_rfc3339_weak(text).map_err(|_| wrong())?;
            at.duration_since(UNIX_EPOCH).map_err(|_| wrong())?
        }
    };

    u64::try_from(since.as_nanos()).map(Wall).map_err(|_| wrong())
}

#[cfg(test)]
mod tests {
    use plimsoll_schemas::ids::{NodeName, Operation};
    use proptest::prelude::*;

    use super::*;

    const NOW: Wall = Wall(1_700_000_000_000_000_000);

    fn read(pairs: &[(&str, &str)]) -> Result<HistoryQuery, String> {
        let owned: Vec<_> =
            pairs.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect();
        parse(&owned, NOW).map_err(|error| error.to_string())
    }

    #[test]
    fn without_a_range_it_is_the_last_hour_with_four_quantiles() {
        let query = read(&[("operation", "epoch_hook")]).unwrap();
        assert_eq!(query.range, NOW.minus(LAST)..NOW);
        assert_eq!(query.quantiles, [0.5, 0.9, 0.99, 0.999]);
        assert_eq!((query.step, query.with_distribution), (None, false));
        assert_eq!(query.pool, Pool::Fleet(Operation::new("epoch_hook").unwrap()));
    }

    #[test]
    fn a_heatmap_has_120_columns_and_48_bands_unless_others_are_given() {
        let read = |pairs: &[(&str, &str)]| {
            let owned: Vec<_> =
                pairs.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect();
            parse_heatmap(&owned, NOW).map_err(|error| error.to_string())
        };
        let (query, bands) = read(&[("operation", "o")]).unwrap();
        assert_eq!((query.step, bands), (Some(Duration::from_secs(30)), 48));
        let given = [("operation", "o"), ("bands", "7"), ("step", "1m")];
        let (query, bands) = read(&given).unwrap();
        assert_eq!((query.step, bands), (Some(Duration::from_secs(60)), 7));
        let error = read(&[("operation", "o"), ("bands", "0")]).unwrap_err();
        assert_eq!(error, "bands is \"0\"; it must be a whole number from 1 to 256");
    }

    #[test]
    fn times_are_read_as_people_write_them() {
        let from = |text| read(&[("operation", "o"), ("from", text)]).unwrap().range.start;
        assert_eq!(from("1699999000"), Wall(1_699_999_000_000_000_000));
        assert_eq!(from("1699999000.5"), Wall(1_699_999_000_500_000_000));
        assert_eq!(from("2023-11-14T22:00:00Z"), Wall(1_699_999_200_000_000_000));
        assert_eq!(from("2023-11-14 22:00:00"), Wall(1_699_999_200_000_000_000));
        assert_eq!(from("now-2h"), NOW.minus(Duration::from_secs(7_200)));
        let last = read(&[("operation", "o"), ("last", "5m"), ("to", "now-1m")]).unwrap().range;
        assert_eq!(last, NOW.minus(Duration::from_secs(360))..NOW.minus(Duration::from_secs(60)));
    }

    #[test]
    fn several_metrics_are_of_one_range_and_by_nothing_else() {
        let read = |pairs: &[(&str, &str)]| {
            let owned: Vec<_> =
                pairs.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect();
            parse_metrics(&owned, NOW).map_err(|error| error.to_string())
        };
        let found = read(&[("metric", "step.rows"), ("last", "5m"), ("metric", "loads")]).unwrap();
        let pools: Vec<String> = found.iter().map(|query| query.pool.operation_name()).collect();
        assert_eq!(pools, ["step", "loads"]);
        assert!(found.iter().all(|query| query.range == found[0].range));
        let error = read(&[("metric", "a"), ("metric", "b"), ("per", "c")]).unwrap_err();
        assert!(error.ends_with("left out where several metrics are given"), "{error}");
        let many = vec![("metric", "a"); QUERY_METRICS_MAX + 1];
        assert!(read(&many).unwrap_err().ends_with("given at most 32 times"));
    }

    #[test]
    fn a_group_is_named_by_its_roll_up_and_the_values_of_its_labels() {
        let query =
            read(&[("operation", "o"), ("rollup", "r"), ("value", "a"), ("value", "b,c")]).unwrap();
        let operation = Operation::new("o").unwrap();
        let values = vec!["a".into(), "b,c".into()];
        assert_eq!(query.pool, Pool::Group("r".to_owned(), Group { operation, values }));
    }

    #[test]
    fn nodes_are_named_or_all_of_them_are_asked() {
        let asked = |pairs: &[(&str, &str)]| read(pairs).unwrap().nodes.unwrap();
        let all = asked(&[("operation", "o"), ("node", "*"), ("label", "rank=3")]);
        assert_eq!((all.names, all.labels.get("rank")), (None, Some("3")));
        let two = asked(&[("operation", "o"), ("node", "b"), ("node", "a"), ("node", "b")]);
        let names: Vec<NodeName> = ["a", "b"].map(|name| NodeName::new(name).unwrap()).into();
        assert_eq!(two.names, Some(names));
    }

    #[test]
    fn a_metric_is_asked_of_nodes_without_a_roll_up() {
        let read = |pairs: &[(&str, &str)]| {
            let owned: Vec<_> =
                pairs.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect();
            let query = parse_metrics(&owned, NOW).map_err(|error| error.to_string());
            query.map(|mut queries| queries.remove(0))
        };
        let pairs = [("metric", "step.tokens"), ("node", "n1"), ("label", "rank=3")];
        let query = read(&[&pairs[..], &[("per", "hits")]].concat()).unwrap();
        let nodes = query.nodes.unwrap();
        assert_eq!((nodes.names.unwrap().len(), nodes.labels.get("rank")), (1, Some("3")));
        assert_eq!((query.pool.operation_name().as_str(), query.metrics.len()), ("step", 3));
        let group = [("rollup", "rank"), ("value", "3")];
        let error = read(&[&pairs[..], &group].concat()).unwrap_err();
        assert!(error.starts_with("rollup is \"rank\"; it must be left out"), "{error}");
        assert_eq!(read(&[pairs[0], pairs[2]]).unwrap_err(), "node is missing");
        let error = read(&[&pairs[..], &[("metric", "other")]].concat()).unwrap_err();
        assert!(error.ends_with("it must be given once where node is given"), "{error}");
    }

    #[test]
    fn a_bad_parameter_is_named_with_what_is_allowed() {
        let table: [(&[(&str, &str)], &str); 12] = [
            (&[], "operation is missing"),
            (&[("operation", "o"), ("host", "n")], "unknown parameter \"host\""),
            (&[("operation", "o"), ("node", "a b")], "node is \"a b\""),
            (&[("operation", "o"), ("label", "rank=3")], "node is missing"),
            (&[("operation", "o"), ("node", "n"), ("label", "rank")], "label is \"rank\""),
            (
                &[("operation", "o"), ("node", "n"), ("rollup", "r"), ("value", "v")],
                "rollup is \"r\"; it must be left out where node is given",
            ),
            (&[("operation", "o"), ("value", "v")], "rollup is missing"),
            (&[("operation", "o"), ("rollup", "r")], "value is missing"),
            (&[("operation", "o"), ("from", "10:05")], "from is \"10:05\"; it must be seconds"),
            (&[("operation", "o"), ("step", "5")], "step is \"5\"; it must be a duration"),
            (&[("operation", "o"), ("quantiles", "99")], "quantiles is \"99\"; it must be numbers"),
            (
                &[("operation", "o"), ("from", "now-1h"), ("last", "1h")],
                "last is \"1h\"; it must be left out",
            ),
        ];
        for (pairs, text) in table {
            let error = read(pairs).unwrap_err();
            assert!(error.starts_with(text), "{error}");
        }
    }

    proptest! {
        #[test]
        fn arbitrary_parameters_never_panic(
            pairs in prop::collection::vec((
                prop_oneof![
                    Just("operation".to_owned()), Just("from".to_owned()), Just("last".to_owned()),
                    Just("step".to_owned()), Just("over".to_owned()), any::<String>(),
                ],
                any::<String>(),
            ), 0..5),
        ) {
            if let Ok(query) = parse(&pairs, NOW) {
                prop_assert!(query.quantiles.len() <= HISTORY_QUANTILES_MAX);
            }
        }
    }
}
