//! Names and what stands for each in one report: the first node that is met is `node-1`,
//! and so everywhere. Numbers by order of appearance and no hash of a name: a hash of one that can
//! be guessed names it.
//!
//! DESIGN A192.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};

/// What a name is of; its pseudonym starts with that.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum NameKind {
    Mesh,
    Run,
    Node,
    Host,
    User,
    Path,
    /// The value of a label.
    Value,
}

impl NameKind {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Mesh => "mesh",
            Self::Run => "run",
            Self::Node => "node",
            Self::Host => "host",
            Self::User => "user",
            Self::Path => "path",
            Self::Value => "value",
        }
    }

    /// That of the value of a label.
    pub(crate) fn of_label(key: &str, value: &str) -> Self {
        match key {
            "run" => Self::Run,
            "node" | "host" | "hostname" | "machine" => Self::Node,
            "user" | "by" | "owner" => Self::User,
            _ if value.starts_with('/') => Self::Path,
            _ => Self::Value,
        }
    }
}

#[derive(Debug, Default)]
pub(crate) struct Pseudonyms {
    /// Names that free text is searched for.
    known: BTreeMap<String, NameKind>,
    /// Names that stay wherever a text has them.
    kept: BTreeSet<String>,
    /// Lengths of those that are known, in bytes.
    lengths: BTreeSet<usize>,
    given: BTreeMap<String, String>,
    issued: BTreeSet<String>,
    numbers: BTreeMap<NameKind, usize>,
}

impl Pseudonyms {
    /// Adds a name that free texts may have, before the first pseudonym is given. One that is a
    /// number is not looked for: texts are full of figures.
    pub(crate) fn know(&mut self, name: &str, kind: NameKind) {
        if !name.is_empty() && !is_number(name) {
            self.lengths.insert(name.len());
            self.known.entry(name.to_owned()).or_insert(kind);
        }
        // Texts name a host without its domain too, also one that no node is called by.
        let host = name.split_once('.').map(|(host, _)| host);
        let host = host.filter(|host| !self.kept.contains(*host) && !is_address(name));
        if let (Some(host), NameKind::Node | NameKind::Host) = (host, kind) {
            self.know(host, kind);
        }
    }

    /// Keeps the name of an operation in texts, although it has the form of a host.
    pub(crate) fn keep(&mut self, operation: &str) {
        self.kept.insert(operation.to_owned());
    }

    /// What stands for a name. Numbers, such as a rank, stay.
    pub(crate) fn name(&mut self, name: &str, kind: NameKind) -> String {
        let is_kept = kind == NameKind::Value && is_number(name);
        if name.is_empty() || is_kept || self.issued.contains(name) {
            return name.to_owned();
        }
        if let Some(given) = self.given.get(name) {
            return given.clone();
        }

        let kind = self.known.get(name).copied().unwrap_or(kind);
        let number = self.numbers.entry(kind).or_default();
        let pseudonym = loop {
            *number += 1;
            let candidate = format!("{}-{number}", kind.as_str());
            // A mesh on one machine has a node that is called node-1: no name is to be left.
            if !self.known.contains_key(&candidate) {
                break candidate;
            }
        };
        self.given.insert(name.to_owned(), pseudonym.clone());
        self.issued.insert(pseudonym.clone());
        pseudonym
    }

    /// A text in which names stand: those that are known, and paths, addresses and values of
    /// labels by their form.
    pub(crate) fn text(&mut self, text: &str) -> String {
        // First whole paths and URLs: a known name within one would leave the rest of it.
        let places: String =
            text.split_inclusive(is_break).map(|word| self.without_place(word)).collect();
        let known = self.without_known(&places);
        let mut is_announced = false;
        let words = known.split_inclusive(is_break).map(|word| {
            let changed = self.word(word, is_announced);
            let bare = word.trim_end_matches(|c| is_break(c) || c == ':');
            // A list goes on after its commas.
            if !bare.is_empty() {
                is_announced = announces_host(bare) || (is_announced && word.ends_with(','));
            }
            changed
        });
        words.collect()
    }

    /// A word that is a path or a URL, or has one after a key.
    fn without_place(&mut self, word: &str) -> String {
        let bare = word.trim_end_matches(|c| is_break(c) || ".:!?".contains(c));
        let places = [Some(0), bare.find('=').map(|at| at + 1), bare.find(':').map(|at| at + 1)];
        let place = places.into_iter().flatten().find(|at| is_place(&bare[*at..]));
        let Some(at) = place else { return word.to_owned() };
        let (before, place) = bare.split_at(at);
        let kind = if place.contains("://") { NameKind::Host } else { NameKind::Path };
        format!("{before}{}{}", self.name(place, kind), &word[bare.len()..])
    }

