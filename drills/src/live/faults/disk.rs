//! The disk under a node's spool is full: the node continues in memory, reports the full disk, and
//! loses nothing as long as its process runs.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result};
use plimsoll_mesh::stack::StackOptions;

use crate::live::account::Terms;
use crate::live::expectation::{Drill, Expectation, Look, Span};
use crate::live::report::Report;
use crate::live::rig::Rig;
use crate::live::settings::busy;
use crate::live::tally::metric;

/// Room for a few messages.
const SIZE: &str = "size=256k";
const AWAY: Duration = Duration::from_secs(6);
const FILL_EVERY: Duration = Duration::from_millis(5);
/// A failed write is tried again after 5 s.
const ALERT_WAIT: Duration = Duration::from_secs(12);

pub(super) async fn full(mut drill: Drill, dir: &Path) -> Result<Report> {
    std::fs::create_dir_all(dir)?;
    let Some(disk) = Disk::mount_or_skip(&mut drill, dir) else {
        return Ok(Report::new(&drill));
    };
    let options = StackOptions { spools: Some(disk.0.clone()), nodes: 1, ..busy(dir)? };
    let disturb = async |rig: &mut Rig| fill(rig, &disk).await;
    Rig::run(drill, options, Terms::NOTHING, disturb).await
}

async fn fill(rig: &mut Rig, disk: &Disk) -> Result<()> {
    let base = rig.merged().await?;
    let rest = disk.fill()?;
    rig.stack.broker().kill();
    expect_durable(rig, false).await;
    rig.pass("the disk is full and the broker dead", AWAY).await;
    rig.stack.broker().restart().await?;
    rig.expect_recovery(&base, rig.drill.elapsed()).await;

    std::fs::remove_file(rest)?;
    let freed = rig.drill.elapsed();
    let base = rig.merged().await?;
    expect_durable(rig, true).await;
    rig.expect_recovery(&base, freed).await;
    Ok(())
}

async fn expect_durable(rig: &mut Rig, durable: bool) {
    let within = ALERT_WAIT.as_secs();
    let expectation = match durable {
        true => Expectation::new("the spool is back", format!("durable within {within} s")),
        false => Expectation::new(
            "the node reports the full disk",
            format!("not durable, a failure counted and logged, within {within} s"),
        ),
    };

    let station = &rig.stack.stations()[0];
    let look = async || -> Result<Look> {
        let now = metric(&station.api, "plimsoll_agent_spool_durable").await? == 1.0;
        let failures = metric(&station.api, "plimsoll_agent_spool_write_failures_total").await?;
        let logged = station.node_log().contains("spool not written");
        let met = now == durable && (durable || (failures > 0.0 && logged));
        Ok(Look::new(met, format!("durable {now}, {failures} failures, logged {logged}")))
    };

    let span = Span { since: rig.drill.elapsed(), within: ALERT_WAIT };
    rig.drill.expect(expectation, span, look).await;
}

/// A file system in memory, taken away when dropped.
pub(super) struct Disk(PathBuf);

impl Disk {
    pub(super) fn path(&self) -> &Path {
        &self.0
    }

    /// Mounts it below `dir`; a user who may not skips the drill.
    pub(super) fn mount_or_skip(drill: &mut Drill, dir: &Path) -> Option<Self> {
        let mounted = Self::mount(dir.join("disk"));
        mounted
            .inspect_err(|error| {
                let expected = "a file system of its own to fill";
                drill.skip(Expectation::new("a small disk", expected), &format!("{error:#}"));
            })
            .ok()
    }

    fn mount(place: PathBuf) -> Result<Self> {
        std::fs::create_dir_all(&place)?;
        let mut command = Command::new("mount");
        command.args(["-t", "tmpfs", "-o", SIZE, "plimsoll-drill"]).arg(&place);
        let status = command.stderr(Stdio::null()).status().context("mount cannot be run")?;
        anyhow::ensure!(status.success(), "this user may not mount a file system");
        Ok(Self(place))
    }

    /// Fills the file system, also where it was filled before and a file has gone since. Deleting
    /// the returned file frees the space.
    fn fill(&self) -> Result<PathBuf> {
        let path = self.0.join("rest");
        let mut file = File::options().append(true).create(true).open(&path)?;
        while file.write_all(&[7; 1024]).is_ok() {}
        Ok(path)
    }

    /// Keeps it full, so that no process finds room that another has just freed. For ever.
    pub(super) async fn keep_full(&self) -> Result<std::convert::Infallible> {
        loop {
            self.fill()?;
            tokio::time::sleep(FILL_EVERY).await;
        }
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // Lazily, since a process of the mesh may still have an open file on it.
        let _left_behind = Command::new("umount").arg("--lazy").arg(&self.0).status();
    }
}
