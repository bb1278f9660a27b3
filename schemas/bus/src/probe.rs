//! One look at a broker: its version, JetStream, the mesh's streams and what these credentials may
//! do. Nothing is created, changed or stored.
//!
//! DESIGN A122.

use std::future::ready;
use std::time::Duration;

use async_nats::header::{HeaderMap, HeaderName};
use async_nats::{Client, Event, ServerError};
use futures_util::StreamExt;
use plimsoll_schemas::remote_text::one_line;
use plimsoll_schemas::subject::{Lane, alert_filter, alert_stream, dead_filter, dead_stream};
use serde::Deserialize;
use serde_json::Value;
use thiserror::Error;
use tokio::sync::mpsc;
use tokio::time::timeout;

use crate::api::{self, ApiError, code};
use crate::config::BusConfig;
use crate::error::BusError;
use crate::faults;
use crate::lanes::Lanes;
use crate::limits::{EVENTS_MAX, REQUEST_WAIT};
use crate::streams::taker;

/// A stream of this name does not exist: a message that expects to be stored in it is rejected.
const EXPECTED_STREAM: (&str, &str) = ("Nats-Expected-Stream", "PLIMSOLL_never_stored");
/// Silence after the broker's answer, by which the client has passed on every denial before it.
const QUIET: Duration = Duration::from_millis(100);

/// What credentials are tried for. Nothing is sent to a subject without JetStream, since only a
/// stream rejects a message before anyone receives it.
#[derive(Clone, Debug, Default)]
pub struct ProbePlan {
    /// Subjects that are subscribed to, for an instant.
    pub subscribe: Vec<String>,
    /// Subjects that an empty message is published to, which no stream stores.
    pub publish: Vec<String>,
    /// Whether the streams are looked at, which nodes need not be permitted.
    pub has_streams: bool,
}

/// What a broker is and permits.
#[derive(Clone, Debug)]
pub struct BrokerReport {
    pub version: String,
    /// Whether it requires TLS.
    pub requires_tls: bool,
    /// Whether it requires credentials.
    pub requires_credentials: bool,
    /// Its `max_payload`: bytes of a message with its headers that it takes.
    pub payload_bytes_max: usize,
    /// Its JetStream, for these credentials.
    pub jetstream: JetStreamState,
    /// The mesh's streams, if they were looked at and JetStream answers.
    pub streams: Vec<StreamReport>,
    /// What these credentials may not do.
    pub denied: Vec<Denial>,
}

/// Whether there is JetStream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JetStreamState {
    Enabled,
    /// The broker, or the account, has none.
    Absent,
    /// It does not answer, as when `$JS.API.>` or `_INBOX.>` is not permitted.
    Silent,
}

/// A permission that is missing.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Denial {
    /// True to publish, false to subscribe.
    pub is_publish: bool,
    pub subject: String,
}

/// One stream of the mesh.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamReport {
    pub name: String,
    /// `None` when there is none.
    pub state: Option<StreamState>,
    /// A stream of another name that takes the subjects of a missing one.
    pub taken_by: Option<String>,
}

/// The extent and the limits of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamState {
    pub messages: u64,
    /// Their bytes.
    pub bytes: u64,
    /// When its first and its last message were stored, as the broker writes it (RFC 3339).
    pub first_at: String,
    /// The same of the last one.
    pub last_at: String,
    pub last_seq: u64,
    /// Bytes at which it drops or refuses messages; negative without a limit.
    pub bytes_max: i64,
    /// Age in nanoseconds at which it drops messages; 0 without a limit.
    pub age_max_ns: u64,
    /// True if a full stream refuses new messages rather than dropping the oldest.
    pub refuses_when_full: bool,
}

