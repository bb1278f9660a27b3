//! A site as `deploy/nats` describes it: the shipped configuration of nats-server with TLS, a key
//! for each process, and for each key the permissions that `plimsoll nats-config` prints. All of it
//! lies in one directory.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use plimsoll_schemas::ids::MeshName;

use crate::certificates::Certificates;
use crate::stack::bin_dir;

/// What `deploy/nats` ships.
const SHIPPED: &str = include_str!("../../../deploy/nats/plimsoll.conf");
const INCLUDE: &str = "include \"users.conf\"";
/// Certificates, keys and users of one mesh.
#[derive(Clone, Debug)]
pub struct Site {
    dir: PathBuf,
}

impl Site {
    /// Makes certificates, and keys and users for an aggregator, an operator and these nodes.
    ///
    /// # Errors
    /// When openssl or the program `plimsoll` is missing or fails; the text has what it printed.
    pub fn make(dir: &Path, mesh: &MeshName, nodes: &[String]) -> Result<Self> {
        let dir = std::path::absolute(dir)?;
        fs::create_dir_all(&dir)?;
        fs::write(dir.join("nodes.txt"), nodes.join("\n"))?;
        let mut command = Command::new(bin_dir()?.join("plimsoll"));
        command.args(["nats-config", "--mesh", mesh.as_str()]);
        command.args(["--keys", "keys", "--nodes-from", "nodes.txt"]);
        let made = command.current_dir(&dir).stdin(Stdio::null()).output();
        let made = made.context("plimsoll nats-config cannot be run")?;
        ensure!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        fs::write(dir.join("users.conf"), made.stdout)?;
        Certificates::make(&dir)?;
        Ok(Self { dir })
    }

    /// The seed of a user: `aggregator`, `operator` or `node-NAME`.
    #[must_use]
    pub fn seed_file(&self, user: &str) -> PathBuf {
        self.dir.join(format!("keys/{user}.nk"))
    }

    /// The authority of the broker's certificate.
    #[must_use]
    pub fn ca_file(&self) -> PathBuf {
        self.dir.join("ca.pem")
    }

    /// The shipped configuration of nats-server, with this site's directory in the place of the
    /// system's and without an address. It has JetStream.
    ///
    /// # Errors
    /// When the directory's name is no UTF-8, or the users cannot be read.
    pub fn broker_settings(&self) -> Result<String> {
        let dir = self.dir.to_str().context("the directory's name is no UTF-8")?;
        // The server looks for it beside its own file.
        let users = fs::read_to_string(self.dir.join("users.conf"))?;
        let lines: Vec<&str> =
            SHIPPED.lines().filter(|line| !line.starts_with("listen:")).collect();
        let text = lines.join("\n").replace(INCLUDE, &users);
        Ok(text.replace("/etc/nats", dir).replace("/var/lib/nats", &format!("{dir}/nats")))
    }

    /// Settings of a process for this broker, as TOML.
    #[must_use]
    pub fn bus_settings(&self, user: &str) -> String {
        let (seed, ca_file) = (self.seed_file(user), self.ca_file());
        format!("[bus]\nnkey_seed_file = {seed:?}\nca_file = {ca_file:?}\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shipped_configuration_is_used_below_one_directory() {
        let dir = std::env::temp_dir().join(format!("plimsoll-site-{}", std::process::id()));
        fs::create_dir(&dir).unwrap();
        fs::write(dir.join("users.conf"), "authorization { }").unwrap();
        let settings = Site { dir: dir.clone() }.broker_settings();
        fs::remove_dir_all(&dir).unwrap();
        let (settings, dir) = (settings.unwrap(), dir.display());
        assert!(settings.contains(&format!("cert_file: \"{dir}/server.pem\"")), "{settings}");
        assert!(settings.contains(&format!("store_dir: \"{dir}/nats\"")), "{settings}");
        assert!(settings.contains("\nauthorization { }"), "{settings}");
        assert!(!settings.contains("/etc/") && !settings.contains("\nlisten"), "{settings}");
    }
}
