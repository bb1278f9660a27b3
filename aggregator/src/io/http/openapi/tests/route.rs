//! One route: its parameters, its body, and what it answers.

use axum::http::StatusCode;
use serde_json::{Map, Value, json};

/// One method of one path.
pub(super) struct Route {
    pub(super) path: &'static str,
    pub(super) method: &'static str,
    pub(super) operation: Value,
}

/// Why a request has no other answer. Each is one line of text.
#[derive(Clone, Copy, Debug)]
pub(super) enum Refused {
    BadRequest,
    Unauthorized,
    Forbidden,
    NotFound,
    Conflict,
    RunConflict,
    ProfileConflict,
    TooLarge,
    TooManyStreams,
    Failed,
    Unavailable,
}

impl Refused {
    const ALL: [Self; 11] = [
        Self::BadRequest,
        Self::Unauthorized,
        Self::Forbidden,
        Self::NotFound,
        Self::Conflict,
        Self::RunConflict,
        Self::ProfileConflict,
        Self::TooLarge,
        Self::TooManyStreams,
        Self::Failed,
        Self::Unavailable,
    ];

    const fn status(self) -> StatusCode {
        match self {
            Self::BadRequest => StatusCode::BAD_REQUEST,
            Self::Unauthorized => StatusCode::UNAUTHORIZED,
            Self::Forbidden => StatusCode::FORBIDDEN,
            Self::NotFound => StatusCode::NOT_FOUND,
            Self::Conflict | Self::RunConflict | Self::ProfileConflict => StatusCode::CONFLICT,
            Self::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Self::TooManyStreams => StatusCode::TOO_MANY_REQUESTS,
            Self::Failed => StatusCode::INTERNAL_SERVER_ERROR,
            Self::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
        }
    }

    const fn description(self) -> &'static str {
        match self {
            Self::BadRequest => {
                "A parameter or the body is invalid: which one, and what is allowed"
            }
            Self::Unauthorized => "The token is missing or wrong",
            Self::Forbidden => "The aggregator has no token, so it rejects all changes",
            Self::NotFound => {
                "What was named is unknown, or no history is kept; with what to check"
            }
            Self::Conflict => "The alert is not active, or there are too many",
            Self::RunConflict => "The name was given before, or too many runs are running",
            Self::ProfileConflict => {
                "Too many captures are running, the capture is not, the name is taken, or the \
                 aggregator has no key or no state file"
            }
            Self::TooLarge => "The body is larger than 64 KiB",
            Self::TooManyStreams => "The client's address has its share of the streams",
            Self::Failed => "The answer cannot be computed",
            Self::Unavailable => "The process is starting, ending, or too busy: the reason",
        }
    }
}

/// The answers that several routes have.
pub(super) fn shared() -> Value {
    let metrics = ["text/plain", "application/openmetrics-text", "application/vnd.google.protobuf"];
    let of_metrics = "In the format that `Accept` prefers; as text without a preference";
    let mut all = json!({
        "Text": texts("One or more lines", &["text/plain"]),
        "Metrics": texts(of_metrics, &metrics),
    });
    for refused in Refused::ALL {
        all[format!("{refused:?}")] = texts(refused.description(), &["text/plain"]);
    }
    let challenge = json!({ "WWW-Authenticate": { "schema": { "type": "string" } } });
    all["Unauthorized"]["headers"] = challenge;
    all
}

/// A reference to one of them.
fn named(name: &str) -> Value {
    json!({ "$ref": format!("#/components/responses/{name}") })
}

/// An answer of these media types, which no schema describes further.
fn texts(description: &str, media_types: &[&str]) -> Value {
    let text =
        |media_type: &&str| ((*media_type).to_owned(), json!({ "schema": { "type": "string" } }));
    let content: Map<String, Value> = media_types.iter().map(text).collect();
    json!({ "description": description, "content": content })
}

