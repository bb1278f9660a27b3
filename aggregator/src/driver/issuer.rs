//! Who this aggregator is in its confirmations, and the key that it signs them with.
//!
//! DESIGN S60.

use bytes::Bytes;
use plimsoll_runtime::confirm_key::ConfirmKeyFile;
use plimsoll_schemas::ids::{AggregatorName, MeshName};
use plimsoll_schemas::time::{Mono, Now, Wall};
use plimsoll_schemas::wire::confirmation::{Confirmation, Issue, encode, encode_signed};

use crate::config::Config;

#[derive(Debug)]
pub(super) struct Issuer {
    mesh: MeshName,
    /// Of this aggregator.
    pub(super) name: AggregatorName,
    pub(super) key: Option<ConfirmKeyFile>,
    latest: Wall,
}

impl Issuer {
    /// # Errors
    /// Names the key of the settings and the fix.
    pub(super) fn of(config: &Config) -> Result<Self, String> {
        let (mesh, latest) = (config.mesh.clone(), Wall(0));
        Ok(Self { mesh, name: config.confirm.name()?, key: config.confirm.key()?, latest })
    }

    /// Reads the key again if its file has changed.
    pub(super) fn refresh(&mut self, now: Mono) {
        if let Some(file) = &mut self.key {
            file.refresh(now);
        }
    }

    /// The bytes of a confirmation as this aggregator's, signed if there is a key.
    pub(super) fn encode(&mut self, confirmation: Confirmation, now: Now) -> Bytes {
        let confirmation = Confirmation { issue: Some(self.issue(now)), ..confirmation };
        Bytes::from(match &self.key {
            Some(file) => encode_signed(&confirmation, &self.mesh, file.key()),
            None => encode(&confirmation),
        })
    }

    /// Later than all before, also while the clock is set back.
    fn issue(&mut self, now: Now) -> Issue {
        self.latest = now.wall.max(Wall(self.latest.0.saturating_add(1)));
        Issue { aggregator: self.name.clone(), at: self.latest }
    }
}

#[cfg(test)]
impl Issuer {
    pub(super) fn unsigned() -> Self {
        let (mesh, name) = (MeshName::new("m").unwrap(), AggregatorName::new("a").unwrap());
        Self { mesh, name, key: None, latest: Wall(0) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_confirmation_is_later_than_all_before_whatever_the_clock_does() {
        let mut issuer = Issuer::unsigned();
        let mut at = |wall| issuer.issue(Now { mono: Mono(0), wall: Wall(wall) }).at.0;
        assert_eq!([at(70), at(70), at(9), at(100)], [70, 71, 72, 100]);
    }
}
