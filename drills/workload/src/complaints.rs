//! Problems that do not end the job, written to standard error once for each text.
//!
//! Complaints are noted inside timed operations and written outside them, since a full pipe
//! behind standard error would count as latency.

use std::collections::BTreeSet;

use crate::limits::{COMPLAINT_BYTES_MAX, COMPLAINTS_MAX};

/// All complaints so far.
#[derive(Debug, Default)]
pub struct Complaints {
    known: BTreeSet<String>,
    pending: Vec<String>,
}

impl Complaints {
    /// Notes a complaint unless the same was noted before, or too many others.
    pub fn note(&mut self, complaint: &str) {
        let mut end = complaint.len().min(COMPLAINT_BYTES_MAX);
        while !complaint.is_char_boundary(end) {
            end -= 1;
        }
        let complaint = complaint[..end].to_owned();
        if self.known.len() < COMPLAINTS_MAX && self.known.insert(complaint.clone()) {
            self.pending.push(complaint);
        }
    }

    /// What was noted since the last call, in order.
    pub fn drain(&mut self) -> std::vec::Drain<'_, String> {
        self.pending.drain(..)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_complaint_is_logged_once() {
        let mut complaints = Complaints::default();
        complaints.note("a");
        complaints.note("b");
        complaints.note("a");
        assert_eq!(complaints.drain().collect::<Vec<_>>(), ["a", "b"]);
        complaints.note("a");
        assert_eq!(complaints.drain().len(), 0);
    }

    #[test]
    fn complaints_are_bounded_in_number_and_length() {
        let mut complaints = Complaints::default();
        for n in 0..2 * COMPLAINTS_MAX {
            complaints.note(&format!("{n} {}", "é".repeat(COMPLAINT_BYTES_MAX)));
        }
        let got: Vec<String> = complaints.drain().collect();
        assert_eq!(got.len(), COMPLAINTS_MAX);
        assert!(got.iter().all(|complaint| complaint.len() <= COMPLAINT_BYTES_MAX));
    }
}
