//! Turns a draft into a message: subject, header and encoded bytes. Owns the identity and the
//! incarnation that every message of this process states; numbers and totals are its caller's.
//!
//! DESIGN N13, N16, N80.

use bytes::Bytes;
use plimsoll_schemas::ids::{Incarnation, Labels, MeshName, NodeName, Seq};
use plimsoll_schemas::subject::{Lane, SnapshotKind, SnapshotSubject, dead_subject};
use plimsoll_schemas::time::Wall;
use plimsoll_schemas::transport::{Publish, Ticket};
use plimsoll_schemas::wire::{self, Body, Header, Totals};

use super::identity::Identity;
use super::outbox::{
    DeadLetter, DeadLetterReason, Draft, IdOf, MessageNonce, SealedMessage, message_id,
};
use super::spool::{IncarnationEnd, IncarnationState};

/// Seals the messages of one incarnation.
pub(super) struct Sealer {
    identity: Identity,
    /// Changes only before anything of it was sealed.
    pub(super) incarnation: Incarnation,
    /// What makes the ids of its messages unpredictable.
    pub(super) nonce: MessageNonce,
}

impl Sealer {
    pub(super) fn new(identity: Identity, incarnation: Incarnation) -> Self {
        Self { identity, incarnation, nonce: MessageNonce::default() }
    }

    pub(super) fn mesh(&self) -> &MeshName {
        &self.identity.mesh
    }

    pub(super) fn node(&self) -> &NodeName {
        &self.identity.node
    }

    /// The node's labels for the header of a message. Only samples are grouped by them, so no
    /// other message carries their bytes.
    pub(super) fn labels_of(&self, kind: SnapshotKind) -> Labels {
        match kind {
            SnapshotKind::Latency | SnapshotKind::Interval => self.identity.labels.clone(),
            SnapshotKind::Hardware
            | SnapshotKind::Bus
            | SnapshotKind::Event
            | SnapshotKind::Shard => Labels::default(),
        }
    }

    /// The message with number `seq`; the caller uses each number once and in order.
    pub(super) fn seal(
        &self,
        totals: Totals,
        seq: Seq,
        lane: Lane,
        now: Wall,
        draft: Draft,
    ) -> SealedMessage {
        let (samples, own_samples) = (draft.samples(), draft.own_samples());

        let header = Header {
            node: self.identity.node.clone(),
            incarnation: self.incarnation,
            seq,
            start: draft.start,
            length_ns: draft.length_ns,
            totals,
            last: draft.last,
            successor: None,
            labels: draft.labels,
        };

        // The body was encoded when the draft was made; only the header is written now (N44).
        let payload = wire::encode_around(&header, draft.kind, &draft.body);
        SealedMessage {
            incarnation: self.incarnation,
            seq,
            lane,
            subject: self.subject(lane, draft.kind),
            payload: Bytes::from(payload),
            samples,
            own_samples,
            produced: draft.produced,
            last: draft.last,
            sealed_at: now,
            nonce: self.nonce,
        }
    }

    /// The final message of a former incarnation that sealed none, which closes its ledger. One
    /// that crashed names this incarnation as its successor: that makes it a crash report.
    pub(super) fn final_message_of(
        &self,
        now: Wall,
        former: &IncarnationState,
        end: IncarnationEnd,
    ) -> SealedMessage {
        let IncarnationState { incarnation, newest, .. } = *former;

        let header = Header {
            node: self.identity.node.clone(),
            incarnation,
            seq: Seq(newest.0 + 1),
            start: now,
            // A reader refuses an empty interval.
            length_ns: 1,
            totals: former.totals.clone(),
            last: true,
            successor: (end == IncarnationEnd::Crashed).then_some(self.incarnation),
            labels: Labels::default(),
        };

        let (lane, kind) = (Lane::Normal, SnapshotKind::Bus);
        // What the outbox of a process that is gone held is not known; its totals close the ledger.
        let body = wire::encode_body(&Body::Bus(wire::Bus::default()));

        SealedMessage {
            incarnation,
            seq: header.seq,
            lane,
            subject: self.subject(lane, kind),
            payload: Bytes::from(wire::encode_around(&header, kind, &body)),
            samples: 0,
            own_samples: 0,
            produced: 1,
            last: true,
            sealed_at: now,
            nonce: self.nonce,
        }
    }

    pub(super) fn dead_subject(&self) -> String {
        dead_subject(&self.identity.mesh, &self.identity.node)
    }

    /// A dead letter: what is known of its message, and the message's bytes unless they are what
    /// the broker refuses.
    pub(super) fn dead_letter(&self, ticket: Ticket, letter: DeadLetter) -> Publish {
        let DeadLetter { message, reason } = letter;
        let (node, incarnation, seq) = (self.node(), message.incarnation, message.seq);

        let headers = vec![
            ("Plimsoll-Reason", reason.as_str().to_owned()),
            ("Plimsoll-Node", node.to_string()),
            ("Plimsoll-Incarnation", incarnation.to_string()),
            ("Plimsoll-Seq", seq.to_string()),
            ("Plimsoll-Samples", message.samples.to_string()),
            ("Plimsoll-Bytes", message.payload.len().to_string()),
            ("Plimsoll-Subject", message.subject),
        ];

        let payload = match reason {
            // The broker would refuse a letter with them as it refused the message.
            DeadLetterReason::MaxPayload | DeadLetterReason::TooLarge => Bytes::new(),
            _ => message.payload,
        };

        // The same for every attempt, so that a stream keeps one letter of a message.
        let message_id = message_id(node.as_str(), incarnation, seq, IdOf::Letter, message.nonce);
        Publish { ticket, subject: self.dead_subject(), message_id, headers, payload }
    }

    fn subject(&self, lane: Lane, kind: SnapshotKind) -> String {
        let (mesh, node) = (self.identity.mesh.clone(), self.identity.node.clone());
        SnapshotSubject { mesh, lane, node, kind }.to_string()
    }
}
