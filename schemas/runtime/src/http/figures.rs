//! What became of a server's connections, in numbers that a process shows about itself.

/// What a connection waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// For a whole request.
    Waiting,
    /// For the answer to a request.
    Answering,
    /// For the client to take its answer.
    Writing,
}

impl Stage {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Waiting, Self::Answering, Self::Writing];

    /// As a label.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Answering => "answering",
            Self::Writing => "writing",
        }
    }
}

/// Why a connection is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Closed {
    /// It was, by the client or after its last answer.
    Finished,
    /// No whole head of a request came in time.
    Silent,
    /// The client took nothing of its answer for too long.
    Stalled,
    /// What came was not HTTP.
    Malformed,
    /// The connection broke, or its handler did.
    Broken,
    /// A newcomer needed the place.
    Displaced,
    /// Too many bytes were owed to all clients together, to this one for longest.
    Owed,
    /// Told to come again later, because all places were being answered.
    Refused,
}

impl Closed {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::Finished,
        Self::Silent,
        Self::Stalled,
        Self::Malformed,
        Self::Broken,
        Self::Displaced,
        Self::Owed,
        Self::Refused,
    ];

    /// As a label.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Finished => "finished",
            Self::Silent => "silent",
            Self::Stalled => "stalled",
            Self::Malformed => "malformed",
            Self::Broken => "broken",
            Self::Displaced => "displaced",
            Self::Owed => "owed",
            Self::Refused => "refused",
        }
    }
}

/// A server's connections now, and since its start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Figures {
    /// How many are open, by what they wait for.
    pub open: [(Stage, usize); Stage::ALL.len()],
    /// Bytes of bodies that clients have not taken yet.
    pub owed_bytes: u64,
    /// Connections that got a place.
    pub accepted: u64,
    /// Answers handed to the kernel in full.
    pub answered: u64,
    /// Times that the system had no room for another.
    pub accept_failures: u64,
    closed: [u64; Closed::ALL.len()],
}

impl Default for Figures {
    fn default() -> Self {
        let open = Stage::ALL.map(|stage| (stage, 0));
        let closed = [0; Closed::ALL.len()];
        Self { open, owed_bytes: 0, accepted: 0, answered: 0, accept_failures: 0, closed }
    }
}

impl Figures {
    /// How many are over, by reason.
    #[must_use]
    pub fn closed(&self) -> [(Closed, u64); Closed::ALL.len()] {
        Closed::ALL.map(|reason| (reason, self.closed[reason as usize]))
    }

    /// How many are over for this reason.
    #[must_use]
    pub fn closed_for(&self, reason: Closed) -> u64 {
        self.closed[reason as usize]
    }

    /// How many are open.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.open.iter().map(|(_, n)| n).sum()
    }

    pub(super) fn count(&mut self, reason: Closed) {
        self.closed[reason as usize] += 1;
    }
}
