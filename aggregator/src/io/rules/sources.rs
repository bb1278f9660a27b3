//! Reads the settings and the rule files as one, and notes which files that took.
//!
//! Only regular files of a bounded size are read, and none of them can block the reader.

use std::collections::BTreeMap;
use std::fs::{Metadata, OpenOptions};
use std::io::Read;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use plimsoll_runtime::settings::SettingsArgs;
use plimsoll_schemas::limits::rules::FILE_BYTES_MAX;
use plimsoll_schemas::rule::file::{check, load};
use plimsoll_schemas::rule::{RuleError, RuleTables, RuleText, Rules};
use plimsoll_schemas::settings::Resolved;
use toml::{Table, Value};

use crate::config::Config;
use crate::io::baselines;
use crate::io::notify::Endpoint;

/// Prefix of the environment variables that are settings.
const PREFIX: &str = "PLIMSOLL_AGGREGATOR_";

/// Where a process takes its settings from.
#[derive(Clone, Debug)]
pub struct Sources {
    settings: SettingsArgs,
    flags: Vec<(&'static str, Option<String>)>,
}

/// Settings and rules, checked.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// The settings, and where each was set.
    pub resolved: Resolved<Config>,
    pub rules: Rules,
}

/// What changes when a file is replaced or written to; `None` for a missing file.
type Stamp = Option<[i64; 7]>;

/// The files that were read or should have been, with their stamps just before.
pub type Stamps = BTreeMap<PathBuf, Stamp>;

impl Sources {
    /// Settings from a file, variables and these flags.
    pub fn new(
        settings: SettingsArgs,
        flags: impl IntoIterator<Item = (&'static str, Option<String>)>,
    ) -> Self {
        Self { settings, flags: flags.into_iter().collect() }
    }

    /// Reads and checks everything; returns the stamps of the files in either case.
    ///
    /// # Errors
    /// Names the file, the line, the key and the fix.
    pub fn load(&self) -> (Result<Loaded, String>, Stamps) {
        let mut stamps = Stamps::new();
        let loaded = self.load_noting(&mut stamps);
        (loaded, stamps)
    }

    fn load_noting(&self, stamps: &mut Stamps) -> Result<Loaded, String> {
        let config = self.settings.config.as_deref();
        let text = config.map(|path| note_and_read(stamps, path)).transpose();
        let text = text.map_err(|why| format!("--config {}: {why}", self.config_name()))?;

        // First, since these errors name lines.
        if let Some(text) = text.clone() {
            let text =
                RuleText::new(self.config_name(), text).map_err(|error| error.to_string())?;
            let tables = RuleTables::Some { budget: true, rule: true };
            check(RuleText { tables, ..text }).map_err(|error| error.to_string())?;
        }

        let resolved = self.settings.load::<Config>(PREFIX, &self.flags);
        let resolved = resolved.map_err(|error| error.to_string())?;
        resolved.value.check().map_err(|problem| resolved.located(&problem))?;
        Endpoint::of_config(&resolved.value)?;
        let over = self.over(&resolved, text)?;
        let files = &resolved.value.rules;
        let open = &mut |path: &str| note_and_read(stamps, Path::new(path));
        let rules = load(&files.files, over, files.time_scale, open);
        let rules = rules.map_err(|error| error.to_string())?;

        for rule in &rules.thresholds {
            let Some(baseline) = &rule.baseline else { continue };

            if resolved.value.history.path.is_none() {
                let name = rule.name.as_str();
                return Err(format!(
                    "rule {name:?}: a regression needs a history: set history.path"
                ));
            }

            let path = PathBuf::from(&baseline.path);
            // A baseline that is saved again reloads the rules, and with them is checked (A83).
            stamps.insert(path.clone(), stamp(&path));
            baselines::check(rule)?;
        }

        Ok(Loaded { resolved, rules })
    }

    fn config_name(&self) -> String {
        let path = self.settings.config.as_deref();
        path.map(|path| path.display().to_string()).unwrap_or_default()
    }

    /// The rules in the settings themselves, with line numbers if they are in the settings file.
    fn over(
        &self,
        resolved: &Resolved<Config>,
        text: Option<Vec<u8>>,
    ) -> Result<Vec<RuleText>, String> {
        let file = format!("file {}", self.config_name());
        let config = &resolved.value;
        let given = [("budget", &config.budget), ("rule", &config.rule)];
        let origin = |key: &str| resolved.origins.get(key);
        let [budget, rule] =
            given.map(|(key, _)| text.is_some() && origin(key).is_some_and(|of| *of == file));
        let mut over = Vec::new();
        let text_of = |error: RuleError| error.to_string();

        if let Some(text) = text.filter(|_| budget || rule) {
            let text = RuleText::new(self.config_name(), text).map_err(text_of)?;
            over.push(RuleText { tables: RuleTables::Some { budget, rule }, ..text });
        }

        for ((key, tables), in_file) in given.into_iter().zip([budget, rule]) {
            if let Some(origin) = origin(key).filter(|_| !in_file) {
                let text = RuleText::new(origin, written(key, tables).into()).map_err(text_of)?;
                let tables = RuleTables::Some { budget: key == "budget", rule: key == "rule" };
                over.push(RuleText { tables, placed: false, ..text });
            }
        }

        Ok(over)
    }
}

/// Tables as TOML text.
fn written(key: &str, tables: &[Table]) -> String {
    let tables = tables.iter().cloned().map(Value::Table).collect();
    Table::from_iter([(key.to_owned(), Value::Array(tables))]).to_string()
}

/// The stamp is taken first: a later write is noticed at the next check.
fn note_and_read(stamps: &mut Stamps, path: &Path) -> Result<Vec<u8>, String> {
    stamps.insert(path.to_owned(), stamp(path));
    read(path)
}

pub(super) fn stamp(path: &Path) -> Stamp {
    let of = |file: Metadata| {
        let whole = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
        let written = [file.mtime(), file.mtime_nsec(), file.ctime(), file.ctime_nsec()];
        let [mtime, mtime_ns, ctime, ctime_ns] = written;
        [whole(file.dev()), whole(file.ino()), whole(file.size()), mtime, mtime_ns, ctime, ctime_ns]
    };
    std::fs::metadata(path).ok().map(of)
}

/// A regular file's bytes; of a file that is too large, one more than the bound.
fn read(path: &Path) -> Result<Vec<u8>, String> {
    let text = |error: std::io::Error| error.to_string();
    // Opening a pipe would block until a writer opens it.
    let open = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path);
    let file = open.map_err(text)?;
    let kind = file.metadata().map_err(text)?.file_type();
    if kind.is_dir() {
        return Err("is a directory; name the files in it".to_owned());
    }
    if !kind.is_file() {
        return Err("is not a regular file".to_owned());
    }

    let mut bytes = Vec::new();
    file.take(FILE_BYTES_MAX as u64 + 1).read_to_end(&mut bytes).map_err(text)?;
    Ok(bytes)
}
