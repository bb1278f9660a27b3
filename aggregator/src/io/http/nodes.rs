//! The state of nodes and their newest sensor readings over HTTP: `/api/v1/nodes`,
//! `/api/v1/nodes/<name>` and `/api/v1/hardware`. Pages are computed from the read view on a thread
//! of their own, one request at a time, as statistics are.
//!
//! DESIGN A84.

use std::sync::Arc;

use axum::extract::{Path, Query as Parameters, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use plimsoll_runtime::http::ending;
use plimsoll_schemas::hardware::{Sensor, sensor};
use plimsoll_schemas::ids::NodeName;
use plimsoll_schemas::summary::Presence;
use tokio::sync::Mutex as Turn;
use tokio::task::spawn_blocking;

use super::orders::{BadRequest, bad, pick, value};
use super::query::{Query, QuerySender};
use crate::core::view::{HardwareQuery, NodesQuery, ReadView, UnknownNode};
use crate::limits::{HARDWARE_PAGE_MAX, NODES_PAGE_MAX};

const NEWEST: &str =
    "left out: these are the newest readings; /api/v1/hardware/history has the past";

#[derive(Clone)]
struct NodesHandler {
    queries: QuerySender,
    turn: Arc<Turn<()>>,
}

/// The routes about nodes.
pub(super) fn routes(queries: QuerySender) -> Router {
    let handler = NodesHandler { queries, turn: Arc::default() };
    Router::new()
        .route("/api/v1/nodes", get(show_nodes))
        .route("/api/v1/nodes/{node}", get(show_node))
        .route("/api/v1/hardware", get(show_hardware))
        .with_state(handler)
}

type Pairs = Parameters<Vec<(String, String)>>;

async fn show_nodes(State(handler): State<NodesHandler>, Parameters(pairs): Pairs) -> Response {
    match parse_nodes(&pairs) {
        Ok(query) => handler.page(move |view| view.nodes_page(&query)).await,
        Err(error) => refuse(StatusCode::BAD_REQUEST, &error),
    }
}

async fn show_node(State(handler): State<NodesHandler>, Path(text): Path<String>) -> Response {
    match name("node", Some(&text)) {
        Ok(Some(name)) => handler.page(move |view| view.node_page(&name)).await,
        Ok(None) => refuse(StatusCode::NOT_FOUND, "no such page"),
        Err(error) => refuse(StatusCode::BAD_REQUEST, &error),
    }
}

async fn show_hardware(State(handler): State<NodesHandler>, Parameters(pairs): Pairs) -> Response {
    match parse_hardware(&pairs) {
        Ok(query) => handler.page(move |view| view.hardware_page(&query)).await,
        Err(error) => refuse(StatusCode::BAD_REQUEST, &error),
    }
}

impl NodesHandler {
    async fn page<P: serde::Serialize + Send + 'static>(
        &self,
        page: impl FnOnce(&ReadView) -> Result<P, UnknownNode> + Send + 'static,
    ) -> Response {
        let turn = Arc::clone(&self.turn).lock_owned().await;
        let Some(source) = self.queries.send(Query::ReadView).await else { return ending() };
        let computed = spawn_blocking(move || {
            // A client that leaves does not begin another one's turn.
            let _turn = turn;
            page(&source.view).map(|page| Json(page).into_response())
        });
        match computed.await {
            Ok(Ok(response)) => response,
            Ok(Err(error)) => refuse(StatusCode::NOT_FOUND, &error),
            Err(_) => refuse(StatusCode::INTERNAL_SERVER_ERROR, "the page cannot be computed"),
        }
    }
}

fn parse_nodes(pairs: &[(String, String)]) -> Result<NodesQuery, BadRequest> {
    const KNOWN: [&str; 4] = ["node", "presence", "after", "limit"];
    let [node, presence, after, limit] = pick(pairs, KNOWN, "node, presence, after and limit")?;
    Ok(NodesQuery {
        node: name("node", node)?,
        presence: presence.map(parse_presence).transpose()?,
        after: name("after", after)?,
        limit: parse_limit(limit, NODES_PAGE_MAX)?,
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
        node: name("node", node)?,
        presence: None,
        after: name("after", after)?,
        limit: parse_limit(limit, HARDWARE_PAGE_MAX)?,
    };
    Ok(HardwareQuery { nodes, sensor: sensor.map(parse_sensor).transpose()? })
}

fn name(key: &'static str, text: Option<&str>) -> Result<Option<NodeName>, BadRequest> {
    text.map(|text| NodeName::new(text).map_err(|error| bad(key, text, &error))).transpose()
}

fn parse_presence(text: &str) -> Result<Presence, BadRequest> {
    let found = Presence::ALL.into_iter().find(|presence| presence.as_str() == text);
    found.ok_or_else(|| value("presence", text, "up, silent or left"))
}

fn parse_sensor(text: &str) -> Result<&'static Sensor, BadRequest> {
    let allowed = "a sensor, whose metric is plimsoll_node_<sensor>";
    sensor(text).ok_or_else(|| value("sensor", text, allowed))
}

fn parse_limit(text: Option<&str>, most: usize) -> Result<usize, BadRequest> {
    let Some(text) = text else { return Ok(most) };
    let found = text.parse().ok().filter(|limit| (1..=most).contains(limit));
    found.ok_or_else(|| value("limit", text, &format!("a whole number from 1 to {most}")))
}

fn refuse(status: StatusCode, why: &(impl ToString + ?Sized)) -> Response {
    (status, why.to_string() + "\n").into_response()
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
        assert_eq!(error, "presence is \"gone\"; it must be up, silent or left");
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
