//! Settings of the service and their defaults. What each key means is in `profiler.toml` alone.

use std::collections::BTreeSet;
use std::path::PathBuf;

use nix::unistd::User;
use plimsoll_runtime::logs::LogSettings;
use serde::Deserialize;

/// A settings file with every key at its default; what `--print-config` prints.
pub const EXAMPLE: &str = include_str!("../../profiler.toml");

pub(super) const ROOT: u32 = 0;

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Settings {
    pub socket: Option<PathBuf>,
    pub allow_peers: Vec<String>,
    pub allow_users: Vec<String>,
    pub log: LogSettings,
}

/// Users by their numbers.
pub type Users = BTreeSet<u32>;

impl Default for Settings {
    fn default() -> Self {
        let allow_peers = vec!["plimsoll-node".to_owned()];
        Self { socket: None, allow_peers, allow_users: Vec::new(), log: LogSettings::default() }
    }
}

/// Who may order, and whose processes may be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Permitted {
    pub peers: Users,
    /// By number; of root, whose at all.
    pub owners: Users,
}

impl Settings {
    /// # Errors
    /// When a user is not one of this machine, or the log's filter is invalid.
    pub fn check(&self) -> Result<Permitted, String> {
        self.log.check()?;
        let mut peers = users("allow_peers", &self.allow_peers)?;
        peers.insert(ROOT);
        Ok(Permitted { peers, owners: users("allow_users", &self.allow_users)? })
    }
}

fn users(key: &str, names: &[String]) -> Result<Users, String> {
    let number = |name: &String| {
        let named = User::from_name(name).ok().flatten().map(|user| user.uid.as_raw());
        named.or_else(|| name.parse().ok()).ok_or_else(|| {
            format!("{key}: this machine has no user {name:?}; create it, or write its number")
        })
    };
    names.iter().map(number).collect()
}

#[cfg(test)]
mod tests {
    use plimsoll_schemas::settings::{Layer, keys_of, resolve};

    use super::*;

    fn read(text: &str) -> Settings {
        resolve(&[Layer::from_toml("file p.toml", text).unwrap()]).unwrap().value
    }

    #[test]
    fn users_are_named_or_numbered_and_root_may_always_order() {
        let settings = read("allow_peers = ['12345']\nallow_users = ['root', '7']");
        let (peers, owners) = (Users::from([0, 12_345]), Users::from([0, 7]));
        assert_eq!(settings.check(), Ok(Permitted { peers, owners }));
        for key in ["allow_peers", "allow_users"] {
            let wrong = read(&format!("{key} = ['no such']\n"));
            let peers = Settings { allow_peers: Vec::new(), ..wrong.clone() };
            let error = if key == "allow_peers" { wrong.check() } else { peers.check() };
            let error = error.unwrap_err();
            assert!(error.starts_with(&format!("{key}: this machine has no user")), "{error}");
        }
    }

    #[test]
    fn the_printed_file_has_every_key_at_its_default() {
        assert_eq!(read(EXAMPLE), Settings::default());
        for key in keys_of::<Settings>() {
            let last = key.rsplit('.').next().unwrap();
            assert!(EXAMPLE.contains(&format!("{last} = ")), "{key}");
        }
    }
}
