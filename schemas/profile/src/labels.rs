//! Labels of a sample: whose stack it is, and what its thread was doing.

use crate::name::Name;

/// Whether a sampled thread had a processor, waited, or waited for the interpreter's lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ThreadState {
    /// It ran, or others needed its processor.
    Running,
    /// It waited for input, a lock, another process or a timer, or had not gone on since.
    Waiting,
    /// It waited for the global interpreter lock.
    Gil,
}

impl ThreadState {
    /// All states.
    pub const ALL: [Self; 3] = [Self::Running, Self::Waiting, Self::Gil];

    /// The word in files and in JSON.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Waiting => "waiting",
            Self::Gil => "gil",
        }
    }

    /// The state of this word.
    #[must_use]
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.as_str() == word)
    }
}

/// Whose sample it is. An empty name is unknown.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SampleLabels {
    /// The thread's name.
    pub thread: Name,
    /// What it was doing; `None` in files of tools that do not state it.
    pub state: Option<ThreadState>,
    /// The node.
    pub node: Name,
    /// The rank of the process in its job.
    pub rank: Name,
    /// The process, where there are several: its command and its number.
    pub process: Name,
}

impl SampleLabels {
    /// The thread with its process, node and rank, as far as they are known.
    #[must_use]
    pub fn thread_title(&self) -> String {
        let thread = if self.thread.as_str().is_empty() { "thread" } else { self.thread.as_str() };
        let place = [("", &self.process), ("node ", &self.node), ("rank ", &self.rank)];
        let place = place.map(|(word, of)| match of.as_str() {
            "" => String::new(),
            name => format!(", {word}{name}"),
        });
        format!("{thread}{}", place.concat())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_state_has_one_word() {
        for state in ThreadState::ALL {
            assert_eq!(ThreadState::parse(state.as_str()), Some(state));
        }
        assert_eq!(ThreadState::parse("Running"), None);
    }
}
