//! What the types of fields do not state: which words a text may be, the bounds of a number, and
//! what a body must be as a whole.

use std::collections::BTreeSet;

use plimsoll_schemas::hardware::CATALOGUE;
use plimsoll_schemas::limits::wire::{
    CAPTURE_HZ_MAX, CAPTURE_SECONDS_MAX, LABELS_MAX, TOKEN_BYTES_MAX,
};
use serde_json::{Map, Value, json};

use super::schemas::reference;
use crate::core::fleet::Trouble;
use crate::limits::alerts::{BY_BYTES_MAX, COMMENT_BYTES_MAX};

const BREAKER: [Option<&str>; 4] = [Some("closed"), Some("half_open"), Some("open"), None];
const BROKER: [&str; 4] = ["jetstream", "core", "silent", "disconnected"];
/// The units of latencies.
const UNIT: &str = "seconds";
const UNDELIVERABLE: [&str; 6] =
    ["refused", "attempts", "too_old", "queue_full", "no_room", "removed"];
const SPAN: &str = "^[1-9][0-9]{0,5}(ns|us|ms|s|m|h|d|w)( [1-9][0-9]{0,5}(ns|us|ms|s|m|h|d|w))*$";
const TIME: &str = "^(now(-[1-9][0-9]{0,5}(s|m|h|d))?|[0-9]{1,10}(\\.[0-9]{1,9})?|\
    20[0-9]{2}-(0[1-9]|1[0-2])-(0[1-9]|1[0-9]|2[0-8])[T ]([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]\
    (\\.[0-9]{1,9})?Z?)$";

/// States them in the schemas of the document.
pub(super) fn state(schemas: &mut Map<String, Value>) {
    schemas.extend(texts());
    for (field, fact) in everywhere() {
        for schema in schemas.values_mut() {
            if schema["properties"][field]["type"] == "string" {
                refine(&mut schema["properties"][field], &fact);
            }
        }
    }
    for (schema, field, fact) in answers().into_iter().chain(bodies()) {
        let field = schemas.get_mut(schema).and_then(|of| of["properties"].get_mut(field));
        refine(field.expect("a fact is about a field that there is"), &fact);
    }
    for (schema, fact) in wholes() {
        refine(schemas.get_mut(schema).expect("a fact is about a schema that there is"), &fact);
    }
}

/// Adds a fact. One that is a schema by itself replaces all but the description.
fn refine(schema: &mut Value, fact: &Value) {
    let (Some(schema), Some(fact)) = (schema.as_object_mut(), fact.as_object()) else { return };
    if ["$ref", "anyOf", "type"].iter().any(|key| fact.contains_key(*key)) {
        schema.retain(|key, _| key == "description");
    }
    schema.extend(fact.clone());
}

/// Texts that are parameters or parts of bodies.
fn texts() -> Map<String, Value> {
    let texts = json!({
        "Span": {
            "description": "A length of time with a unit, such as `10s` or `1h 30m`; not zero",
            "type": "string",
            "pattern": SPAN,
        },
        "Time": {
            "description": "Seconds since 1970, UTC in the form of RFC 3339, `now`, or `now-2h`",
            "type": "string",
            "pattern": TIME,
        },
        "Operator": {
            "description": "The operator's name, without control characters",
            "type": "string",
            "minLength": 1,
            "maxLength": BY_BYTES_MAX,
        },
        "Comment": {
            "description": "Without control characters",
            "type": "string",
            "maxLength": COMMENT_BYTES_MAX,
        },
    });
    texts.as_object().cloned().unwrap_or_default()
}

