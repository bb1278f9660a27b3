//! Profiles as text for the terminal.

use std::cmp::Reverse;

use clap::ValueEnum;
use plimsoll_profile::{Difference, Profile, ThreadState};
use plimsoll_schemas::figure::{bytes, count, counted, number, percent, span};

use crate::terminal_text::safe;

/// What a function has that ranks it.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(super) enum Sort {
    /// What it does itself
    #[value(name = "self")]
    Own,
    /// With what it calls
    Total,
}

/// What became of all readings.
pub(super) fn stacks(whole: u64, torn: u64, lost: u64) -> String {
    format!("{}; {} torn and {} lost", counted(whole, "stack"), count(torn), count(lost))
}

/// The functions of threads in one state, or of all: the share of each in what these threads have,
/// or its bytes, by itself and with what it calls; and what the threads did.
pub(super) fn functions(
    profile: &Profile,
    state: Option<ThreadState>,
    sort: Sort,
    most: usize,
) -> String {
    let mut text = states(profile) + &memory(profile);
    let mut all = plimsoll_profile::functions(profile, state);
    if let Sort::Own = sort {
        all.sort_by_key(|of| Reverse(of.own));
    }
    let whole = all.iter().map(|of| of.own).sum::<u64>();
    let is_memory = profile.value_type().unit.as_str() == "bytes";

    text += &format!("{:>8} {:>8}  FUNCTION\n", "SELF", "TOTAL");
    for function in all.iter().take(most) {
        let share = |value: u64| match is_memory {
            true => bytes(value as f64),
            false => percent(value as f64 / whole.max(1) as f64),
        };
        let (own, total) = (share(function.own), share(function.total));
        text += &format!("{own:>8} {total:>8}  {}\n", safe(&function.frame.to_string()));
    }
    if whole == 0 {
        text += "no thread was in this state; --state all shows each\n";
    }
    text
}

/// The functions that differ most: how many units per second of it the culprit has more, by itself
/// and with what it calls.
pub(super) fn differences(difference: &Difference, most: usize) -> String {
    let unit = difference.value_type.unit.as_str();
    let value = |of: f64| match unit {
        "nanoseconds" => span(of / 1e9),
        "bytes" => bytes(of),
        _ => number(of),
    };
    let signed = |of: f64| format!("{}{}/s", if of > 0.0 { "+" } else { "" }, value(of));

    let mut text = format!("{:>12} {:>12}  FUNCTION\n", "SELF", "TOTAL");
    for function in difference.rank(most) {
        let (own, total) = (signed(function.own.delta()), signed(function.total.delta()));
        text += &format!("{own:>12} {total:>12}  {}\n", safe(&function.frame.to_string()));
    }
    text
}

/// What the client measured beside: the figures of the summary. Empty of other profiles.
fn memory(profile: &Profile) -> String {
    let figure = |start: &str| -> Option<String> {
        let value = profile.comments().find_map(|of| of.as_str().strip_prefix(start)?.parse().ok());
        value.map(|value: u64| bytes(value as f64))
    };
    let figures =
        [("still in use: ", "plimsoll.leaked_bytes="), ("peak: ", "plimsoll.peak_bytes=")];
    let known = figures.map(|(word, start)| Some(format!("{word}{}", figure(start)?)));
    let known: Vec<String> = known.into_iter().flatten().collect();
    if known.is_empty() { String::new() } else { known.join(", ") + "\n" }
}

/// Empty of a profile that states none.
fn states(profile: &Profile) -> String {
    let all = profile.value().max(1) as f64;
    let shares = ThreadState::ALL.map(|state| {
        let value: u64 = profile.values(Some(state)).values().sum();
        (state.as_str(), value as f64 / all)
    });
    if shares.iter().all(|(_, share)| *share == 0.0) {
        return String::new();
    }
    let shares = shares.map(|(state, share)| format!("{state} {}", percent(share)));
    format!("threads: {}\n", shares.join(", "))
}

