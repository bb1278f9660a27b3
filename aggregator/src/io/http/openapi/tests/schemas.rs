//! The schemas of types, from their serde attributes and doc comments.

use schemars::JsonSchema;
use schemars::generate::{SchemaGenerator, SchemaSettings};
use serde_json::{Map, Value, json};

/// Where references point.
const PLACE: &str = "/components/schemas";

/// A reference to a schema by its name.
pub(super) fn reference(name: &str) -> Value {
    json!({ "$ref": format!("#{PLACE}/{name}") })
}

/// The schemas that the document refers to.
pub(super) struct Schemas {
    /// Of what the aggregator sends.
    sent: SchemaGenerator,
    /// Of what it reads: what has a default may be left out.
    read: SchemaGenerator,
}

impl Schemas {
    pub(super) fn new() -> Self {
        let settings =
            || SchemaSettings::draft2020_12().with(|of| of.definitions_path = PLACE.into());
        Self {
            sent: settings().for_serialize().into_generator(),
            read: settings().for_deserialize().into_generator(),
        }
    }

    /// A reference to the schema of a type that answers and parameters have.
    pub(super) fn of<T: JsonSchema>(&mut self) -> Value {
        self.sent.subschema_for::<T>().to_value()
    }

    /// A reference to the schema of a body.
    pub(super) fn of_body<T: JsonSchema>(&mut self) -> Value {
        self.read.subschema_for::<T>().to_value()
    }

    /// All of them by name.
    pub(super) fn components(mut self) -> Map<String, Value> {
        let mut sent = self.sent.take_definitions(false);
        sent.values_mut().for_each(never_null_where_absent);
        let mut all = self.read.take_definitions(false);
        all.extend(sent);
        all.values_mut().for_each(polish);
        all
    }
}

/// A field that may be absent is never null: serde leaves out those that are `None`.
fn never_null_where_absent(schema: &mut Value) {
    let required = schema.get("required").cloned().unwrap_or_default();
    let may_be_absent =
        |name: &String| required.as_array().is_none_or(|all| !all.contains(&json!(name)));
    let fields = schema.get_mut("properties").and_then(Value::as_object_mut);
    for (_, field) in fields.into_iter().flatten().filter(|(name, _)| may_be_absent(name)) {
        if field["type"][1] == "null" {
            field["type"] = field["type"][0].take();
        }
        if field["anyOf"][1]["type"] == "null" {
            field["$ref"] = field["anyOf"][0]["$ref"].take();
            field.as_object_mut().and_then(|field| field.remove("anyOf"));
        }
    }
}

/// Leaves out what is of no use to a client: the defaults are for pages of older versions, and each
/// number of JSON is a double.
fn polish(value: &mut Value) {
    match value {
        Value::Object(schema) => {
            schema.retain(|key, part| key != "default" && !(key == "format" && part == "double"));
            fold_words(schema);
            fold_pair(schema);
            if let Some(Value::String(text)) = schema.get_mut("description") {
                *text = plain(text);
            }
            schema.values_mut().for_each(polish);
        }
        Value::Array(items) => items.iter_mut().for_each(polish),
        _ => {}
    }
}

/// A choice of words is an `enum`; what each of them means goes to the description.
fn fold_words(schema: &mut Map<String, Value>) {
    let Some(Value::Array(choices)) = schema.get("oneOf") else { return };
    let words: Vec<Value> = choices.iter().filter_map(|of| of.get("const").cloned()).collect();
    if words.len() < choices.len() {
        return;
    }
    let meaning =
        |of: &Value| Some(format!("`{}`: {}", of["const"].as_str()?, of["description"].as_str()?));
    let about = schema.get("description").and_then(Value::as_str).map(str::to_owned);
    let about: Vec<String> = about.into_iter().chain(choices.iter().filter_map(meaning)).collect();
    schema.remove("oneOf");
    schema.insert("type".to_owned(), "string".into());
    schema.insert("enum".to_owned(), words.into());
    schema.insert("description".to_owned(), about.join(" ").into());
}

/// Of a tuple of equal parts the part is stated once.
fn fold_pair(schema: &mut Map<String, Value>) {
    let Some(Value::Array(parts)) = schema.get("prefixItems") else { return };
    let first = parts[0].clone();
    if parts.iter().all(|part| *part == first) {
        schema.remove("prefixItems");
        schema.insert("items".to_owned(), first);
    }
}

/// A doc comment without what is for Rust alone: links, and the words for what JSON calls null.
fn plain(text: &str) -> String {
    let lines = text.lines().filter(|line| !(line.starts_with("[`") && line.contains("]: ")));
    let text = lines.collect::<Vec<_>>().join(" ");
    let words = [("[`", "`"), ("`]", "`"), ("`Self::", "`"), ("`None`", "null"), ("  ", " ")];
    let text = words.iter().fold(text, |text, (rust, json)| text.replace(rust, json));
    text.trim().to_owned()
}
