//! Profiles without the names of their site: files, threads, nodes and ranks have pseudonyms, which
//! are numbered as they are met, and the same in all profiles of one picture. Functions and lines
//! stay, or nothing could be read; of comments those that are figures stay.

use std::collections::BTreeMap;

use plimsoll_profile::{Frame, Name, Profile, SampleLabels, Stack};

/// Comments that start so are figures of a memory profile.
const FIGURES: &str = "plimsoll.";

/// By kind of name, the pseudonym of each.
#[derive(Debug, Default)]
pub struct Redactor(BTreeMap<&'static str, BTreeMap<Name, Name>>);

impl Redactor {
    /// The same samples under other names.
    pub fn redacted(&mut self, profile: &Profile) -> Profile {
        let mut redacted = Profile::new(profile.value_type().clone(), profile.period());
        (redacted.started_at, redacted.duration_ns) = (profile.started_at, profile.duration_ns);

        for sample in profile.samples() {
            let frames = sample.stack.frames().iter().map(|frame| {
                let file = match frame.has_general_file() {
                    true => frame.file.clone(),
                    false => self.name("path", &frame.file),
                };
                let function = match &frame.function {
                    _ if frame.stands_for_file() => Name::new(&format!("[{file}]")),
                    path if path.as_str().starts_with('/') => self.name("path", path),
                    function => function.clone(),
                };
                Frame::new(function.as_str(), file.as_str(), frame.line)
            });
            let stack = Stack::new(frames.collect());
            let SampleLabels { thread, state, node, rank, process } = sample.labels;
            let labels = SampleLabels {
                thread: self.name("thread", thread),
                state: *state,
                node: self.name("node", node),
                rank: self.name("rank", rank),
                process: self.name("process", process),
            };
            redacted.add(stack, labels, sample.count);
        }

        let is_figure = |comment: &&Name| {
            let figure = comment.as_str().strip_prefix(FIGURES).and_then(|of| of.split_once('='));
            figure.is_some_and(|(_, value)| value.parse::<u64>().is_ok())
        };
        profile.comments().filter(is_figure).for_each(|of| redacted.add_comment(of.clone()));
        redacted
    }

    /// What stands for a name of this kind. Numbers, such as a rank, stay.
    fn name(&mut self, kind: &'static str, name: &Name) -> Name {
        let is_number = name.as_str().bytes().all(|byte| byte.is_ascii_digit());
        if is_number {
            return name.clone();
        }
        let given = self.0.entry(kind).or_default();
        let pseudonym = Name::new(&format!("{kind}-{}", given.len() + 1));
        given.entry(name.clone()).or_insert(pseudonym).clone()
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_profile::{ValueType, subtract};
    use proptest::prelude::*;

    use super::*;

    fn profile(paths: &[&str]) -> Profile {
        let mut profile = Profile::new(ValueType::wall(), 10);
        for path in paths {
            let stack = Stack::new(vec![Frame::new("main", path, 3), Frame::marker("<GC>")]);
            let [thread, node, process] = ["loader of acme", "acme-7", "acme (7)"].map(Name::new);
            let labels = SampleLabels { thread, state: None, node, rank: "3".into(), process };
            profile.add(stack, labels, 2);
        }
        profile
    }

    #[test]
    fn names_of_the_site_have_pseudonyms() {
        let mut own = profile(&["/srv/acme/a.py", "/srv/acme/b.py"]);
        own.add_comment("plimsoll.peak_bytes=7".into());
        own.add_comment("plimsoll.command=acme".into());
        own.add_comment("acme".into());
        let found = Redactor::default().redacted(&own);
        let text = format!("{found:?}");
        assert!(!text.contains("acme"), "{text}");
        let first = found.samples().next().unwrap();
        assert_eq!(first.stack.frames()[0].to_string(), "main (path-1:3)");
        assert_eq!(first.stack.frames()[1].to_string(), "<GC>");
        let SampleLabels { thread, node, rank, .. } = first.labels;
        assert_eq!([thread, node, rank].map(Name::as_str), ["thread-1", "node-1", "3"]);
        let comments: Vec<_> = found.comments().map(Name::as_str).collect();
        assert_eq!(comments, ["plimsoll.peak_bytes=7"]);
    }

    #[test]
    fn one_file_has_one_name_on_both_sides_of_a_difference() {
        let [mut a, mut b] =
            [["/srv/a.py", "/srv/b.py"], ["/srv/b.py", "/srv/c.py"]].map(|of| profile(&of));
        (a.duration_ns, b.duration_ns) = (1, 1);
        let mut redactor = Redactor::default();
        let (found_a, found_b) = (redactor.redacted(&a), redactor.redacted(&b));
        let sides = |a: &Profile, b: &Profile| {
            let difference = subtract(a, b, None).unwrap();
            difference.stacks.values().map(|sides| (sides.culprit, sides.peer)).collect::<Vec<_>>()
        };
        assert_eq!(sides(&found_a, &found_b), sides(&a, &b));
    }

    #[test]
    fn code_without_symbols_is_named_by_no_path() {
        let mut own = Profile::new(ValueType::wall(), 10);
        let stack = Stack::new(vec![Frame::new("/opt/acme/x.so+0x12", "/opt/acme/x.so", 0)]);
        own.add(stack, SampleLabels::default(), 1);
        let found = Redactor::default().redacted(&own);
        assert!(!format!("{found:?}").contains("acme"), "{found:?}");
    }

    proptest! {
        #[test]
        fn no_sample_is_lost(paths in prop::collection::vec("[a-z/]{0,3}", 0..9)) {
            let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
            let own = profile(&paths);
            let found = Redactor::default().redacted(&own);
            prop_assert_eq!(found.value(), own.value());
            prop_assert_eq!(found.samples().count(), own.samples().count());
        }
    }
}
