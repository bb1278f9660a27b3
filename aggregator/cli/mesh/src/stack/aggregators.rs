//! The aggregator of a stack, and the second one of a pair: each with files and pages of its own.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::Result;
use plimsoll_runtime::client::Api;

use super::options::StackOptions;
use crate::child::{Child, free_port};

const END_WAIT: Duration = Duration::from_secs(20);
/// Which files are the first's.
const FIRST: &str = "";
/// Which files are the second's.
const SECOND: &str = "-2";

pub(super) struct Aggregator {
    pub(super) child: Child,
    pub(super) api: Api,
    suffix: &'static str,
}

impl Aggregator {
    /// Starts the aggregator of `options`.
    pub(super) fn first(options: &StackOptions, bin: &Path, url: &str) -> Result<Self> {
        let http = match &options.http {
            Some(address) if !address.ends_with(":0") => address.clone(),
            _ => format!("127.0.0.1:{}", free_port()?),
        };
        let child = spawn(options, bin, url, (FIRST, &http))?;
        Ok(Self { child, api: Api::at(&http)?, suffix: FIRST })
    }

    /// Starts the second one.
    pub(super) fn second(options: &StackOptions, bin: &Path, url: &str) -> Result<Self> {
        let http = format!("127.0.0.1:{}", free_port()?);
        let child = spawn(options, bin, url, (SECOND, &http))?;
        Ok(Self { child, api: Api::at(&http)?, suffix: SECOND })
    }

    pub(super) fn start(&mut self, options: &StackOptions, bin: &Path, url: &str) -> Result<()> {
        let http = self.api.url().trim_start_matches("http://");
        self.child = spawn(options, bin, url, (self.suffix, http))?;
        Ok(())
    }

    pub(super) async fn end(&mut self) -> Result<()> {
        self.child.terminate(END_WAIT).await.map(drop)
    }
}

fn spawn(
    options: &StackOptions,
    bin: &Path,
    url: &str,
    (suffix, http): (&str, &str),
) -> Result<Child> {
    let name = format!("aggregator{suffix}");
    let of_second = options.second_settings.as_ref().filter(|_| suffix == SECOND);
    let settings = options.dir.join(format!("{name}.toml"));
    std::fs::write(&settings, of_second.unwrap_or(&options.aggregator_settings))?;
    let mut command = Command::new(bin.join("plimsoll-aggregator"));
    let mesh = options.mesh.as_str();
    command.arg("--config").arg(settings).args(["--mesh", mesh, "--nats", url, "--http", http]);
    command.args(options.replicas_flag());
    if options.keep_state {
        let file = |stem: &str| options.dir.join(format!("{stem}{suffix}.redb"));
        command.arg("--state").arg(file("state"));
        command.arg("--history").arg(file("history"));
    } else {
        command.args(["--set", "confirm.without_state=true"]);
    }
    if suffix == SECOND {
        // Both run on this host, whose name would be that of both.
        command.args(["--set", "confirm.name=second"]);
    }
    Child::start(&name, &options.dir, command)
}
