//! A drill run as an operator runs it, and its report.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::Value;

use crate::outcome::{Outcome, Swept, nobody_left, program, run};

const WAIT: Duration = Duration::from_secs(230);

/// A drill that has ended.
pub struct Drilled {
    /// How it ended.
    pub outcome: Outcome,
    /// Its report.
    pub report: Value,
    place: Swept,
}

/// Runs a drill to its end, and sees that no process is left.
///
/// # Errors
/// When it does not end, leaves a process behind, or prints no report.
pub async fn drill(name: &str, flags: &[&str]) -> Result<Drilled> {
    let place = Swept::new()?;
    let mut command = program(name)?;
    command.arg("--json").args(flags).arg("--dir").arg(place.path());
    let outcome = run(command, WAIT).await?;
    let report =
        serde_json::from_str(&outcome.stdout).with_context(|| format!("no report: {outcome:?}"))?;
    nobody_left(&place.path()).await?;
    Ok(Drilled { outcome, report, place })
}

impl Drilled {
    /// Names of the expectations that ended in this way.
    #[must_use]
    pub fn ended(&self, verdict: &str) -> Vec<&str> {
        let expectations = self.report["expectations"].as_array().into_iter().flatten();
        expectations
            .filter(|expectation| expectation["verdict"] == verdict)
            .filter_map(|expectation| expectation["name"].as_str())
            .collect()
    }

    /// What it wrote to a file below its directory.
    ///
    /// # Errors
    /// When the file is not there.
    pub fn written(&self, file: impl AsRef<Path>) -> Result<String> {
        let path = self.place.path().join(file);
        std::fs::read_to_string(&path).with_context(|| format!("{} is not there", path.display()))
    }
}
