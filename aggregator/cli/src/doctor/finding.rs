//! What checks return, and how it is printed.

use serde::Serialize;

use crate::terminal_text::safe;
use plimsoll_bus::advisories;

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Severity {
    /// Samples are lost, late or unjudged now, or soon.
    Error,
    /// It works, and something should be changed.
    Warning,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Finding {
    pub(super) check: &'static str,
    pub(super) severity: Severity,
    /// What is wrong, in one line.
    pub(super) what: String,
    /// The address, file, stream, node or setting.
    #[serde(rename = "where")]
    pub(super) place: String,
    /// A command or a setting that fixes it.
    #[serde(rename = "mend")]
    pub(super) fix: String,
}

impl Finding {
    pub(super) fn error(place: &str, what: String, fix: &str) -> Self {
        Self::new(Severity::Error, place, what, fix)
    }

    pub(super) fn warning(place: &str, what: String, fix: &str) -> Self {
        Self::new(Severity::Warning, place, what, fix)
    }

    /// The name of the check is set by [`DoctorReport::add`].
    fn new(severity: Severity, place: &str, what: String, fix: &str) -> Self {
        let (place, fix) = (place.to_owned(), fix.to_owned());
        Self { check: "", severity, what, place, fix }
    }
}

/// A check that could not run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Skipped {
    pub(super) check: &'static str,
    pub(super) reason: String,
}

/// The results of all checks.
#[derive(Debug, Default)]
pub(super) struct DoctorReport {
    findings: Vec<Finding>,
    skipped: Vec<Skipped>,
    passed: Vec<&'static str>,
}

/// A report as JSON.
#[derive(Serialize)]
pub(super) struct Printed<'a> {
    findings: &'a [Finding],
    skipped: &'a [Skipped],
    passed: &'a [&'static str],
    /// Date of the newest advisory about nats-server that is known here.
    advisories_of: &'static str,
}

impl DoctorReport {
    /// Adds the result of one check, or why it could not run. A check may be added once for each
    /// aggregator or broker.
    pub(super) fn add(&mut self, check: &'static str, result: Result<Vec<Finding>, String>) {
        match result {
            Err(reason) => self.skipped.push(Skipped { check, reason }),
            Ok(found) if found.is_empty() => self.passed.push(check),
            Ok(found) => {
                self.findings.extend(found.into_iter().map(|found| Finding { check, ..found }));
            }
        }

        // Stable, so that findings of one severity stay in the order of the checks.
        self.findings.sort_by_key(|found| found.severity);
        // The worst of several results of one check counts.
        let found = |check: &&str| self.findings.iter().any(|of| of.check == *check);
        let skipped = |check: &&str| self.skipped.iter().any(|of| of.check == *check);
        self.passed.retain(|check| !found(check) && !skipped(check));
        self.passed.dedup();
        self.skipped.dedup();
    }

    pub(super) fn has_errors(&self) -> bool {
        self.findings.iter().any(|found| found.severity == Severity::Error)
    }

    pub(super) fn printed(&self) -> Printed<'_> {
        let Self { findings, skipped, passed } = self;
        Printed { findings, skipped, passed, advisories_of: advisories::NEWEST }
    }

    /// The report for people.
    pub(super) fn words(&self) -> String {
        let mut text = String::new();
        for Finding { check, severity, what, place, fix } in &self.findings {
            let severity = match severity {
                Severity::Error => "ERROR",
                Severity::Warning => "warning",
            };
            let (what, place, fix) = (safe(what), safe(place), safe(fix));
            text += &format!("{severity:<8} {check:<12} {place}: {what}\n");
            text += &format!("{:<8} {:<12} fix: {fix}\n", "", "");
        }

        for Skipped { check, reason } in &self.skipped {
            text += &format!("{:<8} {check:<12} {}\n", "skipped", safe(reason));
        }
        if !self.passed.is_empty() {
            text += &format!("{:<8} {}\n", "ok", self.passed.join(", "));
        }

        let of = |severity| self.findings.iter().filter(|found| found.severity == severity).count();
        let (errors, warnings) = (of(Severity::Error), of(Severity::Warning));
        let (skipped, newest) = (self.skipped.len(), advisories::NEWEST);

        text + &format!(
            "\nerrors: {errors}, warnings: {warnings}, skipped: {skipped}; advisories about \
             nats-server as of {newest}\n"
        )
    }

    #[cfg(test)]
    pub(super) fn findings(&self) -> &[Finding] {
        &self.findings
    }

    #[cfg(test)]
    pub(super) fn skipped(&self) -> Vec<&'static str> {
        self.skipped.iter().map(|skipped| skipped.check).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_come_first_and_a_check_passes_only_if_every_result_of_it_does() {
        let mut report = DoctorReport::default();
        report.add("clocks", Ok(Vec::new()));
        report.add("disk", Ok(vec![Finding::warning("/", "is full".to_owned(), "df -h")]));
        report.add("sockets", Err("no node".to_owned()));
        report.add("clocks", Ok(vec![Finding::error("n1", "off\u{1b}[2J".to_owned(), "ntp")]));
        assert!(report.has_errors());
        let expected = "\
ERROR    clocks       n1: off\u{FFFD}[2J
                      fix: ntp
warning  disk         /: is full
                      fix: df -h
skipped  sockets      no node

errors: 1, warnings: 1, skipped: 1; advisories about nats-server as of 2026-06-29
";
        assert_eq!(report.words(), expected);
        let json = serde_json::to_value(report.printed()).unwrap();
        assert_eq!(json["findings"][0]["where"], "n1");
        assert_eq!(json["findings"][0]["severity"], "error");
        assert_eq!(json["passed"], serde_json::json!([]));
    }
}
