//! The streams of a mesh: created where they are missing, never changed where they exist, so
//! that an operator's own choice of replicas or retention is kept.
//!
//! DESIGN S8, S70.

use crate::limits::{
    ALERT_STREAM_BYTES_MAX, DEAD_STREAM_BYTES_MAX, DUPLICATE_WINDOW, OTHER_MESHES_NAMED,
    RETRY_DELAY_MIN, STREAM_AGE_MAX, STREAM_BYTES_MAX, STREAM_BYTES_MIN, UNFINISHED_TRIES_MAX,
};
use async_nats::Client;
use plimsoll_schemas::ids::MeshName;
use plimsoll_schemas::subject::{
    Lane, PREFIX, alert_filter, alert_stream, dead_filter, dead_stream, lane_stream, mesh_of_lane,
};
use plimsoll_schemas::time::nanos;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::api::{self, ApiError, code};
use crate::lanes::Lanes;

/// When a stream was created that its broker is still creating.
const UNFINISHED: &str = "0001-01-01T00:00:00Z";

/// State of an existing stream.
#[derive(Debug, Deserialize)]
pub(crate) struct StreamInfo {
    /// When it was created; a stream with another date is another stream.
    pub(crate) created: String,
    pub(crate) state: Extent,
    #[serde(default)]
    pub(crate) config: Limits,
    /// The servers that store it; `None` at a server without a cluster.
    #[serde(default)]
    cluster: Option<Group>,
}

/// The servers that store a stream.
#[derive(Debug, Deserialize)]
struct Group {
    #[serde(default)]
    leader: String,
}

/// What limits a stream; negative numbers are no limit.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Limits {
    discard: String,
    max_msgs: i64,
    max_bytes: i64,
    /// Nanoseconds; 0 for ever.
    pub(crate) max_age: u64,
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