    /// Names that are known, the longest first, where they are whole words.
    fn without_known(&mut self, text: &str) -> String {
        let mut changed = String::new();
        let mut rest = text;

        while let Some(first) = rest.chars().next() {
            let starts_word = !changed.ends_with(is_of_word);
            let end = rest.find(|c| !is_of_word(c) && c != '-').unwrap_or(rest.len());
            if starts_word && self.issued.contains(&rest[..end]) {
                changed += &rest[..end];
                rest = &rest[end..];
                continue;
            }

            if let Some(found) = self.found_at(rest).filter(|_| starts_word) {
                let (name, after) = rest.split_at(found);
                let kind = self.known[name];
                changed += &self.name(name, kind);
                rest = after;
                // A host with its domain is named by the host.
                if matches!(kind, NameKind::Node | NameKind::Host) {
                    rest = without_domain(after);
                }
                continue;
            }

            changed.push(first);
            rest = &rest[first.len_utf8()..];
        }
        changed
    }

    /// The length of the longest known name with which a text starts as a word.
    fn found_at(&self, text: &str) -> Option<usize> {
        let is_found = |length: &&usize| {
            let name = text.get(..**length);
            let ends = text.get(**length..).is_some_and(|after| !after.starts_with(is_of_word));
            ends && name.is_some_and(|name| self.known.contains_key(name))
        };
        self.lengths.iter().rev().find(is_found).copied()
    }

    /// One word, with the character that ends it; `is_announced` after such as `host`.
    fn word(&mut self, word: &str, is_announced: bool) -> String {
        let bare = word.trim_end_matches(|c| is_break(c) || ".:!?".contains(c));
        let after = &word[bare.len()..];
        let replaced = match bare.split_once('=') {
            Some((key, value)) if !key.is_empty() && !value.is_empty() => {
                format!("{key}={}", self.name(value, NameKind::of_label(key, value)))
            }
            _ if self.kept.contains(bare) => bare.to_owned(),
            _ => match (kind_of_form(bare), bare.split_once(':')) {
                (Some(kind), _) => self.name(bare, kind),
                (None, _) if is_announced && is_numbered(bare) => self.name(bare, NameKind::Host),
                (None, Some((key, host))) if announces_host(key) && is_numbered(host) => {
                    format!("{key}:{}", self.name(host, NameKind::Host))
                }
                (None, _) => bare.to_owned(),
            },
        };
        replaced + after
    }
}

fn is_break(c: char) -> bool {
    c.is_whitespace() || "\"'`()[]{}<>,;|".contains(c)
}

fn is_of_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

fn is_number(text: &str) -> bool {
    text.parse::<f64>().is_ok()
}

/// What follows a host's domain.
fn without_domain(after: &str) -> &str {
    let mut rest = after;
    while let Some(label) = rest.strip_prefix('.').filter(|of| of.starts_with(is_of_word)) {
        rest = label.trim_start_matches(|c: char| is_of_word(c) || c == '-');
    }
    rest
}

fn is_address(word: &str) -> bool {
    word.parse::<IpAddr>().is_ok() || word.parse::<SocketAddr>().is_ok()
}

/// A host with its domain: three labels, or two of which the first has a digit, since `train.py`
/// and `fetch.tokens` are none.
fn is_host(word: &str) -> bool {
    let host = word.split_once(':').map_or(word, |(host, _)| host);
    let labels: Vec<&str> = host.split('.').collect();
    let is_label = |label: &&str| {
        !label.is_empty() && label.chars().all(|c| c.is_ascii_alphanumeric() || c == '-')
    };
    let top = labels.last().copied().unwrap_or_default();
    let is_top = top.len() > 1 && top.chars().all(|c| c.is_ascii_alphabetic());
    let is_long = labels.len() > 2 || (labels.len() == 2 && is_numbered(host));
    is_long && is_top && labels.iter().all(is_label)
}

/// A name such as `web12`.
fn is_numbered(word: &str) -> bool {
    let label = word.split(['.', ':']).next().unwrap_or_default();
    label.starts_with(|c: char| c.is_alphabetic()) && label.contains(|c: char| c.is_ascii_digit())
}

fn announces_host(word: &str) -> bool {
    let words = ["host", "hostname", "machine", "node", "server"];
    let word = word.to_ascii_lowercase();
    words.contains(&word.strip_suffix('s').unwrap_or(&word))
}

