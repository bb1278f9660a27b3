//! `plimsoll doctor`: what is wrong with a mesh and this machine, and how to fix it.
//!
//! [`settings`] reads the settings of the programs on this machine, [`mesh`] asks aggregators and
//! brokers, [`machine`] reads files of the kernel. What they find are facts; a fact that cannot be
//! had is the reason for that. [`checks`] are pure functions of facts, [`finding`] is what they
//! return. Nothing is changed anywhere.
//!
//! DESIGN A121.

mod checks;
mod finding;
mod limits;
mod machine;
mod mesh;
mod settings;

use anyhow::Result;
use clap::Args;
use plimsoll_runtime::exit::Exit;

use crate::targets::Targets;
use finding::DoctorReport;
use settings::SettingsFlags;

/// Check the mesh and this machine: what is wrong, and how to fix it
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:
  plimsoll doctor
  plimsoll doctor --url http://a:9900 --url http://b:9900
  plimsoll doctor --nats nats://broker:4222 --mesh lab
  plimsoll doctor --node-config ./node.toml --aggregator-config ./aggregator.toml
  plimsoll doctor --json | jq '.findings[] | {severity, where, mend}'

Settings are read as the programs read them: file, then PLIMSOLL_NODE_* and PLIMSOLL_AGGREGATOR_*
variables. Without settings files the checks of sockets, disks and listeners are skipped. Nothing is
changed: a permission to publish is tested with an empty message that no stream stores.
The exit code is 10 if there is an error, and 0 with warnings only.")]
pub struct DoctorArgs {
    #[command(flatten)]
    settings: SettingsFlags,
    #[command(flatten)]
    at: Targets,
}

/// Gathers all facts, checks them and prints what was found.
///
/// # Errors
/// When an argument cannot be used. What is wrong with the mesh is in the report.
pub async fn doctor(args: &DoctorArgs) -> Result<Exit> {
    let mut report = DoctorReport::default();
    let local = settings::load(&args.settings, &mut report);
    let aggregators = mesh::aggregators(&args.at.apis()?).await;
    checks::mesh::check(&aggregators, &local, &mut report);
    checks::mesh::check_node(mesh::node(&local).await, &mut report);
    let brokers = mesh::brokers(&local).await;
    checks::broker::check(&brokers, &aggregators, &mut report);
    checks::machine::check(&machine::read(&local), &mut report);
    checks::listeners::check(&local, &mut report);
    let json = serde_json::to_string(&report.printed())?;
    args.at.print(&json, || report.words());
    Ok(if report.has_errors() { Exit::Unsound } else { Exit::Success })
}
