//! A body for a webhook: JSON with `{{ field }}` where a notification's fields go. It has no
//! conditions, no loops and no unknown fields. Errors in a template are reported at the start.
//!
//! Within a string a field is text, escaped as JSON demands; elsewhere it is a JSON value. A
//! receiver may read that text as markup: `{{ field | slack }}` has nothing in it that Slack takes
//! for its own.

use std::collections::BTreeMap;

use serde_json::Value;
use thiserror::Error;

/// The fields of one notification, by name.
pub type Fields = BTreeMap<&'static str, Value>;

/// A template whose output is always valid JSON.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template(Vec<Piece>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    Text(String),
    Field(Placed),
}

/// A field at its place.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Placed {
    name: String,
    /// Whether it is within a string.
    is_quoted: bool,
    /// Whether the text is escaped for Slack.
    is_for_slack: bool,
}

#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum TemplateError {
    #[error("line {0}: {{{{ without }}}} in the same line")]
    Open(usize),
    #[error("line {line}: unknown field {name:?}; the fields are {known}")]
    Unknown {
        /// Where, counted from 1.
        line: usize,
        name: String,
        known: String,
    },
    #[error("line {line}: unknown filter {name:?}; the only filter is slack, within a string")]
    Filter {
        /// Where, counted from 1.
        line: usize,
        name: String,
    },
    #[error("line {line}: not valid JSON after substitution: {what}")]
    NotJson {
        /// Where, counted from 1, once it is filled in.
        line: usize,
        what: String,
    },
}

impl Template {
    /// Reads a template and tries it with the fields of a sample.
    ///
    /// # Errors
    /// Names the line and what is wrong with it.
    pub fn read(text: &str, sample: &Fields) -> Result<Self, TemplateError> {
        let (mut pieces, mut rest, mut quoted) = (Vec::new(), text, false);
        let line_of = |rest: &str| text[..text.len() - rest.len()].matches('\n').count() + 1;

        while let Some((before, after)) = rest.split_once("{{") {
            quoted = ends_in_string(before, quoted);
            let line = line_of(after);
            let inner = after.split_once("}}").filter(|(name, _)| !name.contains('\n'));
            let (name, behind) = inner.ok_or(TemplateError::Open(line))?;

            let (name, filter) = name.split_once('|').unwrap_or((name, ""));
            let (name, filter) = (name.trim().to_owned(), filter.trim());
            if !matches!((filter, quoted), ("", _) | ("slack", true)) {
                return Err(TemplateError::Filter { line, name: filter.to_owned() });
            }

            if !sample.contains_key(name.as_str()) {
                let known = sample.keys().copied().collect::<Vec<_>>().join(", ");
                return Err(TemplateError::Unknown { line, name, known });
            }

            let placed = Placed { name, is_quoted: quoted, is_for_slack: filter == "slack" };
            pieces.extend([Piece::Text(before.to_owned()), Piece::Field(placed)]);
            rest = behind;
        }

        pieces.push(Piece::Text(rest.to_owned()));

        // Its output must be JSON whatever the fields hold, which a sample shows.
        let template = Self(pieces);
        let body = template.fill(sample);

        match serde_json::from_str::<serde::de::IgnoredAny>(&body) {
            Ok(_) => Ok(template),
            // Its own text may quote a value, and that may be a secret.
            Err(error) => {
                let (line, what) = (error.line(), format!("column {}", error.column()));
                Err(TemplateError::NotJson { line, what })
            }
        }
    }

    /// The body for a notification.
    pub fn fill(&self, fields: &Fields) -> String {
        let mut body = String::new();
        for piece in &self.0 {
            match piece {
                Piece::Text(text) => body.push_str(text),
                Piece::Field(Placed { name, is_quoted, is_for_slack }) => {
                    let value = fields.get(name.as_str()).unwrap_or(&Value::Null);
                    body.push_str(&match (is_quoted, is_for_slack) {
                        (false, _) => value.to_string(),
                        (true, false) => in_string(value),
                        (true, true) => for_slack(&in_string(value)),
                    });
                }
            }
        }

        body
    }
}