/// A path of either kind of system, or a URL.
fn is_place(word: &str) -> bool {
    let has_root = ["/", "~/"].iter().any(|root| word.starts_with(root) && word.len() > root.len());
    let has_drive = word.starts_with(|c: char| c.is_ascii_alphabetic())
        && word.get(1..3).is_some_and(|after| after == ":\\");
    let is_url = word.split_once("://").is_some_and(|(scheme, _)| {
        scheme.chars().all(|c| c.is_ascii_alphanumeric() || "+.-".contains(c))
    });
    has_root || has_drive || is_url
}

/// What a word is by its form, if that shows it.
fn kind_of_form(word: &str) -> Option<NameKind> {
    match word {
        _ if word.contains("://") => Some(NameKind::Host),
        _ if is_place(word) => Some(NameKind::Path),
        _ if is_address(word) || is_host(word) => Some(NameKind::Host),
        _ if word.split_once('@').is_some_and(|(a, b)| !a.is_empty() && !b.is_empty()) => {
            Some(NameKind::User)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn knowing(names: &[(&str, NameKind)]) -> Pseudonyms {
        let mut pseudonyms = Pseudonyms::default();
        names.iter().for_each(|(name, kind)| pseudonyms.know(name, *kind));
        pseudonyms
    }

    #[test]
    fn texts_keep_their_words_and_numbers_and_lose_their_names() {
        let mut names = knowing(&[
            ("gpu7", NameKind::Node),
            ("gpu7-b", NameKind::Node),
            ("node-1", NameKind::Node),
            ("big model", NameKind::Value),
            ("42", NameKind::Value),
            ("db.lab", NameKind::Host),
        ]);
        names.keep("fetch2.tokens");
        for (text, expected) in [
            ("fetch on gpu7: 42 ms, limit 18 ms", "fetch on node-2: 42 ms, limit 18 ms"),
            ("gpu7-b, gpu7 and node-1", "node-3, node-2 and node-4"),
            ("gpu7.lab.example:9100 is away.", "node-2:9100 is away."),
            ("on gpu7.", "on node-2."),
            ("gpu77 and my_gpu7 are words", "gpu77 and my_gpu7 are words"),
            ("full: /data/ann (mount=/data/ann)", "full: path-1 (mount=path-1)"),
            ("rank=3 user=ann of big model", "rank=3 user=user-1 of value-1"),
            ("ann@lab.example from 10.0.0.7:80", "user-2 from host-1"),
            ("see http://h/x, 3/4 of 5 s", "see host-2, 3/4 of 5 s"),
            ("web12.lab is down, a.b.example:80 too", "host-3 is down, host-4 too"),
            (
                "host web13 reset; Node: box9b, host:web14.",
                "host host-5 reset; Node: host-6, host:host-7.",
            ),
            (
                "node 3 of train.py, p99 of fetch2.tokens",
                "node 3 of train.py, p99 of fetch2.tokens",
            ),
            (
                "host is away, host: 10 ms, version 1.2.3",
                "host is away, host: 10 ms, version 1.2.3",
            ),
            ("db.lab.example restarted db", "host-8 restarted host-9"),
            // What is known stands within them.
            ("read /data/gpu7/x.txt, mount:/data/gpu7", "read path-2, mount:path-3"),
            ("GET https://ann:pw@gpu7:80/x?t=abc failed", "GET host-10 failed"),
            ("C:\\Users\\bob\\x is full", "path-4 is full"),
            ("nodes: build08, build09 left", "nodes: host-11, host-12 left"),
            ("", ""),
        ] {
            assert_eq!(names.text(text), expected);
        }
        assert_eq!(names.name("gpu7", NameKind::Host), "node-2");
        assert_eq!(names.name("3", NameKind::Value), "3");
    }

    proptest! {
        #[test]
        fn no_known_name_is_left_and_each_has_one_pseudonym(
            names in prop::collection::btree_set("(node-[1-9]|[a-c]{1,3}[0-9])", 1..8),
            words in prop::collection::vec("([a-z]{1,4}|[0-9]{1,3})", 0..8),
        ) {
            let all: Vec<&str> = names.iter().map(String::as_str).collect();
            let mut pseudonyms = Pseudonyms::default();
            all.iter().for_each(|name| pseudonyms.know(name, NameKind::Node));
            let text = [all.join(", "), words.join(" "), all.join(" ")].join("; ");
            let redacted = pseudonyms.text(&text);
            let found: BTreeSet<&str> =
                redacted.split(|c: char| !is_of_word(c) && c != '-').collect();
            prop_assert!(all.iter().all(|name| !found.contains(name)), "{}", redacted);
            let given: BTreeSet<String> =
                all.iter().map(|name| pseudonyms.name(name, NameKind::Node)).collect();
            prop_assert_eq!(given.len(), all.len());
            prop_assert_eq!(pseudonyms.text(&text), redacted);
        }
    }
}
