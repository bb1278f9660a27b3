//! Silences that the aggregators of a mesh report to each other, over the broker and without a
//! stream: soon after a change, and every [`SILENCES_REPORTED_EVERY`], so that one that was away
//! has them soon.
//!
//! On a broker that admits everyone anyone could silence alerts. There they are shared only with a
//! key of confirmations, which signs them.
//!
//! DESIGN A170.

use bytes::Bytes;
use plimsoll_bus::{Listener, Messenger, UnacknowledgedMessage};
use plimsoll_runtime::confirm_key::ConfirmKeyFile;
use plimsoll_schemas::ids::MeshName;
use plimsoll_schemas::subject::silences_subject;
use plimsoll_schemas::time::{Mono, Now};
use plimsoll_schemas::wire::signature::{Purpose, SignatureError};
use plimsoll_schemas::wire::silences::{decode, encode};

use crate::core::Core;
use crate::limits::SILENCES_REPORTED_EVERY;

/// The exchange of silences.
pub(super) struct SharedSilences {
    mesh: MeshName,
    messenger: Messenger,
    listener: Listener,
    /// When they are reported again.
    pub(super) next_at: Mono,
    /// What was reported last.
    revision: u64,
}

impl SharedSilences {
    pub(super) fn new(mesh: MeshName, messenger: Messenger) -> Self {
        let listener = messenger.listen(silences_subject(&mesh));
        Self { mesh, messenger, listener, next_at: Mono(0), revision: 0 }
    }

    /// The next report. Cancel safe.
    pub(super) async fn next(&mut self) -> Bytes {
        match self.listener.next().await {
            Some(message) => message.payload,
            // The connection is closed.
            None => std::future::pending().await,
        }
    }

    /// Takes over a report, which may be this aggregator's own.
    pub(super) fn on_report(
        &self,
        core: &mut Core,
        now: Now,
        key: Option<&ConfirmKeyFile>,
        bytes: &[u8],
    ) {
        let verified = key.map_or(Ok(()), |file| {
            let verified = file.key().verify(Purpose::Silences, &self.mesh, bytes);
            verified.map_err(SignatureError::reason)
        });
        match verified.and_then(|()| decode(bytes).map_err(|_| "undecodable")) {
            Ok(shared) => core.on_shared_silences(now.wall, shared),
            Err(reason) => core.on_shared_silences_refused(reason),
        }
    }

    /// Reports, if it is time and there is anything to report.
    pub(super) fn send(&mut self, core: &Core, now: Now, key: Option<&ConfirmKeyFile>) {
        let (revision, report) = core.shared_silences();
        if revision == self.revision && now.mono < self.next_at {
            return;
        }
        (self.revision, self.next_at) = (revision, now.mono.plus(SILENCES_REPORTED_EVERY));
        let report = report.filter(|of| !of.silences.is_empty() || !of.ended.is_empty());
        let Some(mut report) = report else { return };
        report.at = now.wall;
        let payload = Bytes::from(encode(&report, &self.mesh, key.map(ConfirmKeyFile::key)));
        let subject = silences_subject(&self.mesh);
        let message = UnacknowledgedMessage { subject, headers: Vec::new(), payload };
        // One that finds no room is sent again with the next.
        let _queued = self.messenger.publish(message);
    }
}
