//! What machine this is: model and number of its processors, kernel and operating system, as labels
//! of one reading whose value is always 1. Read once, when the thread starts.
//!
//! DESIGN N98.

use plimsoll_schemas::hardware::{MACHINE_INFO, MissingReading};
use plimsoll_schemas::ids::Labels;

use super::gather::Gather;
use super::root::Root;

/// Where a distribution names itself; a link to the second in most.
const OS_RELEASE: [&str; 2] = ["etc/os-release", "usr/lib/os-release"];

pub(super) struct Description(Labels);

impl Description {
    pub(super) fn new(root: &Root) -> Self {
        let mut space = Vec::new();
        let mut pairs = Vec::new();
        if let Ok(table) = root.kept("proc/cpuinfo").read(&mut space) {
            let cores = table.lines().filter(|line| line.starts_with("processor")).count();
            pairs.extend((cores > 0).then(|| ("cores", cores.to_string())));
            pairs.extend(value(table, "model name", ':').map(|model| ("cpu", model)));
        }

        let kernel = root.line("proc/sys/kernel/osrelease").ok();
        pairs.extend(kernel.as_deref().and_then(plain).map(|kernel| ("kernel", kernel)));
        let os = OS_RELEASE
            .iter()
            .find_map(|path| value(root.kept(path).read(&mut space).ok()?, "PRETTY_NAME", '='));
        pairs.extend(os.map(|os| ("os", os)));

        let pairs: Vec<(&str, &str)> = pairs.iter().map(|(key, of)| (*key, of.as_str())).collect();
        Self(Gather::default().labels(&pairs).unwrap_or_default())
    }

    pub(super) fn gather(&self, gather: &mut Gather) {
        let is_known = !self.0.is_empty();
        let known = is_known.then_some(1.0).ok_or(MissingReading::unsupported("not_found"));
        gather.put_of(&MACHINE_INFO, &self.0, known);
    }
}

/// The first value of a key in a table of lines such as `model name : AMD`.
fn value(table: &str, key: &str, separator: char) -> Option<String> {
    let of_key = |line: &str| {
        let (name, value) = line.split_once(separator)?;
        (name.trim() == key).then(|| plain(value.trim().trim_matches('"'))).flatten()
    };
    table.lines().find_map(of_key)
}

/// A text that a person wrote or would read; `None` for any other.
fn plain(text: &str) -> Option<String> {
    let is_plain = !text.is_empty() && !text.contains(char::is_control);
    is_plain.then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn described(files: &[(&str, &str)]) -> Vec<(String, String)> {
        let folder = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = folder.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let Description(labels) = Description::new(&Root::new(folder.path()));
        labels.iter().map(|(key, of)| (key.to_owned(), of.to_owned())).collect()
    }

    #[test]
    fn a_machine_is_described_as_far_as_its_files_go() {
        let cpus =
            "processor\t: 0\nmodel name\t: AMD EPYC: 9654\n\nprocessor\t: 1\nmodel name\t: B\n";
        let pair = |key: &str, of: &str| (key.to_owned(), of.to_owned());
        let all = described(&[
            ("proc/cpuinfo", cpus),
            ("proc/sys/kernel/osrelease", "6.1.0-13-amd64\n"),
            ("usr/lib/os-release", "NAME=Debian\nPRETTY_NAME=\"Debian GNU/Linux 12\"\n"),
        ]);
        let kernel = pair("kernel", "6.1.0-13-amd64");
        let os = pair("os", "Debian GNU/Linux 12");
        assert_eq!(all, [pair("cores", "2"), pair("cpu", "AMD EPYC: 9654"), kernel, os]);
        assert_eq!(described(&[]), []);
        let hostile = [
            ("proc/cpuinfo", "model name : \u{1}[31m\n"),
            ("proc/sys/kernel/osrelease", "\u{0}\n"),
            ("etc/os-release", "PRETTY_NAME=\"\"\n"),
        ];
        assert_eq!(described(&hostile), []);
        let long = described(&[("etc/os-release", &format!("PRETTY_NAME={}", "é".repeat(200)))]);
        assert_eq!(long[0].1, "é".repeat(64), "as long as a label may be");
    }

    #[test]
    fn what_is_not_known_is_no_reading_and_this_machine_is_known() {
        let mut gather = Gather::default();
        Description(Labels::default()).gather(&mut gather);
        Description::new(&Root::new(Path::new("/"))).gather(&mut gather);
        let readings = gather.finish();
        assert_eq!((readings[0].value, readings[1].value), (None, Some(1.0)));
        assert!(readings[1].labels.get("kernel").is_some(), "{readings:?}");
    }
}
