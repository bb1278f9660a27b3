//! Whole distributions, compared with their samples and the `hdrhistogram` crate.

mod over;
mod packed;
mod payload;
mod recording;
mod summary;
mod uncertainty;
