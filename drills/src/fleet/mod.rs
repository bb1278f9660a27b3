//! A fleet of simulated nodes on a real broker and a real aggregator: what ten thousand machines
//! cost, and whether every sample of each of them arrives.
//!
//! Each node has latencies, a phase and a ledger of its own; its messages are those of a real node,
//! byte for byte, and travel by the same client with message ids and acknowledgements. The loop is
//! open: the due time of each message is fixed before the start, a slow broker makes messages wait
//! in a bounded queue, and messages that do not fit are counted as lost. Nodes share connections,
//! so the drill does not measure a broker's cost of ten thousand connections.
//!
//! A real node sends three messages an interval: latencies, sensors, and a bus report, which closes
//! every interval. Here the last two come once in `--other-every`; with `--other-every 1s` the mix
//! is that of real nodes.
//!
//! Read [`sender`] first, then [`node`] and [`body`]; [`pages`] and [`processes`] measure,
//! [`ledger`] and [`growth`] judge.

pub mod args;
pub mod body;
pub mod connections;
pub mod deployment;
pub mod figures;
pub mod growth;
pub mod ledger;
pub mod limits;
pub mod node;
pub mod pages;
pub mod processes;
pub mod queue;
pub mod run;
pub mod sender;
pub mod shape;

pub use args::FleetArgs;
pub use run::fleet;