/// Why there is no report.
#[derive(Debug, Error)]
pub enum ProbeError {
    /// The settings cannot be used.
    #[error(transparent)]
    Config(#[from] BusError),
    /// There is no connection.
    #[error("{0}")]
    Unreachable(String),
}

#[derive(Deserialize)]
struct Info {
    state: InfoState,
    #[serde(default)]
    config: InfoConfig,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct InfoState {
    messages: u64,
    bytes: u64,
    last_seq: u64,
    first_ts: String,
    last_ts: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct InfoConfig {
    max_bytes: i64,
    max_age: u64,
    discard: String,
}

/// Looks at the broker of `config`. Takes some seconds at most.
///
/// # Errors
/// When the settings are invalid or no address of theirs answers.
pub async fn probe(config: &BusConfig, plan: &ProbePlan) -> Result<BrokerReport, ProbeError> {
    // An error means that a provider is there already.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let (events, mut denials) = mpsc::channel(EVENTS_MAX);
    let client = connect(config, events).await?;
    let info = client.server_info();

    let jetstream = match api::call::<Value>(&client, "INFO", &Value::Null).await {
        Ok(_)
        | Err(
            ApiError::Refused { .. }
            | ApiError::Unreadable(_)
            | ApiError::SubjectsTaken(_)
            | ApiError::Leaderless
            | ApiError::Unfinished,
        ) => JetStreamState::Enabled,
        Err(ApiError::Absent) => JetStreamState::Absent,
        Err(ApiError::Silent) => JetStreamState::Silent,
    };

    let has_streams = plan.has_streams && jetstream == JetStreamState::Enabled;
    let streams = if has_streams { streams(&client, &config.lanes()).await } else { Vec::new() };
    try_permissions(&client, plan, jetstream).await;
    let mut denied = Vec::new();
    while let Ok(Some(denial)) = timeout(QUIET, denials.recv()).await {
        denied.push(denial);
    }
    denied.sort();
    denied.dedup();

    Ok(BrokerReport {
        version: info.version,
        requires_tls: info.tls_required,
        requires_credentials: info.auth_required,
        payload_bytes_max: info.max_payload,
        jetstream,
        streams,
        denied,
    })
}

async fn connect(config: &BusConfig, events: mpsc::Sender<Denial>) -> Result<Client, ProbeError> {
    let addresses = config.addresses()?;
    config.check()?;
    let options = config.identification(&addresses);

    let options = options
        .name(&config.connection_name)
        .connection_timeout(REQUEST_WAIT)
        .request_timeout(Some(REQUEST_WAIT))
        .max_reconnects(1)
        .event_callback(move |event| {
            if let Some(denial) = denial(&event) {
                let _as_many_as_there_are_subjects = events.try_send(denial);
            }
            ready(())
        });

    match timeout(REQUEST_WAIT, options.connect(addresses)).await {
        Ok(Ok(client)) => Ok(client),
        Ok(Err(error)) => Err(ProbeError::Unreachable(unreachable(&error.to_string()))),
        Err(_) => Err(ProbeError::Unreachable(unreachable("timed out"))),
    }
}

fn unreachable(text: &str) -> String {
    one_line(&faults::explained(text))
}

fn denial(event: &Event) -> Option<Denial> {
    let Event::ServerError(ServerError::Other(text)) = event else { return None };
    let (kind, subject) = text.split_once('"')?;
    let kind = kind.to_lowercase();
    let is_publish = kind.contains("for publish to");
    let is_denial = is_publish || kind.contains("for subscription to");
    let subject = subject.split('"').next().unwrap_or_default().to_owned();
    is_denial.then_some(Denial { is_publish, subject })
}

async fn streams(client: &Client, own: &Lanes) -> Vec<StreamReport> {
    let mesh = &own.mesh;
    let lanes = Lane::ALL.map(|lane| (own.stream(lane), own.filter(lane)));
    let others = [(alert_stream(mesh), alert_filter(mesh)), (dead_stream(mesh), dead_filter(mesh))];
    let mut reports = Vec::new();

    for (name, filter) in lanes.into_iter().chain(others) {
        let found = api::call::<Info>(client, &format!("STREAM.INFO.{name}"), &Value::Null).await;
        let state = match found {
            Ok(info) => Some(state(info)),
            Err(ApiError::Refused { code: code::STREAM_NOT_FOUND, .. }) => None,
            // A denial is in the report.
            Err(_) => continue,
        };

        let taken_by = match &state {
            Some(_) => None,
            None => taker(client, &filter).await,
        };

        reports.push(StreamReport { name, state, taken_by });
    }

    reports
}

fn state(Info { state, config }: Info) -> StreamState {
    StreamState {
        messages: state.messages,
        bytes: state.bytes,
        first_at: state.first_ts,
        last_at: state.last_ts,
        last_seq: state.last_seq,
        bytes_max: config.max_bytes,
        age_max_ns: config.max_age,
        refuses_when_full: config.discard == "new",
    }
}

/// Subscribes and publishes, then waits until the broker has handled it all.
async fn try_permissions(client: &Client, plan: &ProbePlan, jetstream: JetStreamState) {
    for subject in &plan.subscribe {
        if let Ok(mut subscriber) = client.subscribe(subject.clone()).await {
            let _ended = subscriber.unsubscribe().await;
        }
    }

    let publish = if jetstream == JetStreamState::Enabled { &plan.publish[..] } else { &[] };
    for subject in publish {
        let mut headers = HeaderMap::new();
        headers.insert(HeaderName::from_static(EXPECTED_STREAM.0), EXPECTED_STREAM.1);
        let sent = client.publish_with_headers(subject.clone(), headers, bytes::Bytes::new());
        let _denied_later = sent.await;
    }

    // The broker answers in order: an own message comes back after every denial.
    let echo = async {
        let inbox = client.new_inbox();
        let mut answers = client.subscribe(inbox.clone()).await.ok()?;
        client.publish(inbox, bytes::Bytes::new()).await.ok()?;
        answers.next().await
    };

    let _silent = timeout(Duration::from_secs(1), echo).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_denial_names_what_and_where() {
        let of = |text: &str| denial(&Event::ServerError(ServerError::Other(text.to_owned())));
        let publish = Denial { is_publish: true, subject: "a.b".to_owned() };
        assert_eq!(of("Permissions Violation for Publish to \"a.b\""), Some(publish));
        let subscribe = Denial { is_publish: false, subject: "a.>".to_owned() };
        let queue = "Permissions Violation for Subscription to \"a.>\" using queue \"q\"";
        assert_eq!(of(queue), Some(subscribe));
        assert_eq!(of("Maximum Connections Exceeded"), None);
    }
}
