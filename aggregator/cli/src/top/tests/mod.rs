//! The screen without a terminal: pages as an aggregator sends them, keys, and the frame.

mod connection;
mod frames;
mod keys;
mod mesh;
