//! Requests to the JetStream API, each with its own inbox and a timeout.
//!
//! The client's own JetStream layer is left alone: its requests leak an entry each time they
//! time out (nats.rs issue 1617), and its readers refuse some answers of server 2.9.
//!
//! DESIGN S10.

use std::time::Duration;

use async_nats::{Client, Request, RequestErrorKind};
use plimsoll_schemas::remote_text::one_line;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use thiserror::Error;
use tokio::time::timeout;

use crate::limits::REQUEST_WAIT;

/// Where the API listens.
pub(crate) const PREFIX: &str = "$JS.API";

/// Why a request has no answer.
#[derive(Debug, Error)]
pub(crate) enum ApiError {
    /// This broker, or this account on it, has no JetStream.
    #[error("jetstream is not enabled")]
    Absent,
    /// Nothing came back in time.
    #[error("jetstream did not answer")]
    Silent,
    #[error("jetstream refused: {description} ({code})")]
    Refused {
        /// JetStream's own error number.
        code: u64,
        description: String,
    },
    /// The subjects of a stream that is to be created belong to this one.
    #[error("stream {0} takes the subjects of this mesh; delete it, or take plimsoll.> out of it")]
    SubjectsTaken(String),
    /// The servers of the stream's cluster are without a leader: what one of them has may lack
    /// messages that the others have.
    #[error("no server leads the stream")]
    Leaderless,
    /// The broker is still creating the stream.
    #[error("the broker is still creating the stream")]
    Unfinished,
    /// The answer has another form.
    #[error("jetstream's answer cannot be read: {0}")]
    Unreadable(#[from] serde_json::Error),
}

/// JetStream's error numbers that mean something to us.
pub(crate) mod code {
    pub(crate) const STREAM_NOT_FOUND: u64 = 10_059;
    pub(crate) const NO_MESSAGE: u64 = 10_037;
    pub(crate) const STREAM_NAME_IN_USE: u64 = 10_058;
    pub(crate) const SUBJECTS_OVERLAP: u64 = 10_065;
    pub(crate) use plimsoll_schemas::transport::refusal_code::TOO_LITTLE_ROOM;
    /// A cluster has too few servers for the replicas, or too few with enough room.
    pub(crate) const NO_SUITABLE_PEERS: u64 = 10_005;
    /// The servers of a cluster are without a leader.
    pub(crate) const TEMPORARILY_UNAVAILABLE: u64 = 10_008;
    /// A server without a cluster keeps no replicas.
    pub(crate) const NO_CLUSTER: u64 = 10_074;
    /// The newest message has another number than its publisher expects.
    pub(crate) const WRONG_LAST_SEQUENCE: u64 = 10_071;
    /// A cluster has not decided yet about a message of the same id, or of the same subject.
    pub(crate) const IN_PROCESS: [u64; 3] = [10_158, 10_163, 10_164];
    /// Not on this server, not for this account.
    pub(crate) const NOT_ENABLED: [u64; 2] = [10_076, 10_039];
}

#[derive(Deserialize)]
struct Fault {
    #[serde(default)]
    err_code: u64,
    #[serde(default)]
    description: String,
}

/// Sends the request `operation` (such as `STREAM.INFO.x`) and reads the answer as a `T`.
pub(crate) async fn call<T: DeserializeOwned>(
    client: &Client,
    operation: &str,
    body: &Value,
) -> Result<T, ApiError> {
    let request = Request::new()
        .payload(body.to_string().into())
        .inbox(client.new_inbox())
        .timeout(Some(REQUEST_WAIT));

    // The client bounds only the wait for the answer, not the wait for its own queue.
    let longest = REQUEST_WAIT + Duration::from_millis(100);
    let sent = client.send_request(format!("{PREFIX}.{operation}"), request);

    let message = match timeout(longest, sent).await {
        Ok(Ok(message)) => message,
        Ok(Err(error)) if error.kind() == RequestErrorKind::NoResponders => {
            return Err(ApiError::Absent);
        }
        Ok(Err(_)) | Err(_) => return Err(ApiError::Silent),
    };

    read(&message.payload)
}

fn read<T: DeserializeOwned>(payload: &[u8]) -> Result<T, ApiError> {
    // An answer of any request may be an error in its place, so that is looked for first.
    let mut answer: Value = serde_json::from_slice(payload)?;
    let Some(fault) = answer.get_mut("error").map(Value::take) else {
        return Ok(serde_json::from_value(answer)?);
    };
    let Fault { err_code, description } = serde_json::from_value(fault)?;

    if code::NOT_ENABLED.contains(&err_code) {
        return Err(ApiError::Absent);
    }
    Err(ApiError::Refused { code: err_code, description: one_line(&description) })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_refusal_differs_from_an_absence() {
        let refused =
            read::<Value>(br#"{"error":{"code":404,"err_code":10059,"description":"x"}}"#);
        assert!(matches!(refused, Err(ApiError::Refused { code: 10_059, .. })));
        let absent = read::<Value>(br#"{"error":{"code":503,"err_code":10039}}"#);
        assert!(matches!(absent, Err(ApiError::Absent)));
    }

    proptest! {
        #[test]
        fn any_answer_is_survived(payload in prop::collection::vec(any::<u8>(), 0..64)) {
            let _: Result<Value, _> = read(&payload);
        }
    }
}
