//! The reader over made-up memory: a small process that is right, ones that change, and hostile
//! ones.

mod changing;
mod hostile;
mod image;
