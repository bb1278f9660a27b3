//! The library in real jobs: each is a process of its own that runs one part of [`parts`] against
//! a stream socket of this process. What arrives there is the judge.

mod beside;
mod forking;
mod node;
mod parts;
mod process;
mod reporting;
mod stepping;
