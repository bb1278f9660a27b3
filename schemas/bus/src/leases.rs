//! Leases of a mesh's partitions in the broker's key-value store: each is owned by at most one
//! process at a time, by the broker's clock.
//!
//! A lease is a key that the broker drops once it has not been written for the ttl. Each write
//! states the number of the one before it, so that of two processes one succeeds. Refuses to
//! decide when an owner that has no answers must stop: that is up to its caller, who counts the
//! ttl from the last write that was answered.
//!
//! DESIGN S82.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use futures_util::{StreamExt, TryStreamExt, stream};
use plimsoll_schemas::ids::{MeshName, Partition};
use plimsoll_schemas::subject::{bucket_stream, bucket_subject, lease_bucket};
use plimsoll_schemas::time::nanos;
use serde_json::{Value, json};

use crate::api::{self, ApiError, code};
use crate::direct_get::{self, KV_OPERATION_HEADER, StoredMessage};
use crate::limits::{DUPLICATE_WINDOW, LEASE_BUCKET_BYTES_MAX, LEASES_READ_AHEAD};
use crate::messenger::Messenger;
use crate::optimistic::{ConditionalError, ConditionalMessage};
use crate::streams;

/// Partitions of a mesh, each owned by at most one process at a time.
#[derive(Debug)]
pub struct Leases {
    messenger: Messenger,
    bucket: String,
    stream: String,
    owner: String,
    ttl: Duration,
    /// How many servers store a bucket that is created.
    replicas: u8,
    has_bucket: bool,
    /// First characters of the ids of this process's messages.
    id_prefix: String,
    sent: u64,
    /// Number of the latest message about each owned partition.
    held: BTreeMap<Partition, u64>,
}

impl Leases {
    /// The name of this process.
    pub fn owner(&self) -> &str {
        &self.owner
    }

    /// Leases for a process called `owner`, which last for `ttl` after each renewal, or for what an
    /// existing bucket has. The bucket is stored by as many servers as the mesh's streams.
    pub fn new(messenger: Messenger, mesh: &MeshName, owner: String, ttl: Duration) -> Self {
        let bucket = lease_bucket(mesh);
        // The client draws a new name for each inbox.
        let inbox = messenger.client().new_inbox();
        let id_prefix = format!("{}-", inbox.rsplit('.').next().unwrap_or_default());

        Self {
            stream: bucket_stream(&bucket),
            replicas: messenger.replicas(),
            messenger,
            bucket,
            owner,
            ttl,
            has_bucket: false,
            id_prefix,
            sent: 0,
            held: BTreeMap::new(),
        }
    }

    /// Time after which a lease ends that is not renewed: that of the bucket, once it is known.
    pub fn ttl(&self) -> Duration {
        self.ttl
    }

    /// Takes a partition if no process has it. Creates the bucket if it is missing.
    ///
    /// # Errors
    /// States why it is not known whether it was taken, or why the bucket cannot be created.
    pub async fn try_take(&mut self, partition: Partition) -> Result<bool, String> {
        self.ensure_bucket().await?;
        let after = match self.newest(partition).await {
            // A write of this process whose answer was lost.
            Ok(Some(newest)) if self.is_own(&newest) && !is_free(&newest) => newest.seq,
            Ok(Some(newest)) if is_free(&newest) => newest.seq,
            Ok(Some(_)) => return Ok(false),
            Ok(None) => 0,
            Err(error) => {
                // It was deleted on purpose: it is created at the next attempt.
                self.has_bucket = false;
                return Err(error.to_string());
            }
        };
        self.write(partition, after).await
    }

    /// True while the lease could be extended; false once another process has it or it is gone.
    ///
    /// # Errors
    /// States why there is no answer: try again until the ttl has passed.
    pub async fn renew(&mut self, partition: Partition) -> Result<bool, String> {
        let Some(after) = self.held.get(&partition).copied() else { return Ok(false) };
        if self.write(partition, after).await? {
            return Ok(true);
        }
        // A renewal without an answer may have been stored.
        match self.newest(partition).await.map_err(|error| error.to_string())? {
            Some(newest) if self.is_own(&newest) && !is_free(&newest) => {
                self.write(partition, newest.seq).await
            }
            _ => Ok(false),
        }
    }

    /// Gives a partition back, for anyone to take at once. One that is not owned is left alone.
    ///
    /// # Errors
    /// States why it is not known whether it was: then it ends with the ttl.
    pub async fn release(&mut self, partition: Partition) -> Result<(), String> {
        // Forgotten whatever the answer is: without one the lease ends with its ttl.
        let Some(after) = self.held.remove(&partition) else { return Ok(()) };
        let deletion = vec![(KV_OPERATION_HEADER, "DEL".to_owned())];
        let message = self.message(partition, deletion, Bytes::new());
        match self.messenger.publish_after(message, after).await {
            Ok(_) | Err(ConditionalError::Overtaken) => Ok(()),
            Err(error) => Err(error.to_string()),
        }
    }

