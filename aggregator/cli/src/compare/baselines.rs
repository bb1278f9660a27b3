//! The directory of saved baselines, the samples of former runs: one JSON file for each name.

use std::io::Write;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use plimsoll_compare::{Side, baseline};
use plimsoll_schemas::ids::check_token;
use tempfile::NamedTempFile;

use super::source::load;

const SUFFIX: &str = ".json";

/// What `--baseline` asks for.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Request {
    /// Save under this name.
    Save(String),
    /// Compare with this one.
    Check(String),
}

impl Request {
    pub(super) fn parse(words: &[String]) -> Result<Self, String> {
        let [action, name] = words else { return Err("--baseline takes two words".to_owned()) };
        // A dot may separate the numbers of a version; it cannot lead out of the directory.
        check_token("the name of a baseline", &name.replace('.', "-"))
            .map_err(|error| error.to_string())?;
        match action.as_str() {
            "save" => Ok(Self::Save(name.clone())),
            "check" => Ok(Self::Check(name.clone())),
            other => Err(format!("--baseline {other}: write save or check")),
        }
    }
}

pub(super) struct Baselines(PathBuf);

impl Baselines {
    /// The given directory, or that of the user's data.
    pub(super) fn find(given: Option<PathBuf>) -> Result<Self> {
        let of_user = || {
            let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty());
            let data = variable("XDG_DATA_HOME").map(PathBuf::from);
            let data = data.or_else(|| Some(PathBuf::from(variable("HOME")?).join(".local/share")));
            data.map(|data| data.join("plimsoll/baselines"))
        };
        let found = given.or_else(of_user);
        found.map(Self).context("neither XDG_DATA_HOME nor HOME is set: use --baseline-dir")
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(format!("{name}{SUFFIX}"))
    }

    /// Writes or replaces a baseline; one that is read at that time is the old or the new one.
    pub(super) fn save(&self, name: &str, side: &Side) -> Result<PathBuf> {
        let path = self.path(name);
        let written = || -> Result<()> {
            std::fs::create_dir_all(&self.0)?;
            let mut file = NamedTempFile::new_in(&self.0)?;
            file.write_all(baseline::write(side)?.as_bytes())?;
            file.persist(&path)?;
            Ok(())
        };
        written().with_context(|| path.display().to_string())?;
        Ok(path)
    }

    pub(super) fn load(&self, name: &str) -> Result<Side> {
        let path = self.path(name);
        if !path.exists() {
            let known = self.names();
            let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
            bail!("no baseline {name} in {}: {known}", self.0.display());
        }
        load(&path, None)
    }

    /// The names of all, in order.
    pub(super) fn names(&self) -> Vec<String> {
        let files = std::fs::read_dir(&self.0).into_iter().flatten().flatten();
        let mut names: Vec<String> = files
            .filter_map(|file| Some(file.file_name().to_str()?.strip_suffix(SUFFIX)?.to_owned()))
            .collect();
        names.sort_unstable();
        names
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_lead_elsewhere_and_other_actions_are_refused() {
        let parse =
            |action: &str, name: &str| Request::parse(&[action.to_owned(), name.to_owned()]);
        assert_eq!(parse("save", "v1.4"), Ok(Request::Save("v1.4".to_owned())));
        assert_eq!(parse("check", "main"), Ok(Request::Check("main".to_owned())));
        for (action, name) in [("load", "main"), ("save", "../main"), ("save", ""), ("save", "a b")]
        {
            assert!(parse(action, name).is_err(), "{action} {name}");
        }
    }

    #[test]
    fn an_unknown_baseline_is_answered_with_the_known_ones() {
        let dir = tempfile::tempdir().unwrap();
        let baselines = Baselines(dir.path().join("new"));
        let unknown = |name| baselines.load(name).unwrap_err().to_string();
        assert!(unknown("v1").ends_with("none"), "{}", unknown("v1"));
        for name in ["v2", "v1.4"] {
            baselines.save(name, &Side::default()).unwrap();
        }
        assert!(unknown("v1").ends_with(": v1.4, v2"), "{}", unknown("v1"));
        assert_eq!(std::fs::read_dir(&baselines.0).unwrap().count(), 2);
    }
}
