//! Which processes are watched: the `[[hardware.watch]]` sections.
//!
//! They are checked where they are read, so that a [`Watch`] is always right. Whether any process
//! fits is not asked: a watch waits for what it is named after.

use std::path::{Component, Path, PathBuf};

use crate::limits::WATCHES_MAX;
use plimsoll_schemas::ids::Labels;
use serde::de::Error;
use serde::{Deserialize, Deserializer};

/// Processes whose figures are summed under one name.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "Section")]
pub struct Watch {
    /// The label `watch` of its readings; no two watches have the same.
    pub labels: Labels,
    pub by: By,
}

/// What makes a process one of a watch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum By {
    Pid(u32),
    Process(String),
    /// Its control group, or one below: a path below the root of the groups.
    Cgroup(PathBuf),
}

/// The keys of one `[[hardware.watch]]`.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Section {
    name: String,
    pid: Option<u32>,
    process: Option<String>,
    cgroup: Option<PathBuf>,
}

impl TryFrom<Section> for Watch {
    type Error = String;

    fn try_from(section: Section) -> Result<Self, String> {
        let Section { name, pid, process, cgroup } = section;
        if name.is_empty() {
            return Err("needs a name, which becomes the label `watch`".to_owned());
        }
        let labels = Labels::new([("watch", &name)]).map_err(|error| format!("name: {error}"))?;
        let by = match (pid, process, cgroup) {
            (Some(pid), None, None) => By::Pid(number(pid)?),
            (None, Some(process), None) => By::Process(file_name(process)?),
            (None, None, Some(cgroup)) => By::Cgroup(below_root(&cgroup)?),
            (None, None, None) => return Err("needs one of pid, process, cgroup".to_owned()),
            _ => return Err("has more than one of pid, process, cgroup; keep one".to_owned()),
        };
        Ok(Self { labels, by })
    }
}

fn number(pid: u32) -> Result<u32, String> {
    if pid == 0 { Err("pid must be 1 or more".to_owned()) } else { Ok(pid) }
}

fn file_name(process: String) -> Result<String, String> {
    let fits = (1..=255).contains(&process.len()) && !process.starts_with('/');
    let fault = || format!("process: {process:?} must be a file name, such as \"postgres\"");
    if fits { Ok(process) } else { Err(fault()) }
}

fn below_root(cgroup: &Path) -> Result<PathBuf, String> {
    let path = cgroup.strip_prefix("/").unwrap_or(cgroup);
    let is_plain = path.components().all(|part| matches!(part, Component::Normal(_)));
    if cgroup.as_os_str().is_empty() || !is_plain {
        return Err(format!(
            "cgroup: {cgroup:?} must be a path below the root of the groups, \
             such as \"/system.slice/batch.service\""
        ));
    }
    Ok(path.to_owned())
}

pub(crate) fn watches<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Watch>, D::Error> {
    let watches = Vec::<Watch>::deserialize(deserializer)?;
    if watches.len() > WATCHES_MAX {
        return Err(D::Error::custom(format_args!("must have at most {WATCHES_MAX} watches")));
    }
    for (at, watch) in watches.iter().enumerate() {
        if let Some(before) = watches[..at].iter().position(|other| other.labels == watch.labels) {
            let message = format_args!("[{at}] has the name of [{before}]; choose another");
            return Err(D::Error::custom(message));
        }
    }
    Ok(watches)
}

#[cfg(test)]
mod tests {
    use plimsoll_schemas::limits::wire::LABEL_VALUE_BYTES_MAX;
    use plimsoll_schemas::settings::{Layer, resolve};

    use super::*;
    use crate::config::{Config, EXAMPLE};

    fn read(text: &str) -> Result<Vec<Watch>, String> {
        let layer = Layer::from_toml("file n.toml", text).map_err(|error| error.to_string())?;
        let config = resolve::<Config>(&[layer]).map_err(|error| error.to_string())?;
        Ok(config.value.hardware.watch)
    }

    fn watch(name: &str, by: By) -> Watch {
        Watch { labels: Labels::new([("watch", name)]).unwrap(), by }
    }

    const FIRST: &str = "[[hardware.watch]]\nname = 'a'\npid = 1\n[[hardware.watch]]\n";

