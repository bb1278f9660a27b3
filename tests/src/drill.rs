//! A drill, started as an operator starts it, and its report.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::Value;

use crate::program::{ProgramOutput, ScratchDir, await_no_processes, program, run};

/// The exit code of a drill that did not pass.
pub const MISSED: Option<i32> = Some(6);
const WAIT: Duration = Duration::from_secs(290);

/// A drill that has exited.
pub struct DrillRun {
    /// Exit code and output.
    pub output: ProgramOutput,
    pub report: Value,
    dir: ScratchDir,
}

/// Runs a drill to its end and checks that it leaves no process.
///
/// # Errors
/// When it does not end, leaves a process behind, or prints no report.
pub async fn run_drill(name: &str, flags: &[&str]) -> Result<DrillRun> {
    let dir = ScratchDir::new()?;
    let mut command = program(name)?;
    command.arg("--json").args(flags).arg("--dir").arg(dir.path());
    // One scenario runs our Python client, which needs nothing beside the standard library.
    let here = std::env::var_os("CARGO_MANIFEST_DIR").context("no CARGO_MANIFEST_DIR")?;
    command.env("PYTHONPATH", Path::new(&here).join("../node/client-python"));
    let output = run(command, WAIT).await?;
    let report =
        serde_json::from_str(&output.stdout).with_context(|| format!("no report: {output:?}"))?;
    await_no_processes(&dir.path()).await?;
    Ok(DrillRun { output, report, dir })
}

impl DrillRun {
    /// Checks that the drill passed: some expectation was met, none was missed or skipped, and the
    /// exit code agrees with the report.
    ///
    /// # Panics
    /// When it did not; the text holds its standard error.
    pub fn assert_passed(&self) {
        let Self { output, report, .. } = self;
        assert_eq!(self.expectations("missed"), [""; 0], "{}", output.stderr);
        assert_eq!(self.expectations("skipped"), [""; 0], "{}", output.stderr);
        assert_ne!(self.expectations("met"), [""; 0], "{}", output.stderr);
        assert_eq!((output.code, &report["passed"]), (Some(0), &Value::Bool(true)));
    }

    /// A count of a fleet's report.
    ///
    /// # Panics
    /// When the report has none.
    pub fn fleet_number(&self, key: &str) -> u64 {
        let number = self.report["fleet"][key].as_u64();
        number.unwrap_or_else(|| panic!("no {key} in {}", self.report))
    }

    /// Names of the expectations with this verdict.
    pub fn expectations(&self, verdict: &str) -> Vec<&str> {
        let expectations = self.report["expectations"].as_array().into_iter().flatten();
        expectations
            .filter(|expectation| expectation["verdict"] == verdict)
            .filter_map(|expectation| expectation["name"].as_str())
            .collect()
    }

    /// The text of a file below its directory.
    ///
    /// # Errors
    /// When the file is not there.
    pub fn read_file(&self, file: impl AsRef<Path>) -> Result<String> {
        let path = self.dir.path().join(file);
        std::fs::read_to_string(&path).with_context(|| format!("{} is not there", path.display()))
    }
}