#[cfg(test)]
mod tests {
    use plimsoll_profile::{Frame, SampleLabels, Stack, ValueType, subtract};

    use super::*;

    fn profile(stacks: &[(&[&str], ThreadState, u64)]) -> Profile {
        let mut profile = Profile::new(ValueType::wall(), 10_000_000);
        profile.duration_ns = 1_000_000_000;
        for (frames, state, count) in stacks {
            let frames = frames.iter().map(|name| Frame::new(name, "data.py", 41)).collect();
            let labels = SampleLabels { state: Some(*state), ..SampleLabels::default() };
            profile.add(Stack::new(frames), labels, *count);
        }
        profile
    }

    #[test]
    fn functions_have_their_shares_of_the_threads_in_a_state() {
        let profile = profile(&[
            (&["main", "augment"], ThreadState::Running, 30),
            (&["main", "load\u{1b}[31m"], ThreadState::Running, 10),
            (&["main", "wait"], ThreadState::Waiting, 60),
        ]);
        let table = |sort| functions(&profile, Some(ThreadState::Running), sort, 9);
        let head = "threads: running 40 %, waiting 60 %, gil 0 %\n    SELF    TOTAL  FUNCTION\n";
        let main = "     0 %    100 %  main (data.py:41)\n";
        let leaves = "    75 %     75 %  augment (data.py:41)\n\
            \x20   25 %     25 %  load�[31m (data.py:41)\n";
        assert_eq!(table(Sort::Own), format!("{head}{leaves}{main}"));
        assert_eq!(table(Sort::Total), format!("{head}{main}{leaves}"));
        let none = functions(&profile, Some(ThreadState::Gil), Sort::Own, 9);
        assert!(none.contains("no thread was in this"));
    }

    #[test]
    fn a_memory_profile_has_bytes_that_agree_with_its_summary() {
        let kind = ValueType { kind: "inuse_space".into(), unit: "bytes".into() };
        let mut memory = Profile::new(kind, 1);
        memory.add(Stack::new(vec![Frame::marker("load")]), SampleLabels::default(), 3 << 20);
        memory.add_comment("plimsoll.leaked_bytes=3145728".into());
        memory.add_comment("plimsoll.peak_bytes=10485760".into());
        let wanted = "still in use: 3 MiB, peak: 10 MiB\n\
            \x20   SELF    TOTAL  FUNCTION\n\
            \x20  3 MiB    3 MiB  load\n";
        assert_eq!(functions(&memory, None, Sort::Own, 1), wanted);
        let summary = plimsoll_profile::summary::of_profile("", &memory, None, 1);
        assert_eq!(summary["leaked_mb"], 3_145_728.0 / 1e6);
        assert_eq!(summary["top_functions"][0]["self_bytes"], 3_145_728.0);
    }

    #[test]
    fn functions_that_differ_have_both_signs() {
        let slow = profile(&[(&["main", "augment"], ThreadState::Running, 30)]);
        let fast = profile(&[(&["main", "forward"], ThreadState::Running, 10)]);
        let text = differences(&subtract(&slow, &fast, None).unwrap(), 9);
        let wanted = "        SELF        TOTAL  FUNCTION\n\
            \x20  +300 ms/s    +300 ms/s  augment (data.py:41)\n\
            \x20  -100 ms/s    -100 ms/s  forward (data.py:41)\n\
            \x20      0 s/s    +200 ms/s  main (data.py:41)\n";
        assert_eq!(text, wanted);
    }

    #[test]
    fn a_profile_without_states_has_no_line_of_them() {
        let mut other = Profile::new(ValueType::cpu(), 10);
        other.add(Stack::new(vec![Frame::marker("f")]), SampleLabels::default(), 3);
        let wanted = "    SELF    TOTAL  FUNCTION\n   100 %    100 %  f\n";
        assert_eq!(functions(&other, None, Sort::Own, 1), wanted);
    }
}