/// Whether a string of JSON is open at the end of a text, given whether one was at its begin.
fn ends_in_string(text: &str, mut quoted: bool) -> bool {
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        match character {
            '"' => quoted = !quoted,
            '\\' if quoted => drop(characters.next()),
            _ => {}
        }
    }
    quoted
}

/// Slack's three characters of markup, as it wants them where they are text.
fn for_slack(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

fn in_string(value: &Value) -> String {
    let text = match value {
        Value::Null => return String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let quoted = Value::String(text).to_string();
    quoted[1..quoted.len() - 1].to_owned()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn fields(value: Value) -> Fields {
        Fields::from([("a", value), ("b", json!(7))])
    }

    #[test]
    fn errors_state_their_line() {
        let read = |text: &str| Template::read(text, &fields(json!("x"))).unwrap_err().to_string();
        for (text, error) in [
            ("{\n\"k\": \"{{ c }}\"}", "line 2: unknown field \"c\"; the fields are a, b"),
            ("{\n\n\"k\": {{ a }", "line 3: {{ without }} in the same line"),
            ("{\"k\": {{ a \n}}", "line 1: {{ without }} in the same line"),
            ("{\n\"k\": {{ a }},\n}", "line 3: not valid JSON after substitution: column 1"),
            (
                "\n\"{{ a | html }}\"",
                "line 2: unknown filter \"html\"; the only filter is slack, within a string",
            ),
            (
                "{{ a | slack }}",
                "line 1: unknown filter \"slack\"; the only filter is slack, within a string",
            ),
            ("{{ }}", "line 1: unknown field \"\"; the fields are a, b"),
        ] {
            assert_eq!(read(text), error, "{text}");
        }
    }

    #[test]
    fn a_field_is_text_within_a_string_and_a_value_elsewhere() {
        let text = r#"{"s": "\" {{ a }} {{b}}", "v": {{ a }}, "n": {{ b }}}"#;
        let fields = fields(json!({"k": "v\"\n"}));
        let body = Template::read(text, &fields).unwrap().fill(&fields);
        let body: Value = serde_json::from_str(&body).unwrap();
        assert_eq!(body["s"], json!("\" {\"k\":\"v\\\"\\n\"} 7"));
        assert_eq!((&body["v"], &body["n"]), (&json!({"k": "v\"\n"}), &json!(7)));
    }

    #[test]
    fn the_template_for_slack_escapes_every_text() {
        let text = include_str!("../../../../templates/slack.json");
        let fields = text.split("{{ ").skip(1).map(|rest| rest.split(" }}").next().unwrap());
        let plain: Vec<&str> = fields.filter(|field| !field.ends_with("| slack")).collect();
        assert_eq!(plain, ["color"]);
    }

    proptest! {
        #[test]
        fn no_value_breaks_out_of_its_place(
            value in any::<String>(),
            text in "[a-z\"\\\\{} ]{0,30}",
        ) {
            let sample = fields(json!("x"));
            let own = r#"{"k": "<{{ a }}>", "v": [{{ a }}], "s": "{{ a|slack }}"}"#;
            let template = Template::read(own, &sample).unwrap();
            let body = template.fill(&fields(json!(value)));
            let body: Value = serde_json::from_str(&body).unwrap();
            let slack = body["s"].as_str().unwrap();
            prop_assert!(!slack.contains(['<', '>']), "{}", slack);
            let read = slack.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&");
            prop_assert_eq!(&read, &value);
            prop_assert_eq!(&body["k"], &json!(format!("<{value}>")));
            prop_assert_eq!(&body["v"], &json!([value]));
            // No template panics.
            drop(Template::read(&text, &sample));
        }
    }
}
