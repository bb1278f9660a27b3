//! Tests of several crates together in this process: golden bytes, and shipped rules on the real
//! cores of node and aggregator.

mod absent_faults;
mod hardware_rules;
mod prometheus_rules;
mod wire_golden;
