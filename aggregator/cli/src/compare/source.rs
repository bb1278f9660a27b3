//! Reads one side from a file; its first character decides its format.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use anyhow::{Context, Result, bail};
use plimsoll_compare::{Side, baseline};
use plimsoll_schemas::figure::counted;

use crate::interval_log::{self, Unit};
use crate::report::side_of;

/// A baseline of a day of a hundred operations.
const BASELINE_BYTES_MAX: u64 = 1 << 28;

/// The side in a file: a baseline or a report if it begins as JSON does, or an interval log.
///
/// # Errors
/// When it cannot be read, or has no histogram. The error names the file.
pub(crate) fn load(path: &Path, unit: Option<Unit>) -> Result<Side> {
    let side = read(path, unit).with_context(|| path.display().to_string())?;
    if side.operations.is_empty() {
        bail!("{}: it has no histogram", path.display());
    }
    Ok(side)
}

fn read(path: &Path, unit: Option<Unit>) -> Result<Side> {
    let mut file = BufReader::new(File::open(path)?);
    if file.fill_buf()?.trim_ascii_start().starts_with(b"{") {
        let mut text = String::new();
        file.take(BASELINE_BYTES_MAX + 1).read_to_string(&mut text)?;

        if text.len() as u64 > BASELINE_BYTES_MAX {
            bail!(
                "more than {BASELINE_BYTES_MAX} bytes: save a baseline or a report of a shorter run"
            );
        }

        return match side_of(&text)? {
            Some(side) => Ok(side),
            None => Ok(baseline::read(&text)?),
        };
    }

    let log = interval_log::read(file, unit)?;
    if log.clamped > 0 {
        let samples = counted(log.clamped, "sample");
        eprintln!("{}: {samples} above an hour recorded as an hour", path.display());
    }

    Ok(log.side)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str) -> String {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        let error = format!("{:#}", load(file.path(), None).unwrap_err());
        error.replace(&file.path().display().to_string(), "FILE")
    }

    #[test]
    fn an_error_names_the_file_and_what_is_wrong() {
        for (text, error) in [
            ("", "FILE: it has no histogram"),
            ("# only a comment\n", "FILE: it has no histogram"),
            ("# a comment\nx\n", "FILE: line 2: expected `Tag=OPERATION"),
            ("{\"fleet\": {}}", "FILE: it has no histograms of intervals"),
        ] {
            let found = refused(text);
            assert!(found.starts_with(error), "{found}");
        }
        let absent = load(Path::new("absent.hlog"), None).unwrap_err();
        assert!(format!("{absent:#}").starts_with("absent.hlog: "), "{absent:#}");
    }
}