#[derive(Debug, Deserialize)]
struct Names {
    streams: Option<Vec<String>>,
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

impl Extent {
    /// The newest message that is still kept; 0 if there is none. One that was deleted alone
    /// counts.
    pub(crate) fn newest(&self) -> u64 {
        if self.messages > 0 { self.last } else { 0 }
    }
}

/// Reads the state of one stream, of the server that leads it: another one may be behind.
pub(crate) async fn look(client: &Client, stream: &str) -> Result<StreamInfo, ApiError> {
    let info = info(client, stream).await?;
    // Without a leader any server answers, with what it has itself, which may be less (S71).
    if info.cluster.as_ref().is_some_and(|group| group.leader.is_empty()) {
        return Err(ApiError::Leaderless);
    }
    Ok(info)
}

/// The state of a stream that the broker has finished creating: until then a request for a message
/// of it, or for a consumer, ends nats-server before 2.9.15 with a panic. DESIGN S84.
pub(crate) async fn info(client: &Client, stream: &str) -> Result<StreamInfo, ApiError> {
    for _ in 0..UNFINISHED_TRIES_MAX {
        let operation = format!("STREAM.INFO.{stream}");
        let info: StreamInfo = api::call(client, &operation, &Value::Null).await?;
        if info.created != UNFINISHED {
            return Ok(info);
        }
        tokio::time::sleep(RETRY_DELAY_MIN).await;
    }
    Err(ApiError::Unfinished)
}

/// Sees to it that the streams of a mesh, or of a partition of it, exist. New ones are stored by
/// `replicas` servers. The small ones come first: a lane takes most of what room there is.
pub(crate) async fn ensure(client: &Client, own: &Lanes, replicas: u8) -> Result<(), ApiError> {
    let mesh = &own.mesh;
    let lanes = [Lane::Normal, Lane::Emergency];
    let lanes = lanes.map(|lane| (own.stream(lane), own.filter(lane), STREAM_BYTES_MAX));
    let alerts = (alert_stream(mesh), alert_filter(mesh), ALERT_STREAM_BYTES_MAX);
    let dead = (dead_stream(mesh), dead_filter(mesh), DEAD_STREAM_BYTES_MAX);
    let mut is_new = false;

    for (stream, filter, bytes_max) in [dead, alerts].into_iter().chain(lanes) {
        let new = NewStream { name: &stream, filter: &filter, replicas };
        match ensure_one(client, new, bytes_max).await {
            // No sample depends on those of alerts and dead letters.
            Err(ApiError::SubjectsTaken(_)) if bytes_max != STREAM_BYTES_MAX => {}
            ensured => is_new |= ensured?,
        }
    }

    // A partition's streams are new where the mesh is not.
    if is_new && own.partition.is_none() {
        warn_beside_others(client, mesh).await;
    }

    Ok(())
}

/// A mistyped name is a new mesh, whose nodes and aggregators do not meet those of the right one.
async fn warn_beside_others(client: &Client, mesh: &MeshName) {
    let filter = json!({ "subject": format!("{PREFIX}.*.{}.>", Lane::Normal.as_str()) });
    let Ok(Names { streams }) = api::call(client, "STREAM.NAMES", &filter).await else { return };
    let others = other_meshes(&streams.unwrap_or_default(), mesh);
    if !others.is_empty() {
        tracing::warn!(
            %mesh,
            others,
            "this mesh is new to the broker, which has others; if its name is mistyped, correct \
             `mesh` and delete the streams that were created"
        );
    }
}

/// Names of the meshes that have a lane of their own, but for `mesh`, separated by commas.
fn other_meshes(streams: &[String], mesh: &MeshName) -> String {
    let own = lane_stream(mesh, Lane::Normal, None);
    let of_lane = |stream: &&String| **stream != own;
    let names = streams.iter().filter(of_lane).filter_map(|stream| mesh_of_lane(stream));
    names.take(OTHER_MESHES_NAMED).collect::<Vec<_>>().join(", ")
}

/// Why streams cannot be created, for people.
pub(crate) fn explained(error: &ApiError, replicas: u8) -> String {
    let ApiError::Refused { code, .. } = error else { return error.to_string() };

    if is_too_little_room(error) {
        return format!(
            "the broker has no room for a stream: {error}; raise `max_file_store` in its \
             configuration (without it: three quarters of the free disk), or its account's limit"
        );
    }

    let why = match *code {
        code::TEMPORARILY_UNAVAILABLE => {
            return format!(
                "the broker's servers have no leader: {error}; a cluster needs more than half of its \
                 servers, and all of them when it is new"
            );
        }
        code::NO_CLUSTER => "the broker has no cluster",
        code::NO_SUITABLE_PEERS => "fewer servers of the cluster are connected",
        _ => return error.to_string(),
    };

    format!("bus.replicas = {replicas}, but {why}: {error}; retrying until there are as many")
}

/// A stream to create.
#[derive(Clone, Copy)]
struct NewStream<'a> {
    name: &'a str,
    filter: &'a str,
    replicas: u8,
}

/// Returns whether the stream was created.
async fn ensure_one(
    client: &Client,
    new: NewStream<'_>,
    mut bytes_max: i64,
) -> Result<bool, ApiError> {
    let NewStream { name: stream, replicas, .. } = new;

    match info(client, stream).await {
        Ok(_) => return Ok(false),
        Err(ApiError::Refused { code: code::STREAM_NOT_FOUND, .. }) => {}
        Err(error) => return Err(error),
    }

    loop {
        let config = config(new, bytes_max);
        let created: Result<Value, _> =
            api::call(client, &format!("STREAM.CREATE.{stream}"), &config).await;

        match created {
            // Another process may have begun it: then it may not be finished.
            Ok(_) => {
                info(client, stream).await?;
                tracing::info!(stream, bytes_max, replicas, "stream created");
                return Ok(true);
            }
            // Another process was quicker, or these subjects belong to a stream of another name.
            Err(ApiError::Refused {
                code: code::STREAM_NAME_IN_USE | code::SUBJECTS_OVERLAP,
                description,
            }) => {
                tracing::warn!(stream, description, "stream left as it is");
                return match info(client, stream).await {
                    Err(ApiError::Refused { code: code::STREAM_NOT_FOUND, .. }) => {
                        let taker = taker(client, new.filter).await;
                        let taker = taker.unwrap_or_else(|| "of another name".to_owned());
                        Err(ApiError::SubjectsTaken(taker))
                    }
                    found => found.map(|_| false),
                };
            }
            // The broker reserves the whole size, and its disk may be small.
            Err(error) if is_too_little_room(&error) && bytes_max / 4 >= STREAM_BYTES_MIN => {
                bytes_max /= 4;
            }
            Err(error) => return Err(error),
        }
    }
}