    #[test]
    fn a_watch_is_by_number_name_or_group() {
        let text = format!(
            "{FIRST}name = 'b'\nprocess = 'python3'\n\
             [[hardware.watch]]\nname = 'c'\ncgroup = '/kubepods/burstable'\n\
             [[hardware.watch]]\nname = 'all'\ncgroup = '/'\n"
        );
        let expected = [
            watch("a", By::Pid(1)),
            watch("b", By::Process("python3".to_owned())),
            watch("c", By::Cgroup("kubepods/burstable".into())),
            watch("all", By::Cgroup(PathBuf::new())),
        ];
        assert_eq!(read(&text).unwrap(), expected);
    }

    #[test]
    fn a_wrong_watch_is_named_with_its_fix() {
        let long = "v".repeat(LABEL_VALUE_BYTES_MAX + 1);
        for (section, fault) in [
            ("name = 'b'", "hardware.watch[1]: needs one of pid, process, cgroup"),
            ("name = 'b'\npid = 1\ncgroup = '/'", "hardware.watch[1]: has more than one of pid,"),
            ("pid = 1", "hardware.watch[1]: needs a name"),
            ("name = 'b'\npid = 0", "hardware.watch[1]: pid must be 1 or more"),
            ("name = 'b'\npid = -1", "hardware.watch[1].pid: "),
            ("name = 'b'\npid = 'x'", "hardware.watch[1].pid: "),
            ("name = 'b'\npids = 1", "unknown key \"hardware.watch[1].pids\""),
            ("name = 'b'\nprocess = ''", "hardware.watch[1]: process: \"\" must be a file name"),
            ("name = 'b'\nprocess = '/bin/sh'", "\"/bin/sh\" must be a file name"),
            ("name = 'b'\ncgroup = ''", "hardware.watch[1]: cgroup: \"\" must be a path"),
            ("name = 'b'\ncgroup = 'a/../b'", "\"a/../b\" must be a path below"),
            ("name = 'a'\npid = 2", "hardware.watch: [1] has the name of [0]; choose another"),
            (&format!("name = '{long}'\npid = 1"), "hardware.watch[1]: name: label value"),
        ] {
            let error = read(&format!("{FIRST}{section}")).unwrap_err();
            assert!(error.starts_with("file n.toml: "), "{section}: {error}");
            assert!(error.contains(fault), "{section}: {error}");
        }
    }

    #[test]
    fn watches_are_bounded() {
        let list = |n: usize| {
            let one = |n| format!("[[hardware.watch]]\nname = 'w{n}'\npid = 1\n");
            read(&(0..n).map(one).collect::<String>())
        };
        assert_eq!(list(WATCHES_MAX).unwrap().len(), WATCHES_MAX);
        let error = list(WATCHES_MAX + 1).unwrap_err();
        assert_eq!(error, "file n.toml: hardware.watch: must have at most 16 watches");
    }

    #[test]
    fn flags_and_variables_give_the_list_in_one_line() {
        let set = "hardware.watch=[{ name = 'a', pid = 7 }, { name = 'b', process = 'sshd' }]";
        let layer = Layer::from_assignments("--set", [set]).unwrap();
        let config = resolve::<Config>(&[layer]).unwrap().value;
        let expected = [watch("a", By::Pid(7)), watch("b", By::Process("sshd".to_owned()))];
        assert_eq!(config.hardware.watch, expected);
        let layer = Layer::from_assignments("--set", ["hardware.watch=[{ name = 'a' }]"]).unwrap();
        let error = resolve::<Config>(&[layer]).unwrap_err().to_string();
        assert_eq!(error, "--set: hardware.watch[0]: needs one of pid, process, cgroup");
    }

    #[test]
    fn the_watches_of_the_printed_file_are_right() {
        let begin = EXAMPLE.find("#[[hardware.watch]]").unwrap();
        let watches: String = EXAMPLE[begin..]
            .lines()
            .take_while(|line| line.starts_with('#'))
            .filter(|line| !line.starts_with("# "))
            .map(|line| format!("{}\n", &line[1..]))
            .collect();
        let kinds = read(&watches).unwrap().into_iter().map(|watch| match watch.by {
            By::Pid(_) => "pid",
            By::Process(_) => "process",
            By::Cgroup(_) => "cgroup",
        });
        assert_eq!(kinds.collect::<Vec<_>>(), ["process", "cgroup", "pid"]);
    }
}
