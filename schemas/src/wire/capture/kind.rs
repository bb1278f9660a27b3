//! What a capture measures, and the stretch of the past that one may ask for instead.

use serde::{Deserialize, Serialize};

use crate::labelled;
use crate::time::Wall;

labelled! {
    /// What a capture measures.
    #[derive(Default, Serialize, Deserialize)]
    #[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
    #[serde(rename_all = "snake_case")]
    pub enum CaptureKind {
        /// Stacks, sampled; pprof.
        #[default]
        Cpu = "cpu",
        /// Memory that was allocated meanwhile and is still in use, by stack; pprof.
        Memory = "memory",
        /// Spans of each thread; a Chrome trace as gzip.
        Trace = "trace",
        /// Stacks that the node has recorded before; pprof.
        Past = "past",
        /// Stacks that the node records from now on, for hours; pprof.
        Continuous = "continuous",
    }
}

impl CaptureKind {
    /// Whether it is the one that earlier versions know, which messages leave out.
    #[must_use]
    pub const fn is_cpu(&self) -> bool {
        matches!(self, Self::Cpu)
    }
}

/// A stretch of a node's past, by its clock; the end is excluded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PastRange {
    /// Its first instant.
    #[serde(rename = "from_ns")]
    pub from: Wall,
    /// Its end.
    #[serde(rename = "to_ns")]
    pub to: Wall,
}
