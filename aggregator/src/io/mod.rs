//! Where the aggregator touches the world: the streams' lanes, leases, the HTTP pages, the state
//! file, the history file, profiles, the rule files, baselines and the receivers. It decides
//! nothing but which lane is read next.

pub mod asker;
pub mod baselines;
pub mod checkpointer;
mod database;
pub mod decoders;
pub mod history;
pub mod http;
pub mod lanes;
pub mod lease;
pub mod notify;
pub mod profiles;
pub mod rules;
pub mod store;