/// The name of a stream that takes some of these subjects, if it may be asked for.
pub(crate) async fn taker(client: &Client, filter: &str) -> Option<String> {
    let found = api::call(client, "STREAM.NAMES", &json!({ "subject": filter })).await;
    found.ok().and_then(|Names { streams }| streams)?.into_iter().next()
}

/// Whether a smaller stream may find a place. A cluster states it in the text alone.
fn is_too_little_room(error: &ApiError) -> bool {
    let ApiError::Refused { code, description } = error else { return false };
    code::TOO_LITTLE_ROOM.contains(code)
        || (*code == code::NO_SUITABLE_PEERS && description.contains("insufficient storage"))
}

fn config(NewStream { name, filter, replicas }: NewStream<'_>, bytes_max: i64) -> Value {
    json!({
        "name": name,
        "subjects": [filter],
        "storage": "file",
        "retention": "limits",
        "discard": "old",
        "max_age": nanos(STREAM_AGE_MAX),
        "max_bytes": bytes_max,
        "max_msgs": -1,
        "max_consumers": -1,
        "num_replicas": replicas,
        "duplicate_window": nanos(DUPLICATE_WINDOW),
        // The broker's answer to a message goes to the subject that its sender names: to the API,
        // too, where it reads as a request to purge.
        "deny_delete": true,
        "deny_purge": true,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_meshes_are_named_without_this_one_and_streams_of_others() {
        let mesh = MeshName::new("prdo").unwrap();
        let streams = ["prod_normal", "prdo_normal", "ORDERS", "a_b_normal", "prdo_part=1_normal"]
            .map(|stream| format!("PLIMSOLL_{stream}"));
        assert_eq!(other_meshes(&streams, &mesh), "prod, a_b");
        assert_eq!(other_meshes(&[], &mesh), "");
    }

    fn refused(code: u64, description: &str) -> ApiError {
        ApiError::Refused { code, description: description.to_owned() }
    }

    #[test]
    fn a_cluster_that_lacks_servers_differs_from_one_that_lacks_room() {
        let few = refused(10_005, "no suitable peers for placement");
        let full = refused(10_005, "no suitable peers for placement, insufficient storage");
        let alone = refused(10_074, "replicas > 1 not supported in non-clustered mode");
        for (error, shrinks, part) in [
            (few, false, "bus.replicas = 3, but fewer servers of the cluster are connected"),
            (full, true, "the broker has no room for a stream: jetstream refused: no suitable"),
            (alone, false, "bus.replicas = 3, but the broker has no cluster"),
            (
                refused(10_047, "insufficient storage"),
                true,
                "the broker has no room for a stream: ",
            ),
            (refused(10_008, "JetStream system"), false, "the broker's servers have no leader: "),
            (ApiError::Leaderless, false, "no server leads the stream"),
        ] {
            let text = explained(&error, 3);
            assert_eq!(
                (is_too_little_room(&error), text.starts_with(part)),
                (shrinks, true),
                "{text}"
            );
        }
    }
}
