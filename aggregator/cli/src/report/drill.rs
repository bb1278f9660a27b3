//! Reads the report of a drill: what `drill-faults --json` and the others print.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

use super::document::{DrillResult, Expectation};
use super::limits::{DRILL_BYTES_MAX, EXPECTATIONS_MAX};

#[derive(Deserialize)]
struct Written {
    drill: String,
    passed: bool,
    seconds: f64,
    expectations: Vec<Expectation>,
}

/// The outcome in a file.
///
/// # Errors
/// When it cannot be read, or is no report of a drill with expectations.
pub(super) fn read(path: &Path) -> Result<DrillResult> {
    let name = path.display().to_string();
    let mut text = String::new();
    let file = File::open(path).with_context(|| format!("--drill {name}"))?;
    let read = file.take(DRILL_BYTES_MAX + 1).read_to_string(&mut text);
    read.with_context(|| format!("--drill {name}"))?;
    ensure!(
        text.len() as u64 <= DRILL_BYTES_MAX,
        "--drill {name}: more than {DRILL_BYTES_MAX} bytes"
    );
    parse(&text, &name)
}

fn parse(text: &str, name: &str) -> Result<DrillResult> {
    let written: Written = serde_json::from_str(text).with_context(|| {
        format!(
            "--drill {name}: write it with --json of a drill that has expectations, such as \
                 `drill-faults --json`"
        )
    })?;
    let Written { drill, passed, seconds, mut expectations } = written;
    let expectations_left_out = expectations.len().saturating_sub(EXPECTATIONS_MAX);
    expectations.truncate(EXPECTATIONS_MAX);
    let file = name.to_owned();
    Ok(DrillResult { file, drill, passed, seconds, expectations, expectations_left_out })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_drills_report_is_read_and_another_file_is_refused_with_the_fix() {
        let text = r#"{"drill":"drill-latency","version":"0.1.0","mesh":"drill","passed":false,
            "seconds":61.5,"expectations":[{"name":"fires","expected":"an alert","seen":"none",
            "took_seconds":3.5,"verdict":"missed"}],"notifications":[],"comparisons":[]}"#;
        let found = parse(text, "d.json").unwrap();
        assert_eq!((found.drill.as_str(), found.passed), ("drill-latency", false));
        assert_eq!(found.expectations[0].verdict, "missed");
        let error = format!("{:#}", parse(r#"{"passed":true}"#, "d.json").map(drop).unwrap_err());
        assert!(error.starts_with("--drill d.json: write it with --json of a drill"), "{error}");
        let absent = format!("{:#}", read(Path::new("absent.json")).map(drop).unwrap_err());
        assert!(absent.starts_with("--drill absent.json: No such file"), "{absent}");
    }
}