/// By field: what a text is, in whichever page.
fn everywhere() -> [(&'static str, Value); 7] {
    [
        ("mesh", reference("MeshName")),
        ("node", reference("NodeName")),
        ("operation", reference("Operation")),
        ("budget", reference("RuleName")),
        ("resolution", reference("Resolution")),
        ("broker", json!({ "enum": BROKER })),
        ("unit", json!({ "const": UNIT })),
    ]
}

/// By schema and field, of what the aggregator sends.
fn answers() -> Vec<(&'static str, &'static str, Value)> {
    let troubles =
        json!({ "items": { "type": "string", "enum": Trouble::ALL.map(Trouble::as_str) } });
    let units: BTreeSet<_> = CATALOGUE.iter().filter_map(|sensor| sensor.unit()).collect();
    let units: Vec<_> = units.into_iter().map(Some).chain([None]).collect();
    let names = json!({ "items": reference("RuleName") });
    let share = json!({ "minimum": 0, "maximum": 1 });
    let by_window = json!({ "propertyNames": reference("Window") });
    // Nodes keep seconds.
    let resolution = json!({ "anyOf": [reference("Resolution"), { "const": "1s" }] });
    vec![
        ("HeadroomRow", "troubles", troubles.clone()),
        ("HistoryPage", "resolution", resolution),
        ("LeastHeadroom", "headroom", json!({ "maximum": 1 })),
        ("NodeOutbox", "breaker", json!({ "enum": BREAKER })),
        ("NodeStatus", "troubles", troubles),
        ("OperationRow", "windows", by_window.clone()),
        ("Outbox", "age_seconds", json!({ "minimum": 0 })),
        ("Outbox", "pressure", json!({ "minimum": 0 })),
        ("Reading", "unit", json!({ "enum": units })),
        ("RollupRow", "windows", by_window),
        ("Summary", "insufficient", names.clone()),
        ("Summary", "presence", json!({ "propertyNames": reference("Presence") })),
        ("Summary", "unmatched", names),
        ("Undeliverable", "reason", json!({ "enum": UNDELIVERABLE })),
        ("WorstNode", "over_ratio", share.clone()),
        ("WorstNode", "share", share.clone()),
        ("WorstNode", "share_of_slow", share),
    ]
}

/// By schema and field, of bodies.
fn bodies() -> Vec<(&'static str, &'static str, Value)> {
    let or_null = |name| json!({ "anyOf": [reference(name), { "type": "null" }] });
    let not_negative = json!({ "minimum": 0 });
    let between = |max: u32| json!({ "minimum": 1, "maximum": max });
    let labels = json!({
        "type": "object",
        "maxProperties": LABELS_MAX,
        "propertyNames": { "pattern": "^[A-Za-z0-9_.-]{1,64}$" },
        "additionalProperties": { "type": "string", "pattern": "^[A-Za-z0-9 _.-]{1,64}$" },
    });
    // An alert of the fleet has no node, or an empty one.
    let node = json!({ "pattern": "^[A-Za-z0-9_.-]*$", "maxLength": TOKEN_BYTES_MAX });
    let mut facts = vec![
        ("AcknowledgementRequest", "node", node),
        ("AcknowledgementRequest", "rule", reference("RuleName")),
        ("MatchRequest", "node", or_null("Pattern")),
        ("MatchRequest", "operation", or_null("Pattern")),
        ("MatchRequest", "rule", or_null("Pattern")),
        ("ProfileRequest", "hz", between(CAPTURE_HZ_MAX)),
        ("ProfileRequest", "labels", labels.clone()),
        ("ProfileRequest", "node", or_null("NodeName")),
        ("ProfileRequest", "operation", or_null("Operation")),
        ("ProfileRequest", "pid", between(i32::MAX.cast_unsigned())),
        ("ProfileRequest", "seconds", between(CAPTURE_SECONDS_MAX)),
        ("KeepRequest", "name", json!({ "pattern": "^[A-Za-z0-9_.-]{1,64}$" })),
        ("RunRequest", "by", or_null("Operator")),
        ("RunRequest", "labels", labels),
        ("RunRequest", "name", reference("RunName")),
        ("SilenceRequest", "from_seconds", not_negative.clone()),
    ];
    for schema in ["AcknowledgementRequest", "SilenceRequest"] {
        facts.extend([
            (schema, "by", reference("Operator")),
            (schema, "comment", reference("Comment")),
            (schema, "for", or_null("Span")),
            (schema, "until_seconds", not_negative.clone()),
        ]);
    }
    facts
}

/// Of whole bodies: what they must have, and an example.
fn wholes() -> [(&'static str, Value); 7] {
    let end = json!([
        {
            "required": ["for"],
            "properties": { "for": { "type": "string" }, "until_seconds": { "type": "null" } },
        },
        {
            "required": ["until_seconds"],
            "properties": { "for": { "type": "null" }, "until_seconds": { "type": "number" } },
        },
    ]);
    let acknowledgement =
        json!({ "rule": "epoch_hook", "operation": "epoch_hook", "by": "bob", "for": "4h" });
    let silence =
        json!({ "match": { "node": "n7" }, "by": "ann", "comment": "new disks", "for": "2h" });
    let none = json!({ "type": "null" });
    let process = json!([
        {
            "required": ["node", "pid"],
            "properties": {
                "pid": { "type": "integer" },
                "operation": none,
                "labels": { "maxProperties": 0 },
            },
        },
        {
            "required": ["node", "operation"],
            "properties": { "pid": none, "operation": { "type": "string" } },
        },
        {
            "required": ["kind", "from", "to"],
            "properties": {
                "kind": { "const": "past" },
                "pid": none,
                "operation": none,
                "labels": { "maxProperties": 0 },
            },
        },
    ]);
    let profile = json!({ "node": "n7", "operation": "epoch_hook", "labels": { "rank": "3" } });
    [
        ("AcknowledgementRequest", json!({ "oneOf": end, "example": acknowledgement })),
        ("MatchRequest", json!({ "minProperties": 1 })),
        ("SilenceMatch", json!({ "minProperties": 1 })),
        ("ProfileRequest", json!({ "oneOf": process, "example": profile })),
        ("RunRequest", json!({ "example": { "name": "v43", "by": "ann" } })),
        ("SilenceRequest", json!({ "oneOf": end, "example": silence })),
        ("StopRequest", json!({ "example": { "exit_code": 0 } })),
    ]
}
