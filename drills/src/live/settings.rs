//! Settings of a drill's mesh: the example workload beside three nodes, and which budgets and rules
//! its aggregator judges.

use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use plimsoll_mesh::stack::{StackOptions, Workload, bin_dir};
use plimsoll_schemas::budget::Budget;
use plimsoll_schemas::rule::file::shipped;

use super::expectation::Drill;

/// Three nodes, each with the example workload, below `dir`.
///
/// # Errors
/// When the mesh's programs are not built.
pub fn options(dir: &Path) -> Result<StackOptions> {
    let workload = Workload::at(bin_dir()?.join("plimsoll-workload"));
    Ok(StackOptions::new(dir).with_workload(workload))
}

/// The same under more than twice its usual load.
///
/// # Errors
/// When the mesh's programs are not built.
pub fn busy(dir: &Path) -> Result<StackOptions> {
    let mut options = options(dir)?;
    if let Some(workload) = &mut options.workload {
        workload.arguments = vec!["--epochs-per-second=50".into()];
    }
    Ok(options)
}

/// Tables that make the limit of each built-in budget save `disturbed` forty times as wide: on a
/// busy machine an undisturbed mesh breaches the narrow ones, and rightly. DESIGN D15.
pub fn wide_limits(disturbed: &str) -> String {
    const TIMES: u64 = 40;
    tables(disturbed, |budget| {
        let limit = Duration::from_nanos(budget.limit_ns * TIMES);
        format!("limit = \"{}ms\"", limit.as_millis())
    })
}

/// Tables that disable each built-in budget save `judged`: whether they are met depends on the
/// other load of the machine.
pub fn no_budgets_but(judged: &str) -> String {
    tables(judged, |_| "enabled = false".to_owned())
}

/// A table with this line for each built-in budget save one.
fn tables(but: &str, line: impl Fn(&Budget) -> String) -> String {
    let others = shipped().budgets.into_iter().filter(|budget| budget.name.as_str() != but);
    others.map(|one| format!("[[budget]]\nname = \"{}\"\n{}\n", one.name, line(&one))).collect()
}

/// A table that judges a built-in budget over ten seconds, or disables it.
pub fn soon(budget: &str, samples_min: u64, is_enabled: bool) -> String {
    format!(
        "[[budget]]\nname = \"{budget}\"\nwindow = \"10s\"\nmin_samples = {samples_min}\n\
         enabled = {is_enabled}\n"
    )
}

/// A table that disables a rule if the drill is to miss an expectation; otherwise none.
pub fn planted_miss(drill: &mut Drill, rule: &str) -> String {
    match drill.take_planted_miss() {
        true => format!("[[rule]]\nname = \"{rule}\"\nenabled = false\n"),
        false => String::new(),
    }
}
