//! Invalid and hostile input to the broker and the node, in a mesh that continues to count.

mod bus;
mod forgery;
mod labels;
mod lines;
mod traffic;
