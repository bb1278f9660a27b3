//! Faults that have been observed in telemetry of this kind, each shown to be absent here by a test
//! of its own. The real cores of node and aggregator run without a broker between them.

mod alerting;
mod delivery;
mod mesh;
