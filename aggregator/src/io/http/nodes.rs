//! The state of nodes and their newest sensor readings over HTTP: `/api/v1/nodes`,
//! `/api/v1/nodes/<name>` and `/api/v1/hardware`. Pages are computed from the read view on a thread
//! of their own, one request at a time, as statistics are.
//!
//! DESIGN A84.

use axum::Router;
use axum::extract::{Path, Query, State};
use axum::response::Response;
use axum::routing::get;
use plimsoll_schemas::hardware::{Sensor, sensor};
use plimsoll_schemas::ids::NodeName;
use plimsoll_schemas::summary::Presence;

use super::parameters::{BadRequest, Pairs, count, name, one_of, optional_name, pick, value};
use super::query::{QuerySender, ViewHandler};
use super::refusal::Refusal;
use crate::core::view::{HardwareQuery, NodesQuery};
use crate::limits::{HARDWARE_PAGE_MAX, NODES_PAGE_MAX};

const NEWEST: &str =
    "left out: these are the newest readings; /api/v1/hardware/history has the past";

pub(super) fn routes(queries: QuerySender) -> Router {
    Router::new()
        .route("/api/v1/nodes", get(show_nodes))
        .route("/api/v1/nodes/{node}", get(show_node))
        .route("/api/v1/hardware", get(show_hardware))
        .with_state(ViewHandler::new(queries))
}

async fn show_nodes(
    State(handler): State<ViewHandler>,
    Query(pairs): Pairs,
) -> Result<Response, Refusal> {
    let query = parse_nodes(&pairs)?;
    handler.page(move |view| view.nodes_page(&query)).await
}

async fn show_node(
    State(handler): State<ViewHandler>,
    Path(text): Path<String>,
) -> Result<Response, Refusal> {
    let node: NodeName = name("node", &text)?;
    handler.page(move |view| view.node_page(&node)).await
}

async fn show_hardware(
    State(handler): State<ViewHandler>,
    Query(pairs): Pairs,
) -> Result<Response, Refusal> {
    let query = parse_hardware(&pairs)?;
    handler.page(move |view| view.hardware_page(&query)).await
}

fn parse_nodes(pairs: &[(String, String)]) -> Result<NodesQuery, BadRequest> {
    const KNOWN: [&str; 4] = ["node", "presence", "after", "limit"];
    let [node, presence, after, limit] = pick(pairs, KNOWN, "node, presence, after and limit")?;
    Ok(NodesQuery {
        node: optional_name("node", node)?,
        presence: one_of("presence", presence, Presence::ALL, Presence::as_str)?,
        after: optional_name("after", after)?,
        limit: count("limit", limit, NODES_PAGE_MAX, NODES_PAGE_MAX)?,
    })
}

fn parse_hardware(pairs: &[(String, String)]) -> Result<HardwareQuery, BadRequest> {
    const KNOWN: [&str; 6] = ["node", "sensor", "after", "limit", "from", "to"];
    let [node, sensor, after, limit, from, to] =
        pick(pairs, KNOWN, "node, sensor, after and limit")?;

    for (key, given) in [("from", from), ("to", to)] {
        if let Some(given) = given {
            return Err(value(key, given, NEWEST));
        }
    }

    let nodes = NodesQuery {
        node: optional_name("node", node)?,
        presence: None,
        after: optional_name("after", after)?,
        limit: count("limit", limit, HARDWARE_PAGE_MAX, HARDWARE_PAGE_MAX)?,
    };

    Ok(HardwareQuery { nodes, sensor: sensor.map(parse_sensor).transpose()? })
}

fn parse_sensor(text: &str) -> Result<&'static Sensor, BadRequest> {
    let allowed = "a sensor, whose metric is plimsoll_node_<sensor>";
    sensor(text).ok_or_else(|| value("sensor", text, allowed))
}

#[cfg(test)]
mod tests {
    use plimsoll_schemas::hardware::LOAD1;
    use proptest::prelude::*;

    use super::*;

    fn owned(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        pairs.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect()
    }

    #[test]
    fn every_parameter_is_read_and_none_is_needed() {
        let all = NodesQuery { node: None, presence: None, after: None, limit: NODES_PAGE_MAX };
        assert_eq!(parse_nodes(&[]), Ok(all.clone()));
        let name = |text| Some(NodeName::new(text).unwrap());
        let some = NodesQuery {
            node: name("a"),
            presence: Some(Presence::Silent),
            after: name("b"),
            limit: 7,
        };
        let given = [("after", "b"), ("node", "a"), ("presence", "silent"), ("limit", "7")];
        assert_eq!(parse_nodes(&owned(&given)), Ok(some.clone()));
        let nodes = NodesQuery { limit: HARDWARE_PAGE_MAX, ..all };
        assert_eq!(parse_hardware(&[]), Ok(HardwareQuery { nodes, sensor: None }));
        let given = [("after", "b"), ("node", "a"), ("sensor", "load1"), ("limit", "7")];
        let nodes = NodesQuery { presence: None, ..some };
        let of_load = HardwareQuery { nodes, sensor: Some(&LOAD1) };
        assert_eq!(parse_hardware(&owned(&given)), Ok(of_load));
    }

    #[test]
    fn a_bad_parameter_is_named_with_what_is_allowed() {
        let table = [
            (("limit", "0"), "limit is \"0\"; it must be a whole number from 1 to 64"),
            (("limit", "65"), "limit is \"65\"; it must be a whole number from 1 to 64"),
            (("after", "a b"), "after is \"a b\"; it must be a name: node name contains a space"),
            (("sensor", "load"), "sensor is \"load\"; it must be a sensor, whose metric is"),
            (("from", "now-1h"), "from is \"now-1h\"; it must be left out: these are the newest"),
            (("to", "now"), "to is \"now\"; it must be left out: these are the newest readings"),
            (("last", "1h"), "unknown parameter \"last\"; the parameters are node, sensor"),
        ];
        for (pair, text) in table {
            let error = parse_hardware(&owned(&[pair])).unwrap_err().to_string();
            assert!(error.starts_with(text), "{error}");
        }
        let error = parse_nodes(&owned(&[("presence", "gone")])).unwrap_err().to_string();
        assert_eq!(error, "presence is \"gone\"; it must be one of up, silent, left");
    }

    proptest! {
        #[test]
        fn arbitrary_parameters_never_panic(
            pairs in prop::collection::vec((
                prop_oneof![Just("node".to_owned()), Just("limit".to_owned()), any::<String>()],
                any::<String>(),
            ), 0..4),
        ) {
            if let Ok(query) = parse_nodes(&pairs) {
                prop_assert!((1..=NODES_PAGE_MAX).contains(&query.limit));
            }
        }
    }
}
