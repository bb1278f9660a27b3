//! Faults that telemetry of this kind has been seen to have, each shown to be absent here by a
//! test of its own. The real cores of node and aggregator, joined without a broker between them.

mod alerting;
mod delivery;
mod mesh;
