//! The streams of a mesh: created where they are missing, never changed where they exist, so
//! that an operator's own choice of replicas or retention is kept.
//!
//! DESIGN S8.

use crate::limits::{
    ALERT_STREAM_BYTES_MAX, DEAD_STREAM_BYTES_MAX, DUPLICATE_WINDOW, STREAM_AGE_MAX,
    STREAM_BYTES_MAX, STREAM_BYTES_MIN,
};
use async_nats::Client;
use plimsoll_schemas::ids::MeshName;
use plimsoll_schemas::subject::{
    Lane, alert_filter, alert_stream, dead_filter, dead_stream, lane_filter, lane_stream,
};
use plimsoll_schemas::time::nanos;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::api::{self, ApiError, code};

/// State of an existing stream.
#[derive(Debug, Deserialize)]
pub(crate) struct StreamInfo {
    /// When it was created; a stream with another date is another stream.
    pub(crate) created: String,
    /// Its extent.
    pub(crate) state: Extent,
    /// Its limits.
    #[serde(default)]
    pub(crate) config: Limits,
}

/// What limits a stream; negative numbers are no limit.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Limits {
    discard: String,
    max_msgs: i64,
    max_bytes: i64,
}

impl StreamInfo {
    /// Used share of its messages or bytes, if it refuses messages when it is full; otherwise 0.
    #[expect(clippy::cast_precision_loss, reason = "a share, not a count")]
    pub(crate) fn used_ratio(&self) -> f64 {
        if self.config.discard != "new" {
            return 0.0;
        }
        let of = |used: u64, max: i64| if max > 0 { used as f64 / max as f64 } else { 0.0 };
        let Extent { messages, bytes, .. } = self.state;
        of(messages, self.config.max_msgs).max(of(bytes, self.config.max_bytes))
    }
}

/// A stream's first and last sequence number.
#[derive(Debug, Deserialize)]
pub(crate) struct Extent {
    /// The oldest message still kept.
    #[serde(rename = "first_seq")]
    pub(crate) first: u64,
    /// The newest message ever kept; zero in a stream that never had one.
    #[serde(rename = "last_seq")]
    pub(crate) last: u64,
    #[serde(default)]
    messages: u64,
    #[serde(default)]
    bytes: u64,
}

/// Reads the state of one stream.
pub(crate) async fn look(client: &Client, stream: &str) -> Result<StreamInfo, ApiError> {
    api::call(client, &format!("STREAM.INFO.{stream}"), &Value::Null).await
}

/// Sees to it that every stream of `mesh` exists.
pub(crate) async fn ensure(client: &Client, mesh: &MeshName) -> Result<(), ApiError> {
    let lanes =
        Lane::ALL.map(|lane| (lane_stream(mesh, lane), lane_filter(mesh, lane), STREAM_BYTES_MAX));
    let alerts = (alert_stream(mesh), alert_filter(mesh), ALERT_STREAM_BYTES_MAX);
    let dead = (dead_stream(mesh), dead_filter(mesh), DEAD_STREAM_BYTES_MAX);
    for (stream, filter, bytes_max) in lanes.into_iter().chain([alerts, dead]) {
        ensure_one(client, &stream, &filter, bytes_max).await?;
    }
    Ok(())
}

async fn ensure_one(
    client: &Client,
    stream: &str,
    filter: &str,
    bytes_max: i64,
) -> Result<(), ApiError> {
    match look(client, stream).await {
        Ok(_) => return Ok(()),
        Err(ApiError::Refused { code: code::STREAM_NOT_FOUND, .. }) => {}
        Err(error) => return Err(error),
    }
    let mut bytes_max = bytes_max;
    loop {
        let config = config(stream, filter, bytes_max);
        let created: Result<StreamInfo, _> =
            api::call(client, &format!("STREAM.CREATE.{stream}"), &config).await;
        match created {
            Ok(_) => {
                tracing::info!(stream, bytes_max, "stream created");
                return Ok(());
            }
            // Another process was quicker, or these subjects belong to a stream of another name.
            Err(ApiError::Refused {
                code: code::STREAM_NAME_IN_USE | code::SUBJECTS_OVERLAP,
                description,
            }) => {
                tracing::warn!(stream, description, "stream left as it is");
                return Ok(());
            }
            // The broker reserves the whole size, and its disk may be small.
            Err(ApiError::Refused { code, .. })
                if code::TOO_LITTLE_ROOM.contains(&code) && bytes_max / 4 >= STREAM_BYTES_MIN =>
            {
                bytes_max /= 4;
            }
            Err(error) => return Err(error),
        }
    }
}

fn config(stream: &str, filter: &str, bytes_max: i64) -> Value {
    json!({
        "name": stream,
        "subjects": [filter],
        "storage": "file",
        "retention": "limits",
        "discard": "old",
        "max_age": nanos(STREAM_AGE_MAX),
        "max_bytes": bytes_max,
        "max_msgs": -1,
        "max_consumers": -1,
        "num_replicas": 1,
        "duplicate_window": nanos(DUPLICATE_WINDOW),
        // The broker's answer to a message goes to the subject that its sender names: to the API,
        // too, where it reads as a request to purge.
        "deny_delete": true,
        "deny_purge": true,
    })
}
