//! `--redact`: what a profile names of a site becomes a pseudonym, by the rules of reports, before
//! any form of it is written. Names of functions stay, unless they are asked for too.

use std::sync::Arc;

use clap::ValueEnum;
use plimsoll_profile::{Frame, Name, Profile, SampleLabels, Stack};

use crate::report::pseudonyms::{NameKind, Pseudonyms};

/// Comments that name nothing of a site. Others are left out.
const KEPT: [&str; 7] = [
    "plimsoll.rung=",
    "plimsoll.python=",
    "plimsoll.torn=",
    "plimsoll.lost=",
    "plimsoll.allocations=",
    "plimsoll.peak_bytes=",
    "plimsoll.leaked_bytes=",
];

/// What is replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Redaction {
    /// Files, machines and threads
    Names,
    /// These and functions
    Functions,
}

/// Pseudonyms of one or more profiles: the same name has the same one in all of them.
pub(super) struct Redactor {
    what: Redaction,
    names: Pseudonyms,
}

impl Redactor {
    pub(super) fn new(what: Redaction) -> Self {
        Self { what, names: Pseudonyms::default() }
    }

    /// Adds the names of a profile, before the first is redacted: none of them becomes the
    /// pseudonym of another.
    pub(super) fn know(&mut self, profile: &Profile) {
        for sample in profile.samples() {
            let SampleLabels { thread, node, process, state: _, rank: _ } = sample.labels;
            self.names.know(thread.as_str(), NameKind::Thread);
            self.names.know(process.as_str(), NameKind::Process);
            self.names.know(node.as_str(), NameKind::Node);
            for frame in sample.stack.frames() {
                self.names.know(frame.file.as_str(), NameKind::Path);
            }
        }
    }

    pub(super) fn redacted(&mut self, profile: &Profile) -> Profile {
        let mut redacted = Profile::new(profile.value_type().clone(), profile.period());
        (redacted.started_at, redacted.duration_ns) = (profile.started_at, profile.duration_ns);
        for sample in profile.samples() {
            let SampleLabels { thread, node, state, rank, process } = sample.labels;
            let labels = SampleLabels {
                thread: self.name(thread, NameKind::Thread),
                node: self.name(node, NameKind::Node),
                state: *state,
                rank: rank.clone(),
                process: self.name(process, NameKind::Process),
            };
            let frames = sample.stack.frames().iter().map(|frame| self.frame(frame));
            redacted.add(Stack::new(frames.collect()), labels, sample.count);
        }

        let is_kept = |comment: &&Name| KEPT.iter().any(|key| comment.as_str().starts_with(key));
        profile.comments().filter(is_kept).for_each(|of| redacted.add_comment(of.clone()));
        redacted
    }

    fn frame(&mut self, frame: &Frame) -> Arc<Frame> {
        let Frame { function, file, line } = frame;
        let hidden_file = match frame.has_general_file() {
            true => file.clone(),
            false => self.name(file, NameKind::Path),
        };
        let function = if frame.stands_for_file() {
            format!("[{hidden_file}]").into()
        } else if function.as_str().starts_with('/') {
            self.name(function, NameKind::Path)
        } else if self.what == Redaction::Functions && !frame.has_general_name() {
            self.name(function, NameKind::Function)
        } else {
            function.clone()
        };
        Arc::new(Frame { function, file: hidden_file, line: *line })
    }

    fn name(&mut self, name: &Name, kind: NameKind) -> Name {
        match name.as_str() {
            "" => name.clone(),
            name => self.names.name(name, kind).into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_profile::{ThreadState, ValueType, pprof};

    use super::*;

    fn named() -> Profile {
        let mut profile = Profile::new(ValueType::wall(), 10);
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
            Frame::new("/opt/lab/x.so+0x12", "path-1", 0),
            Frame::new("[liblab.so]", "liblab.so", 0),
            Frame::new("<lab::Engine as Debug>::fmt", "<frozen importlib>", 0),
            Frame::marker("[truncated]"),
        ];
        profile.add(Stack::new(frames), labels, 4);
        profile.add_comment("plimsoll.torn=2".into());
        profile.add_comment("plimsoll.command=/opt/ann/run".into());
        profile
    }

    #[test]
    fn what_names_a_site_is_replaced_and_figures_stay() {
        for (what, functions) in [
            (Redaction::Names, ["augment", "<lab::Engine as Debug>::fmt"]),
            (Redaction::Functions, ["function-1", "function-2"]),
        ] {
            let mut redactor = Redactor::new(what);
            redactor.know(&named());
            let redacted = redactor.redacted(&named());

            assert_eq!(redacted.value(), 40);
            let sample = redacted.samples().next().unwrap();
            let frames: Vec<String> =
                sample.stack.frames().iter().map(ToString::to_string).collect();
            let wanted = [
                "<module> (path-2:3)",
                &format!("{} (path-2:9)", functions[0]),
                "path-4 (path-3:0)",
                "[path-5] (path-5:0)",
                &format!("{} (<frozen importlib>:0)", functions[1]),
                "[truncated]",
            ];
            assert_eq!(frames, wanted);

            let labels = sample.labels;
            assert_eq!((labels.thread.as_str(), labels.node.as_str()), ("thread-1", "node-1"));
            assert_eq!((labels.rank.as_str(), labels.state), ("3", Some(ThreadState::Gil)));
            let comments: Vec<&str> = redacted.comments().map(Name::as_str).collect();
            assert_eq!(comments, ["plimsoll.torn=2"]);
            assert_eq!(pprof::decode(&pprof::encode(&redacted).unwrap()), Ok(redacted));
        }
    }
}
