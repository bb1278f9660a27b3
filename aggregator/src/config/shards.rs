//! Settings of a mesh whose nodes are divided among several aggregators.

use std::time::Duration;

use plimsoll_schemas::ids::MeshName;
use plimsoll_schemas::limits::wire::PARTITIONS_MAX;
use plimsoll_schemas::rule::Scopes;
use plimsoll_schemas::subject::above;
use serde::Deserialize;

use crate::limits::{LEASE_MAX, LEASE_MIN, LEASE_TTL};

/// The `[shards]` section.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Shards {
    pub count: u16,
    pub role: ShardRole,
    pub lease_seconds: u64,
}

/// What an aggregator of a divided mesh does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ShardRole {
    #[default]
    Shard,
    Above,
}

/// Which part of the mesh an aggregator sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum View {
    Whole,
    Shard,
    /// The fleet, by what shards report.
    Above,
}

impl Default for Shards {
    fn default() -> Self {
        Self { count: 0, role: ShardRole::default(), lease_seconds: LEASE_TTL.as_secs() }
    }
}

impl Shards {
    /// Which part of the mesh the aggregator sees.
    pub fn view(&self) -> View {
        match (self.count, self.role) {
            (0, _) => View::Whole,
            (_, ShardRole::Shard) => View::Shard,
            (_, ShardRole::Above) => View::Above,
        }
    }

    /// How long a lease lasts.
    pub fn lease(&self) -> Duration {
        Duration::from_secs(self.lease_seconds)
    }

    pub(super) fn check(&self, mesh: &MeshName) -> Result<(), String> {
        let (count, lease) = (self.count, self.lease());
        if count > PARTITIONS_MAX {
            return Err(format!("shards.count is {count}; it must be at most {PARTITIONS_MAX}"));
        }
        if !(LEASE_MIN..=LEASE_MAX).contains(&lease) {
            let (least, most) = (LEASE_MIN.as_secs(), LEASE_MAX.as_secs());
            let given = self.lease_seconds;
            return Err(format!("shards.lease_seconds is {given}; it must be {least} to {most}"));
        }
        if count > 0 {
            above(mesh).map_err(|error| format!("mesh: with shards, {error}"))?;
        }
        Ok(())
    }
}

impl View {
    /// In which scopes it judges budgets: what is in another one it sees a part of, or not at all.
    pub fn scopes(self) -> Scopes {
        Scopes { fleet: self != Self::Shard, nodes: self != Self::Above }
    }
}
