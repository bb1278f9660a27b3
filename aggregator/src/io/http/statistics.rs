//! Summary statistics of one operation over HTTP. They are computed from the read view on a thread
//! of their own, one request at a time, so that any number of clients keeps at most one core busy.
//!
//! DESIGN A63.

use axum::Router;
use axum::extract::{Query, State};
use axum::response::Response;
use axum::routing::get;
use plimsoll_schemas::budget::Window;

use super::parameters::{BadRequest, Pairs, name, optional_name, pick, required, value};
use super::query::{QuerySender, ViewHandler};
use super::refusal::Refusal;
use crate::core::view::StatisticsQuery;

/// The value of `window` for all samples ever merged, which it also is without the parameter.
const TOTAL: &str = "total";

pub(super) fn routes(queries: QuerySender) -> Router {
    let show = get(show_statistics);
    Router::new().route("/api/v1/statistics", show).with_state(ViewHandler::new(queries))
}

async fn show_statistics(
    State(handler): State<ViewHandler>,
    Query(pairs): Pairs,
) -> Result<Response, Refusal> {
    let query = parse(&pairs)?;
    handler.page(move |view| view.statistics(&query)).await
}

fn parse(pairs: &[(String, String)]) -> Result<StatisticsQuery, BadRequest> {
    const KNOWN: [&str; 3] = ["operation", "node", "window"];
    let [operation, node, window] = pick(pairs, KNOWN, "operation, node and window")?;
    Ok(StatisticsQuery {
        operation: name("operation", required("operation", operation)?)?,
        node: optional_name("node", node)?,
        window: window.filter(|text| *text != TOTAL).map(parse_window).transpose()?,
    })
}

fn parse_window(text: &str) -> Result<Window, BadRequest> {
    let found = Window::ALL.into_iter().find(|window| window.as_str() == text);
    let all = || Window::ALL.map(Window::as_str).join(", ");
    found.ok_or_else(|| value("window", text, &format!("one of {}, {TOTAL}", all())))
}

#[cfg(test)]
mod tests {
    use plimsoll_schemas::ids::{NodeName, Operation};
    use proptest::prelude::*;

    use super::*;

    fn query(pairs: &[(&str, &str)]) -> Result<StatisticsQuery, String> {
        let owned: Vec<_> =
            pairs.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect();
        parse(&owned).map_err(|error| error.to_string())
    }

    #[test]
    fn node_and_window_are_optional() {
        let operation = Operation::new("epoch_hook").unwrap();
        let all = StatisticsQuery { operation, node: None, window: None };
        let named = ("operation", "epoch_hook");
        assert_eq!(query(&[named]), Ok(all.clone()));
        assert_eq!(query(&[named, ("window", "total")]), Ok(all.clone()));
        let node = Some(NodeName::new("n-1").unwrap());
        let some = StatisticsQuery { node, window: Some(Window::FiveMinutes), ..all };
        assert_eq!(query(&[("window", "5m"), ("node", "n-1"), named]), Ok(some));
    }

    #[test]
    fn a_bad_parameter_is_named_with_what_is_allowed() {
        let windows = "one of 10s, 1m, 5m, 30m, 1h, 2h, 6h, 1d, 3d, 30d, total";
        let named = ("operation", "o");
        let table: [(&[(&str, &str)], &str); 7] = [
            (&[], "operation is missing"),
            (&[named, named], "operation is given twice; give it once"),
            (&[named, ("window", "7m")], &format!("window is \"7m\"; it must be {windows}")),
            (&[named, ("window", "")], &format!("window is \"\"; it must be {windows}")),
            (
                &[named, ("quantile", "0.5")],
                "unknown parameter \"quantile\"; the parameters are operation, node and window",
            ),
            (
                &[named, ("node", "a b")],
                "node is \"a b\"; it must be a name: node name contains a space; allowed: letters, \
                 digits and '_.-'",
            ),
            (&[("operation", "")], "operation is \"\"; it must be a name: operation is empty"),
        ];
        for (pairs, text) in table {
            assert_eq!(query(pairs), Err(text.to_owned()));
        }
    }

    proptest! {
        #[test]
        fn arbitrary_parameters_never_panic(
            pairs in prop::collection::vec((
                prop_oneof![Just("operation".to_owned()), Just("window".to_owned()), any::<String>()],
                any::<String>(),
            ), 0..4),
        ) {
            if let Ok(query) = parse(&pairs) {
                prop_assert!(pairs.iter().any(|(_, of)| *of == query.operation.to_string()));
            }
        }
    }
}
