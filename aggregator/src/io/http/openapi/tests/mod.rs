//! Makes the document, and compares it with the one that is committed.
//!
//! What is stated by hand: routes and their answers in `paths.rs`, parameters that several of them
//! have in `parameters.rs`, and in `facts.rs` what the types of fields do not state.

mod facts;
mod parameters;
mod paths;
mod route;
mod schemas;

use std::collections::BTreeSet;
use std::{env, fs};

use serde_json::{Map, Value, json};

use self::schemas::Schemas;
use super::COMMITTED;

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src/io/http/openapi.json");
/// What is longer takes a line for each of its parts.
const COLUMNS: usize = 100;

const ABOUT: &str = "Times are seconds since 1970 in fields that end with `_seconds`; fields that \
    end with `_ns` are nanoseconds. The latencies of statistics, queries and heatmaps are seconds. \
    Counts are exact integers and may exceed 2^53, as names of runs (`incarnation`) do. An error \
    is one line of text that names the parameter or key at fault and the fix. A request that takes \
    longer than its time limit gets a 408 without a body. A request for a host that is not a name \
    of this aggregator gets a 421, and with `http.reader_token_file` one without a token a 401.";

#[test]
fn the_committed_document_is_that_of_the_types_and_routes() {
    let made = text(&document(), 0) + "\n";
    if env::var_os("PLIMSOLL_OPENAPI").is_some_and(|order| order == "write") {
        fs::write(FILE, &made).unwrap();
    }
    let committed = fs::read_to_string(FILE).unwrap();
    let mut lines = committed.lines().zip(made.lines()).filter(|(old, new)| old != new);
    let fix = "PLIMSOLL_OPENAPI=write cargo test -p plimsoll-aggregator --lib openapi";
    assert!(committed == made, "openapi.json differs at {:?}; write it: {fix}", lines.next());
}

#[test]
fn every_reference_of_the_document_has_its_target() {
    let document: Value = serde_json::from_str(COMMITTED).unwrap();
    let mut references = BTreeSet::new();
    collect(&document, &mut references);
    assert!(references.len() > 100);
    for reference in references {
        assert!(document.pointer(&reference[1..]).is_some(), "{reference}");
    }
}

fn collect(value: &Value, references: &mut BTreeSet<String>) {
    match value {
        Value::Object(fields) => {
            references.extend(fields.get("$ref").and_then(Value::as_str).map(str::to_owned));
            fields.values().for_each(|value| collect(value, references));
        }
        Value::Array(items) => items.iter().for_each(|value| collect(value, references)),
        _ => {}
    }
}

fn document() -> Value {
    let mut schemas = Schemas::new();
    let parameters = parameters::shared(&mut schemas);
    let mut paths = Map::new();
    for route in paths::all(&mut schemas) {
        let path = paths.entry(route.path).or_insert_with(|| json!({}));
        path[route.method] = route.operation;
    }
    let mut schemas = schemas.components();
    facts::state(&mut schemas);
    let tags = paths::TAGS.map(|(name, about)| json!({ "name": name, "description": about }));
    let license = json!({ "name": "Apache-2.0", "identifier": "Apache-2.0" });
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Plimsoll aggregator",
            "version": "{version}",
            "description": ABOUT,
            "license": license,
        },
        "servers": [{ "url": "/" }],
        "tags": tags,
        "paths": paths,
        "components": {
            "securitySchemes": security(),
            "parameters": parameters,
            "responses": route::shared(),
            "schemas": schemas,
        },
    })
}

fn security() -> Value {
    json!({
        "token": {
            "type": "http",
            "scheme": "bearer",
            "description": "The token of the aggregator's `http.token_file`. Only changes need it; \
                it reads, too.",
        },
        "reader": {
            "type": "http",
            "scheme": "bearer",
            "description": "The token of the aggregator's `http.reader_token_file`. If one is \
                set, everything but the probes needs it or the token of changes; a request without \
                gets a 401.",
        },
        "readerPassword": {
            "type": "http",
            "scheme": "basic",
            "description": "The same token as the password, with any user name, as browsers send \
                it.",
        },
    })
}

/// In one line if it fits or is a list of words, otherwise a line for each part.
fn text(value: &Value, indent: usize) -> String {
    let line = line(value);
    let is_words = value.as_array().is_some_and(|items| items.iter().all(|item| !item.is_object()));
    if is_words || line.len() + indent <= COLUMNS {
        return line;
    }
    let (open, parts, close) = match value {
        Value::Object(fields) => {
            let part = |(key, value): (&String, &Value)| {
                format!("{}: {}", json!(key), text(value, indent + 2))
            };
            ('{', fields.iter().map(part).collect::<Vec<_>>(), '}')
        }
        Value::Array(items) => {
            ('[', items.iter().map(|item| text(item, indent + 2)).collect(), ']')
        }
        _ => return line,
    };
    let begin = " ".repeat(indent);
    format!("{open}\n{begin}  {}\n{begin}{close}", parts.join(&format!(",\n{begin}  ")))
}

fn line(value: &Value) -> String {
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            let parts =
                fields.iter().map(|(key, value)| format!("{}: {}", json!(key), line(value)));
            format!("{{ {} }}", parts.collect::<Vec<_>>().join(", "))
        }
        Value::Array(items) => {
            format!("[{}]", items.iter().map(line).collect::<Vec<_>>().join(", "))
        }
        _ => value.to_string(),
    }
}
