//! Invalid and hostile input to the broker and the node, in a mesh that continues to count.

mod answers;
mod bus;
mod files;
pub(crate) mod forgery;
mod labels;
mod lines;
pub(crate) mod message_ids;
mod names;
mod open_broker;
mod senders;
