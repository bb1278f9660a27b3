//! The ports for OTLP under clients of every kind, with a test in the place of the core: what is
//! answered, what is refused and how it is reported, and what hostile bodies cost.

#![expect(clippy::unwrap_used, reason = "helpers of tests stop at the first surprise")]

#[path = "otlp/calls.rs"]
mod calls;
#[path = "otlp/ends.rs"]
mod ends;
#[path = "otlp/fixture.rs"]
mod fixture;
#[path = "otlp/hostile.rs"]
mod hostile;
#[path = "otlp/posts.rs"]
mod posts;