    /// Who has which of the first `partitions` partitions.
    ///
    /// # Errors
    /// States why there is no answer.
    pub async fn owners(&self, partitions: u16) -> Result<BTreeMap<Partition, String>, String> {
        // Before any message is requested: one of a bucket that is still being created ends old
        // brokers (S84).
        match self.look().await {
            Ok(_) => {}
            Err(ApiError::Refused { code: code::STREAM_NOT_FOUND, .. }) => {
                return Ok(BTreeMap::new());
            }
            Err(error) => return Err(error.to_string()),
        }

        let found = stream::iter(Partition::first(partitions)).map(|partition| async move {
            let newest = self.newest(partition).await?;
            let owned = newest.filter(|newest| !is_free(newest));
            let owner = owned.map(|newest| String::from_utf8_lossy(&newest.payload).into_owned());
            Ok::<_, ApiError>(owner.map(|owner| (partition, owner)))
        });

        let found = found.buffered(LEASES_READ_AHEAD).try_collect::<Vec<_>>().await;
        match found {
            Ok(found) => Ok(found.into_iter().flatten().collect()),
            Err(ApiError::Refused { code: code::STREAM_NOT_FOUND, .. }) => Ok(BTreeMap::new()),
            Err(error) => Err(error.to_string()),
        }
    }

    /// Writes our name after the message `after`; true if it is ours now.
    async fn write(&mut self, partition: Partition, after: u64) -> Result<bool, String> {
        let message = self.message(partition, Vec::new(), self.owner.clone().into());
        match self.messenger.publish_after(message, after).await {
            Ok(seq) => {
                self.held.insert(partition, seq);
                Ok(true)
            }
            Err(ConditionalError::Overtaken) => Ok(false),
            Err(error) => Err(error.to_string()),
        }
    }

    fn message(
        &mut self,
        partition: Partition,
        headers: Vec<(&'static str, String)>,
        payload: Bytes,
    ) -> ConditionalMessage {
        self.sent += 1;
        let message_id = format!("{}{}", self.id_prefix, self.sent);
        let subject = bucket_subject(&self.bucket, partition);
        ConditionalMessage { subject, message_id, headers, payload }
    }

    async fn newest(&self, partition: Partition) -> Result<Option<StoredMessage>, ApiError> {
        let subject = bucket_subject(&self.bucket, partition);
        direct_get::newest(self.messenger.client(), &self.stream, &subject).await
    }

    fn is_own(&self, message: &StoredMessage) -> bool {
        message.message_id.as_ref().is_some_and(|id| id.starts_with(&self.id_prefix))
    }

    async fn ensure_bucket(&mut self) -> Result<(), String> {
        if self.has_bucket {
            return Ok(());
        }

        let max_age = match self.look().await {
            Err(ApiError::Refused { code: code::STREAM_NOT_FOUND, .. }) => self.create().await,
            found => found,
        };

        let max_age = max_age.map_err(|error| streams::explained(&error, self.replicas))?;
        let max_age = Duration::from_nanos(max_age);
        // Its keys would never be dropped, and a dead owner would keep its partitions.
        if max_age.is_zero() {
            return Err(format!("the bucket {} has no ttl; delete it", self.bucket));
        }

        if max_age != self.ttl {
            let (bucket, ttl_s) = (&self.bucket, max_age.as_secs_f64());
            tracing::warn!(bucket, ttl_s, "the bucket of leases has another ttl, which holds");
            self.ttl = max_age;
        }

        self.has_bucket = true;
        Ok(())
    }

    /// The age in nanoseconds at which a lease ends.
    async fn look(&self) -> Result<u64, ApiError> {
        Ok(streams::info(self.messenger.client(), &self.stream).await?.config.max_age)
    }

    /// Creates the bucket as NATS defines a key-value store.
    async fn create(&self) -> Result<u64, ApiError> {
        let config = json!({
            "name": self.stream,
            "subjects": [bucket_subject(&self.bucket, '>')],
            "storage": "file",
            "retention": "limits",
            "discard": "new",
            "max_age": nanos(self.ttl),
            "max_bytes": LEASE_BUCKET_BYTES_MAX,
            "max_msgs": -1,
            "max_consumers": -1,
            "max_msgs_per_subject": 1,
            "num_replicas": self.replicas,
            // The broker refuses one that is longer than its messages last.
            "duplicate_window": nanos(DUPLICATE_WINDOW.min(self.ttl)),
            "allow_rollup_hdrs": true,
            "deny_delete": true,
        });

        let operation = format!("STREAM.CREATE.{}", self.stream);
        match api::call::<Value>(self.messenger.client(), &operation, &config).await {
            Ok(_) => tracing::info!(bucket = self.bucket, "bucket of leases created"),
            // Another process was quicker.
            Err(ApiError::Refused { code: code::STREAM_NAME_IN_USE, .. }) => {}
            Err(error) => return Err(error),
        }

        self.look().await
    }
}

fn is_free(message: &StoredMessage) -> bool {
    message.is_deletion || message.payload.is_empty()
}
