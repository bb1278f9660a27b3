//! What a local mesh consists of.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use plimsoll_schemas::ids::MeshName;
use plimsoll_schemas::rule::file::shipped;

/// The program that runs beside each node and sends it samples.
///
/// It is started with `--statsd unix://SOCKET --raw FILE --commands FILE --dir DIR --seed N`: it
/// sends to the socket, writes every latency it sends to the raw file (operation and nanoseconds
/// a line), reads commands from lines that are appended to the commands file, keeps its own files
/// in the directory, and on SIGTERM exits with status 0 once everything is sent.
#[derive(Clone, Debug)]
pub struct Workload {
    /// Path of the program.
    pub program: PathBuf,
    pub arguments: Vec<OsString>,
}

impl Workload {
    /// The program at a path, without further arguments.
    pub fn at(program: PathBuf) -> Self {
        Self { program, arguments: Vec::new() }
    }
}

#[derive(Clone, Debug)]
pub struct StackOptions {
    /// Every file is written below this directory.
    pub dir: PathBuf,
    pub mesh: MeshName,
    pub nodes: usize,
    /// Address of the aggregator's HTTP pages; a free port of loopback if `None` or port 0.
    pub http: Option<String>,
    /// Settings of the aggregator, as TOML.
    pub aggregator_settings: String,
    /// Settings of every node, as TOML; `{node}` is replaced by the node's name.
    pub node_settings: String,
    /// What runs beside each node; nothing if `None`.
    pub workload: Option<Workload>,
    /// Whether the broker has JetStream.
    pub jetstream: bool,
    /// Servers of the broker. More than one form a cluster, each of which stores every stream.
    pub servers: usize,
    /// Further lines of each server's configuration file.
    pub broker_settings: String,
    /// Parent of the nodes' spool directories; without spools if `None`.
    pub spools: Option<PathBuf>,
    /// Whether the aggregator keeps its state and its history in files across restarts.
    pub keep_state: bool,
    /// A second aggregator at the same broker: its files are apart, its settings are these.
    pub second_settings: Option<String>,
    /// Begins the name of each node; its number follows.
    pub node_prefix: String,
    /// Whether nodes reach the broker through a proxy, see [`crate::proxy`].
    pub through_proxy: bool,
    /// Whether nodes receive datagrams over UDP too, see [`super::Station::udp`].
    pub udp: bool,
}

impl StackOptions {
    /// Three nodes without a workload, with all files below `dir`.
    pub fn new(dir: &Path) -> Self {
        Self {
            dir: dir.to_owned(),
            mesh: MeshName::new("local").expect("a constant name of plain letters"),
            nodes: 3,
            http: None,
            aggregator_settings: String::new(),
            node_settings: String::new(),
            workload: None,
            jetstream: true,
            servers: 1,
            broker_settings: String::new(),
            spools: Some(dir.join("spool")),
            keep_state: true,
            second_settings: None,
            node_prefix: "node-".to_owned(),
            through_proxy: false,
            udp: false,
        }
    }

    /// The flags of both programs about replicas; nothing of a single server.
    pub(super) fn replicas_flag(&self) -> Vec<String> {
        let flag = || vec!["--set".to_owned(), format!("bus.replicas={}", self.servers)];
        if self.servers > 1 { flag() } else { Vec::new() }
    }

    /// The same with the shipped rules about the machine under a node disabled: this one may be
    /// hot, or its disk nearly full. Appends tables to the aggregator's settings.
    pub fn without_machine_rules(mut self) -> Self {
        for rule in shipped().thresholds {
            if rule.metric.is_of_machine() {
                let table = format!("[[rule]]\nname = \"{}\"\nenabled = false\n", rule.name);
                self.aggregator_settings.push_str(&table);
            }
        }
        self
    }

    /// The same with a workload beside each node.
    pub fn with_workload(self, workload: Workload) -> Self {
        Self { workload: Some(workload), ..self }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use plimsoll_schemas::rule::file::load;
    use plimsoll_schemas::rule::{RuleText, Rules};

    use super::*;

    fn names(rules: Rules) -> BTreeSet<String> {
        rules.thresholds.into_iter().map(|rule| rule.name.to_string()).collect()
    }

    #[test]
    fn rules_about_the_machine_are_disabled_and_no_others() {
        let options = StackOptions::new(Path::new("/")).without_machine_rules();
        let settings = RuleText::new("settings", options.aggregator_settings.into()).unwrap();
        let left = load(&[], vec![settings], 1, &mut |_| Err("no file".to_owned())).unwrap();
        let (all, left) = (names(shipped()), names(left));
        let disabled: Vec<&str> = all.difference(&left).map(String::as_str).collect();
        // The runbook has them in one chapter.
        let runbook = include_str!("../../../../../deploy/RUNBOOK.md");
        let (_, chapter) = runbook.split_once("\n## Machines\n").unwrap();
        let (chapter, _) = chapter.split_once("\n## ").unwrap();
        let sections = chapter.lines().filter_map(|line| line.strip_prefix("### `"));
        let expected: BTreeSet<&str> =
            sections.map(|section| section.trim_end_matches('`')).collect();
        assert!(expected.len() >= 24);
        assert_eq!(disabled, expected.into_iter().collect::<Vec<_>>());
        assert!(left.is_subset(&all));
    }
}
