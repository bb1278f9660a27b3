//! Profiles without the names of their site: files, threads, processes, nodes and ranks become
//! pseudonyms such as `path-1`, and functions too where that is asked for. They are numbered as
//! they are met, and the same in all profiles of one [`Redactor`].

use std::collections::BTreeMap;

use plimsoll_schemas::labelled;

use crate::labels::SampleLabels;
use crate::name::Name;
use crate::profile::Profile;
use crate::stack::{Frame, Stack};

/// Comments that start so and go on with a number are figures.
const FIGURES: &str = "plimsoll.";
/// What read the stacks, and of which interpreter, names nothing of a site either.
const KEPT: [&str; 2] = ["plimsoll.rung=", "plimsoll.python="];

labelled! {
    /// What is replaced.
    pub enum Redaction {
        /// Files, machines and threads.
        Names = "names",
        /// These and functions.
        Functions = "functions",
    }
}

/// By kind of name, the pseudonym of each.
#[derive(Debug)]
pub struct Redactor {
    what: Redaction,
    given: BTreeMap<&'static str, BTreeMap<Name, Name>>,
}

impl Redactor {
    /// Without any pseudonym yet.
    #[must_use]
    pub fn new(what: Redaction) -> Self {
        Self { what, given: BTreeMap::new() }
    }

    /// The same samples under other names.
    pub fn redacted(&mut self, profile: &Profile) -> Profile {
        let mut redacted = Profile::new(profile.value_type().clone(), profile.period());
        (redacted.started_at, redacted.duration_ns) = (profile.started_at, profile.duration_ns);

        for sample in profile.samples() {
            let SampleLabels { thread, state, node, rank, process } = sample.labels;
            let labels = SampleLabels {
                thread: self.name("thread", thread),
                state: *state,
                node: self.name("node", node),
                rank: self.name("rank", rank),
                process: self.name("process", process),
            };
            let frames = sample.stack.frames().iter().map(|frame| self.frame(frame));
            redacted.add(Stack::new(frames.collect()), labels, sample.count);
        }

        profile.comments().filter(|of| is_kept(of)).for_each(|of| redacted.add_comment(of.clone()));
        redacted
    }

    fn frame(&mut self, frame: &Frame) -> std::sync::Arc<Frame> {
        let file = match frame.has_general_file() {
            true => frame.file.clone(),
            false => self.name("path", &frame.file),
        };
        let function = match &frame.function {
            _ if frame.stands_for_file() => Name::new(&format!("[{file}]")),
            // Code without symbols is named by its file.
            path if path.as_str().starts_with('/') => self.name("path", path),
            own if self.what == Redaction::Functions && !frame.has_general_name() => {
                self.name("function", own)
            }
            function => function.clone(),
        };
        Frame::new(function.as_str(), file.as_str(), frame.line)
    }

    /// What stands for a name of this kind. Numbers, such as a rank, stay.
    fn name(&mut self, kind: &'static str, name: &Name) -> Name {
        if name.as_str().bytes().all(|byte| byte.is_ascii_digit()) {
            return name.clone();
        }
        let given = self.given.entry(kind).or_default();
        let pseudonym = Name::new(&format!("{kind}-{}", given.len() + 1));
        given.entry(name.clone()).or_insert(pseudonym).clone()
    }
}

fn is_kept(comment: &Name) -> bool {
    let text = comment.as_str();
    let figure = text.strip_prefix(FIGURES).and_then(|of| of.split_once('='));
    figure.is_some_and(|(_, value)| value.parse::<u64>().is_ok())
        || KEPT.iter().any(|start| text.starts_with(start))
}

#[cfg(test)]
mod tests {
    use plimsoll_schemas::time::Wall;
    use proptest::prelude::*;

    use super::*;
    use crate::difference::subtract;
    use crate::labels::ThreadState;
    use crate::profile::ValueType;
    use crate::tests::profiles;

    fn named() -> Profile {
        let mut profile = Profile::new(ValueType::wall(), 10);
        profile.started_at = Wall(7);
        let labels = SampleLabels {
            thread: "ann's loader".into(),
            node: "gpu7.lab".into(),
            state: Some(ThreadState::Gil),
            rank: "3".into(),
            process: "annrun (7)".into(),
        };
        let frames = vec![
            Frame::new("<module>", "/opt/ann/train.py", 3),
            Frame::new("augment", "/opt/ann/train.py", 9),
            Frame::new("/opt/lab/x.so+0x12", "/opt/lab/x.so", 0),
            Frame::new("[liblab.so]", "liblab.so", 0),
            Frame::new("<lab::Engine as Debug>::fmt", "<frozen importlib>", 0),
            Frame::marker("[truncated]"),
        ];
        profile.add(Stack::new(frames), labels, 4);
        for comment in ["torn=2", "rung=profiler", "command=/opt/ann/run", "past=1..ann"] {
            profile.add_comment(format!("plimsoll.{comment}").into());
        }
        profile
    }

    #[test]
    fn what_names_a_site_is_replaced_and_figures_stay() {
        for (what, functions) in [
            (Redaction::Names, ["augment", "<lab::Engine as Debug>::fmt"]),
            (Redaction::Functions, ["function-1", "function-2"]),
        ] {
            let redacted = Redactor::new(what).redacted(&named());
            assert_eq!((redacted.value(), redacted.started_at), (40, Wall(7)));
            let sample = redacted.samples().next().unwrap();
            let frames: Vec<String> =
                sample.stack.frames().iter().map(ToString::to_string).collect();
            let wanted = [
                "<module> (path-1:3)",
                &format!("{} (path-1:9)", functions[0]),
                "path-3 (path-2:0)",
                "[path-4] (path-4:0)",
                &format!("{} (<frozen importlib>:0)", functions[1]),
                "[truncated]",
            ];
            assert_eq!(frames, wanted);

            let SampleLabels { thread, node, rank, state, process } = sample.labels;
            let labels = [thread, node, rank, process].map(Name::as_str);
            assert_eq!(labels, ["thread-1", "node-1", "3", "process-1"]);
            assert_eq!(*state, Some(ThreadState::Gil));
            let comments: Vec<&str> = redacted.comments().map(Name::as_str).collect();
            assert_eq!(comments, ["plimsoll.rung=profiler", "plimsoll.torn=2"]);
        }
    }

    proptest! {
        #[test]
        fn one_name_has_one_pseudonym_in_all_profiles(a in profiles(), b in profiles()) {
            let mut redactor = Redactor::new(Redaction::Functions);
            let (hidden_a, hidden_b) = (redactor.redacted(&a), redactor.redacted(&b));
            prop_assert_eq!(hidden_a.samples().count(), a.samples().count());
            let sides = |a: &Profile, b: &Profile| {
                let difference = subtract(a, b, None).unwrap();
                let sides = difference.stacks.values().map(|of| (of.culprit, of.peer));
                let mut sides: Vec<_> = sides.collect();
                sides.sort_by(|a, b| a.partial_cmp(b).unwrap());
                sides
            };
            prop_assert_eq!(sides(&hidden_a, &hidden_b), sides(&a, &b));
        }
    }
}