fn json_of(schema: &Value) -> Value {
    json!({ "application/json": { "schema": schema } })
}

pub(super) fn get(path: &'static str, id: &str, summary: &str) -> Route {
    Route::new("get", path, id, summary)
}

/// A change, which needs the token.
pub(super) fn post(path: &'static str, id: &str, summary: &str) -> Route {
    Route::new("post", path, id, summary).with_token()
}

/// A change, which needs the token.
pub(super) fn delete(path: &'static str, id: &str, summary: &str) -> Route {
    Route::new("delete", path, id, summary).with_token()
}

impl Route {
    fn new(method: &'static str, path: &'static str, id: &str, summary: &str) -> Self {
        let operation = json!({ "operationId": id, "summary": summary, "responses": {} });
        Self { path, method, operation }
    }

    /// Of the group of routes.
    pub(super) fn tagged(mut self, tag: &str) -> Self {
        self.operation["tags"] = json!([tag]);
        self
    }

    fn with_token(mut self) -> Self {
        self.operation["security"] = json!([{ "token": [] }]);
        self.or(&[Refused::Unauthorized, Refused::Forbidden])
    }

    /// What the summary does not state.
    pub(super) fn about(mut self, description: &str) -> Self {
        self.operation["description"] = description.into();
        self
    }

    pub(super) fn takes(mut self, parameters: impl Into<Vec<Value>>) -> Self {
        self.operation["parameters"] = parameters.into().into();
        self.or(&[Refused::BadRequest])
    }

    pub(super) fn takes_body(mut self, is_required: bool, schema: &Value) -> Self {
        let body = json!({ "required": is_required, "content": json_of(schema) });
        self.operation["requestBody"] = body;
        self.or(&[Refused::BadRequest, Refused::TooLarge])
    }

    /// A page of JSON.
    pub(super) fn gives(self, description: &str, schema: &Value) -> Self {
        let page = json!({ "description": description, "content": json_of(schema) });
        self.answers(StatusCode::OK, page).or(&[Refused::Unavailable])
    }

    /// The same page in another form.
    pub(super) fn or_as(mut self, media_type: &str) -> Self {
        let bytes = json!({ "schema": { "type": "string", "contentMediaType": media_type } });
        self.operation["responses"]["200"]["content"][media_type] = bytes;
        self
    }

    /// What was created, and the operation that ends it, with the parameters that name it.
    pub(super) fn creates(self, description: &str, schema: &Value, links: Value) -> Self {
        let mut created = json!({ "description": description, "content": json_of(schema) });
        created["links"] = links;
        self.answers(StatusCode::CREATED, created).or(&[Refused::Unavailable])
    }

    /// Nothing more than that it is done.
    pub(super) fn ends(self, description: &str) -> Self {
        let ended = json!({ "description": description });
        self.answers(StatusCode::NO_CONTENT, ended).or(&[Refused::Unavailable])
    }

    /// A text of one of these media types.
    pub(super) fn gives_text(self, description: &str, media_types: &[&str]) -> Self {
        self.answers(StatusCode::OK, texts(description, media_types))
    }

    /// One of the answers of [`shared`].
    pub(super) fn gives_shared(self, name: &str) -> Self {
        self.answers(StatusCode::OK, named(name))
    }

    /// A file of the page, which browsers keep.
    pub(super) fn gives_file(self, description: &str, media_type: &str) -> Self {
        let unchanged = json!({ "description": "The client has it" });
        self.gives_text(description, &[media_type]).answers(StatusCode::NOT_MODIFIED, unchanged)
    }

    pub(super) fn or(self, reasons: &[Refused]) -> Self {
        reasons.iter().fold(self, |route, of| route.answers(of.status(), named(&format!("{of:?}"))))
    }

    pub(super) fn answers(mut self, status: StatusCode, answer: Value) -> Self {
        self.operation["responses"][status.as_str()] = answer;
        self
    }
}
