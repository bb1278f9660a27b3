//! The aggregator of a stack, and the second one of a pair: each with files and pages of its own.

use std::path::Path;
use std::process::Command;

use anyhow::Result;
use plimsoll_runtime::client::Api;

use super::options::StackOptions;
use crate::child::{Child, free_port};

pub(super) struct Aggregator {
    pub(super) child: Child,
    pub(super) api: Api,
}

impl Aggregator {
    /// Starts the aggregator of `options`, or the second one if its settings are given.
    pub(super) fn start(
        options: &StackOptions,
        bin: &Path,
        url: &str,
        of_second: Option<&str>,
    ) -> Result<Self> {
        let suffix = if of_second.is_some() { "-2" } else { "" };
        let name = format!("aggregator{suffix}");

        let http = match &options.http {
            Some(address) if of_second.is_none() && !address.ends_with(":0") => address.clone(),
            _ => format!("127.0.0.1:{}", free_port()?),
        };

        let settings = options.dir.join(format!("{name}.toml"));
        std::fs::write(&settings, of_second.unwrap_or(&options.aggregator_settings))?;
        let mut command = Command::new(bin.join("plimsoll-aggregator"));
        let mesh = options.mesh.as_str();
        command.arg("--config").arg(settings);
        command.args(["--mesh", mesh, "--nats", url, "--http", &http]);
        command.args(options.replicas_flag());

        if options.keep_state {
            let file = |stem: &str| options.dir.join(format!("{stem}{suffix}.redb"));
            command.arg("--state").arg(file("state"));
            command.arg("--history").arg(file("history"));
        } else {
            // Without a state file it would confirm nothing, and nodes would hold all that they
            // sent: such a mesh is to work without surviving a restart.
            command.args(["--set", "confirm.without_state=true"]);
        }

        if of_second.is_some() {
            // Both run on this host, whose name would be that of both.
            command.args(["--set", "confirm.name=second"]);
        }

        Ok(Self { child: Child::start(&name, &options.dir, command)?, api: Api::at(&http)? })
    }
}
