//! Parameters: how one is stated, and those that several routes have.

use std::ops::RangeInclusive;

use plimsoll_schemas::ids::{NodeName, Operation, RunName};
use plimsoll_schemas::limits::api::QUERY_METRICS_MAX;
use plimsoll_schemas::limits::wire::{LABEL_VALUE_BYTES_MAX, LABELS_MAX};
use serde_json::{Map, Value, json};

use super::schemas::{Schemas, reference};
use crate::limits::captures::FUNCTIONS_MAX;
use crate::limits::{
    HISTORY_LIMITS_MAX, HISTORY_NODES_MAX, HISTORY_QUANTILES_MAX, METRIC_DIVISORS_MAX,
    ROLLUP_LABELS_MAX,
};

/// A parameter of the query. The schema of one that may be repeated is an array.
pub(super) fn query(name: &str, description: &str, schema: Value) -> Value {
    let mut parameter = json!({ "name": name, "in": "query", "description": description });
    parameter["schema"] = schema;
    parameter
}

/// A part of the path.
pub(super) fn of_path(name: &str, description: &str, schema: Value, example: Value) -> Value {
    let mut parameter = required(query(name, description, schema), example);
    parameter["in"] = "path".into();
    parameter
}

/// One without which a request is rejected.
pub(super) fn required(mut parameter: Value, example: Value) -> Value {
    parameter["required"] = true.into();
    with_example(parameter, example)
}

pub(super) fn with_example(mut parameter: Value, example: Value) -> Value {
    parameter["example"] = example;
    parameter
}

/// One whose values are separated by commas.
fn separated(mut parameter: Value, example: Value) -> Value {
    parameter["style"] = "form".into();
    parameter["explode"] = false.into();
    with_example(parameter, example)
}

pub(super) fn whole_number(bounds: RangeInclusive<usize>, default: usize) -> Value {
    let (least, most) = bounds.into_inner();
    json!({ "type": "integer", "minimum": least, "maximum": most, "default": default })
}

pub(super) fn many(lengths: RangeInclusive<usize>, items: Value) -> Value {
    let (least, most) = lengths.into_inner();
    let mut array = json!({ "type": "array", "minItems": least, "maxItems": most });
    array["items"] = items;
    array
}

/// One of those that [`shared`] states.
pub(super) fn named(name: &str) -> Value {
    json!({ "$ref": format!("#/components/parameters/{name}") })
}

/// The parameters that several routes have.
pub(super) fn shared(schemas: &mut Schemas) -> Map<String, Value> {
    let (node, operation) = (schemas.of::<NodeName>(), schemas.of::<Operation>());
    let after = "Only nodes whose names come after this one: `next` of the page before";
    let id = json!({ "type": "string", "pattern": "^[0-9a-f]{32}$" });
    let profile =
        json!({ "type": "string", "pattern": "^([0-9a-f]{32}|name:[A-Za-z0-9_.-]{1,64})$" });
    let about_id = "The capture's id, or `name:` and the name under which its profile is kept";
    let (about_a, about_b) = ("The profile of before", "The one that may have more");
    let about_redact = "What has pseudonyms: `true` or `names` are files, threads and nodes; \
                        `functions` are these and functions";
    let one_of =
        |words: &[&str], default| json!({ "type": "string", "enum": words, "default": default });
    let redacted = one_of(&["false", "true", "names", "functions"], "false");
    let states = one_of(&["running", "waiting", "gil", "all"], "all");
    let own = [
        ("node", with_example(query("node", "Only this node", node.clone()), json!("n7"))),
        ("after", query("after", after, node)),
        (
            "operation",
            required(query("operation", "The operation", operation.clone()), json!("epoch_hook")),
        ),
        (
            "operation_or_metric",
            with_example(
                query("operation", "The operation; left out with `metric`", operation.clone()),
                json!("epoch_hook"),
            ),
        ),
        (
            "metric",
            query(
                "metric",
                "A counter or gauge instead of an operation; of several, pages of all",
                many(1..=QUERY_METRICS_MAX, operation.clone()),
            ),
        ),
        (
            "per",
            query(
                "per",
                "With `metric`: counters by whose sum it is divided, one parameter for each",
                many(1..=METRIC_DIVISORS_MAX, operation),
            ),
        ),
        ("run", of_path("name", "The run's name", schemas.of::<RunName>(), json!("v42"))),
        ("capture", of_path("id", "The capture's id", id, json!("0".repeat(32)))),
        ("profile", of_path("id", about_id, profile.clone(), json!("0".repeat(32)))),
        ("profile_a", required(query("a", about_a, profile.clone()), json!("name:v41"))),
        ("profile_b", required(query("b", about_b, profile.clone()), json!("0".repeat(32)))),
        (
            "minus",
            query("minus", "The profile that is subtracted, such as that of a peer", profile),
        ),
        ("redact", query("redact", about_redact, redacted)),
        ("state", query("state", "Threads in this state alone", states)),
        ("functions", query("n", "Functions that are ranked", whole_number(1..=FUNCTIONS_MAX, 20))),
    ];
    let all = own.into_iter().chain(of_range()).chain(of_figures()).chain(of_history());
    all.map(|(name, parameter)| (name.to_owned(), parameter)).collect()
}

