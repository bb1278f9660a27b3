//! A site as `deploy/nats` describes it: the shipped configuration of nats-server with TLS, a key
//! for each process, and for each key the permissions that `plimsoll nats-config` prints; or the
//! shipped configurations of a cluster and of a leaf node. All of it lies in one directory.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use plimsoll_schemas::ids::MeshName;

use crate::broker::installed_version;
use crate::certificates::Certificates;
use crate::cluster::Member;
use crate::stack::bin_dir;

/// What `deploy/nats` ships.
const SHIPPED: &str = include_str!("../../../../deploy/nats/plimsoll.conf");
const SHIPPED_SERVER: &str = include_str!("../../../../deploy/nats/cluster/server.conf");
const SHIPPED_LEAF: &str = include_str!("../../../../deploy/nats/cluster/leaf.conf");
/// Certificates between servers of a cluster, below a site's directory.
const ROUTES: &str = "routes";
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
        Self::make_with(dir, mesh, nodes, |_| Ok(()))
    }

    /// The same for a cluster whose leaf node of this name serves `leaf_nodes`, and which divides
    /// the nodes into this many partitions unless there are none. The routes between its servers
    /// have an authority of their own.
    ///
    /// # Errors
    /// As [`Self::make`].
    pub fn make_hub(
        dir: &Path,
        mesh: &MeshName,
        nodes: &[String],
        leaf: &str,
        leaf_nodes: &[String],
        partitions: u16,
    ) -> Result<Self> {
        let site = Self::make_with(dir, mesh, nodes, |command| {
            fs::write(dir.join("leaf.txt"), leaf_nodes.join("\n"))?;
            command.arg("--leaf").arg(format!("{leaf}=leaf.txt"));
            if partitions > 0 {
                command.arg("--partitions").arg(partitions.to_string());
            }
            Ok(())
        })?;
        let routes = site.dir.join(ROUTES);
        fs::create_dir_all(&routes)?;
        Certificates::make(&routes)?;
        Ok(site)
    }

    fn make_with(
        dir: &Path,
        mesh: &MeshName,
        nodes: &[String],
        more: impl FnOnce(&mut Command) -> Result<()>,
    ) -> Result<Self> {
        let dir = std::path::absolute(dir)?;
        fs::create_dir_all(&dir)?;
        fs::write(dir.join("nodes.txt"), nodes.join("\n"))?;
        let mut command = Command::new(bin_dir()?.join("plimsoll"));
        command.args(["nats-config", "--mesh", mesh.as_str()]);
        command.args(["--keys", "keys", "--nodes-from", "nodes.txt"]);
        more(&mut command)?;
        let made = command.current_dir(&dir).stdin(Stdio::null()).output();
        let made = made.context("plimsoll nats-config cannot be run")?;
        ensure!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        fs::write(dir.join("users.conf"), made.stdout)?;
        Certificates::make(&dir)?;
        Ok(Self { dir })
    }

    /// The seed of a user: `aggregator`, `operator` or `node-NAME`.
    pub fn seed_file(&self, user: &str) -> PathBuf {
        self.dir.join(format!("keys/{user}.nk"))
    }

    /// The authority of the broker's certificate.
    pub fn ca_file(&self) -> PathBuf {
        self.dir.join("ca.pem")
    }

    /// The shipped configuration of nats-server, with this site's directory in the place of the
    /// system's and without an address. It has JetStream.
    ///
    /// # Errors
    /// When the directory's name is no UTF-8, or the users cannot be read.
    pub fn broker_settings(&self) -> Result<String> {
        self.placed(SHIPPED, "nats")
    }

    /// The shipped configuration of one server of a cluster, in the same way. Leaf nodes connect to
    /// `leaf_listen`. nats-server 2.9 does not have each of its keys.
    ///
    /// # Errors
    /// As [`Self::broker_settings`], and when nats-server does not state its version.
    pub fn server_settings(&self, member: &Member, leaf_listen: &str) -> Result<String> {
        let store = format!("store-{}", member.name);
        let mut text = self
            .placed(&SHIPPED_SERVER.replace("/etc/nats/route", "/etc/nats/routes/route"), &store)?
            .replace("routes/route-ca.pem", "routes/ca.pem")
            .replace("routes/route.", "routes/server.")
            .replace("server_name: \"nats-1\"", &format!("server_name: {:?}", member.name))
            .replace("0.0.0.0:6222", &member.listen)
            .replace("0.0.0.0:7422", leaf_listen);

        for (number, address) in (1..).zip(&member.routes) {
            text = text.replace(&format!("nats-{number}.example:6222"), address);
        }

        if installed_version()?.starts_with("2.9.") {
            let lines = text.lines().filter(|line| !line.trim().starts_with("sync_interval"));
            text = lines.collect::<Vec<_>>().join("\n");
        }

        Ok(text)
    }

    /// The shipped configuration of a leaf node of this name, which connects to the cluster of
    /// `hub`.
    ///
    /// # Errors
    /// As [`Self::broker_settings`], and when `hub` has no such leaf node.
    pub fn leaf_settings(&self, hub: &Self, name: &str, addresses: &[String]) -> Result<String> {
        let password = fs::read_to_string(hub.seed_file(&format!("leaf-{name}")))?;
        let mut text = self
            .placed(SHIPPED_LEAF, "no-store")?
            .replace("leaf-west:PASSWORD", &format!("leaf-{name}:{}", password.trim()));
        for (number, address) in (1..).zip(addresses) {
            text = text.replace(&format!("nats-{number}.example:7422"), address);
        }
        let (own, of_hub) = (self.ca_file(), hub.ca_file());
        Ok(text.replace(&own.display().to_string(), &of_hub.display().to_string()))
    }

    /// A shipped file with this site's directory in the place of the system's.
    fn placed(&self, shipped: &str, store: &str) -> Result<String> {
        let dir = self.dir.to_str().context("the directory's name is no UTF-8")?;
        // The server looks for it beside its own file.
        let users = fs::read_to_string(self.dir.join("users.conf"))?;
        let lines: Vec<&str> =
            shipped.lines().filter(|line| !line.starts_with("listen:")).collect();
        let text = lines.join("\n").replace(INCLUDE, &users);
        Ok(text.replace("/etc/nats", dir).replace("/var/lib/nats", &format!("{dir}/{store}")))
    }

    /// Settings of a process for this broker, as TOML.
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
