//! Forged confirmations, which a node must reject.

use bytes::Bytes;
use plimsoll_schemas::ids::{Incarnation, NodeName, Seq};
use plimsoll_schemas::wire::confirmation::{Confirmation, ConfirmedIncarnation, encode};

use crate::sim::act::Lie;
use crate::sim::oracle::Name;
use crate::sim::rng::Rng;

/// Higher than any message number that a short run reaches.
const NEVER_SENT: u64 = 100_000;

/// A confirmation that is wrong in one way; `newest` is the node's newest message.
pub(super) fn forged(rng: &mut Rng, node: &NodeName, newest: Name, lie: Lie) -> Bytes {
    let (incarnation, seq) = newest;
    let last = if lie == Lie::Unsent { seq + NEVER_SENT } else { seq };
    let spans = vec![(Seq(1), Seq(last))];
    let incarnations = vec![ConfirmedIncarnation { incarnation: Incarnation(incarnation), spans }];
    let stranger = NodeName::new("stranger").expect("a word of plain letters");
    let node = if lie == Lie::Stranger { stranger } else { node.clone() };
    let mut bytes = encode(&Confirmation { incarnations, ..Confirmation::of(node) });
    if lie == Lie::Garbage {
        // Half of one, or one with a byte after it.
        let cut = rng.index(bytes.len());
        if rng.chance(500) { bytes.truncate(cut) } else { bytes.push(0xc1) }
    }
    Bytes::from(bytes)
}