fn of_range() -> [(&'static str, Value); 4] {
    let (time, span) = (reference("Time"), reference("Span"));
    let last = "Length of the range up to its end, instead of `from`";
    let step = query("step", "Length of a point or column", span.clone());
    [
        ("from", with_example(query("from", "Begin of the range", time.clone()), json!("now-1h"))),
        ("to", query("to", "End of the range, by default now", time)),
        ("last", query("last", last, span)),
        ("step", with_example(step, json!("1m"))),
    ]
}

fn of_figures() -> [(&'static str, Value); 3] {
    let quantile = json!({ "type": "number", "minimum": 0, "maximum": 1 });
    let mut quantiles = many(0..=HISTORY_QUANTILES_MAX, quantile);
    quantiles["default"] = json!([0.5, 0.9, 0.99, 0.999]);
    let about_quantiles = format!("At most {HISTORY_QUANTILES_MAX} quantiles");
    let limits = many(0..=HISTORY_LIMITS_MAX, reference("Span"));
    let about_limits =
        format!("At most {HISTORY_LIMITS_MAX} limits over which samples are counted");
    let choice = json!({ "type": "boolean", "default": false });
    let distribution = "Whether each point has its samples by bucket";
    [
        ("distribution", query("distribution", distribution, choice)),
        ("over", separated(query("over", &about_limits, limits), json!(["18ms"]))),
        (
            "quantiles",
            separated(query("quantiles", &about_quantiles, quantiles), json!([0.5, 0.99])),
        ),
    ]
}

fn of_history() -> [(&'static str, Value); 6] {
    let text = json!({ "type": "string", "maxLength": LABEL_VALUE_BYTES_MAX });
    let node = json!({ "type": "string", "pattern": "^([A-Za-z0-9_.-]{1,64}|\\*)$" });
    let about_nodes = "Nodes to ask for their own histories, one parameter for each; `*` for all";
    let asked = query("node", about_nodes, many(1..=HISTORY_NODES_MAX, node));
    let label = json!({ "type": "string", "pattern": "^[A-Za-z0-9_.-]{1,64}=[A-Za-z0-9]{1,64}$" });
    let about_labels = "With `node`: labels that a series or its node must have, as `key=value`";
    let about_values = "Values of the roll-up's labels, in their order: one parameter for each";
    [
        ("any_sensor", query("sensor", "Only this sensor", text.clone())),
        ("asked_node", asked.clone()),
        ("asked_node_required", required(asked, json!(["*"]))),
        ("label", query("label", about_labels, many(1..=LABELS_MAX, label))),
        ("rollup", query("rollup", "The roll-up; without it, the fleet", text.clone())),
        ("value", query("value", about_values, many(1..=ROLLUP_LABELS_MAX, text))),
    ]
}
