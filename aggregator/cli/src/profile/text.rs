//! Profiles and differences as text for the terminal.

use plimsoll_profile::{Difference, FunctionDifference, Profile, ThreadState, ValueType, subtract};
use plimsoll_profiler::output::{Capture, End};
use plimsoll_schemas::figure::{count, percent};

use crate::terminal_text::safe;

/// How a capture went, in one line.
pub(super) fn facts(capture: &Capture) -> String {
    let Capture { python, counts, .. } = capture;
    let [whole, torn, lost] = [counts.whole, counts.torn, counts.missed].map(count);
    format!("CPython {python}, {}: {whole} stacks; {torn} torn and {lost} lost", ended(capture))
}

/// For how long and how often a process was sampled, and why no longer.
pub(super) fn ended(capture: &Capture) -> String {
    let end = match capture.ended {
        End::Complete => "",
        End::Cancelled => ", interrupted",
        End::Exited => ", until the process ended",
        End::Replaced => ", until it executed another program",
        End::Denied => ", until its memory could no longer be read",
    };
    let seconds = capture.profile.duration_ns as f64 / 1e9;
    let reached_hz = capture.counts.ticks as f64 / seconds.max(f64::MIN_POSITIVE);
    format!("{seconds:.1} s at {reached_hz:.1} Hz{end}")
}

/// The functions of threads in one state, or of all: the share of each in the time of these
/// threads, by itself and with what it calls; and what the threads did.
pub(super) fn functions(profile: &Profile, state: Option<ThreadState>, most: usize) -> String {
    let mut text = states(profile);
    // Beside nothing, a profile differs by all that it has.
    let mut nothing = Profile::new(profile.value_type().clone(), profile.period());
    nothing.duration_ns = profile.duration_ns.max(1);
    let mut own = profile.clone();
    own.duration_ns = nothing.duration_ns;
    let Ok(difference) = subtract(&own, &nothing, state) else { return text };

    let all = difference.total().culprit;
    text += &format!("{:>8} {:>8}  FUNCTION\n", "SELF", "TOTAL");
    for function in difference.rank(most) {
        let share = |value: f64| percent(value / all.max(f64::MIN_POSITIVE));
        let (own, total) = (share(function.own.culprit), share(function.total.culprit));
        text += &format!("{own:>8} {total:>8}  {}\n", safe(&function.frame.to_string()));
    }
    if all == 0.0 {
        text += "no thread was in this state; --state all shows each\n";
    }
    text
}

fn states(profile: &Profile) -> String {
    let all = profile.value().max(1) as f64;
    let share = |state: ThreadState| {
        let value: u64 = profile.values(Some(state)).values().sum();
        format!("{} {}", state.as_str(), percent(value as f64 / all))
    };
    format!("threads: {}\n", ThreadState::ALL.map(share).join(", "))
}

/// The functions that differ most, in milliseconds per second of each side.
pub(super) fn differences(difference: &Difference, most: usize) -> String {
    let ranked = difference.rank(most);
    if ranked.is_empty() {
        return "the profiles do not differ\n".to_owned();
    }

    let unit = match difference.value_type.unit.as_str() {
        "nanoseconds" => "ms of a second".to_owned(),
        unit => format!("{} per second", safe(unit)),
    };
    let mut text = format!("{unit}: culprit minus peer\n");
    text += &format!("{:>10} {:>10} {:>10} {:>10}  FUNCTION\n", "SELF", "TOTAL", "CULPRIT", "PEER");
    for function in ranked {
        text += &line(&function, &difference.value_type);
    }
    text
}

fn line(function: &FunctionDifference, of: &ValueType) -> String {
    let scale = if of.unit.as_str() == "nanoseconds" { 1e-6 } else { 1.0 };
    let cell = |value: f64| format!("{:.1}", value * scale);
    let (own, total) = (function.own.delta(), function.total.delta());
    format!(
        "{:>+10.1} {:>+10.1} {:>10} {:>10}  {}\n",
        own * scale,
        total * scale,
        cell(function.total.culprit),
        cell(function.total.peer),
        safe(&function.frame.to_string()),
    )
}

#[cfg(test)]
mod tests {
    use plimsoll_profile::{Frame, SampleLabels, Stack};

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
        let text = functions(&profile, Some(ThreadState::Running), 9);
        let wanted = "threads: running 40 %, waiting 60 %, gil 0 %\n\
            \x20   SELF    TOTAL  FUNCTION\n\
            \x20   75 %     75 %  augment (data.py:41)\n\
            \x20   25 %     25 %  load�[31m (data.py:41)\n\
            \x20    0 %    100 %  main (data.py:41)\n";
        assert_eq!(text, wanted);
        assert!(functions(&profile, Some(ThreadState::Gil), 9).contains("no thread was in this"));
    }

    #[test]
    fn a_difference_is_in_milliseconds_of_a_second() {
        let slow = profile(&[(&["main", "augment"], ThreadState::Running, 50)]);
        let fast = profile(&[(&["main", "augment"], ThreadState::Running, 30)]);
        let text = differences(&subtract(&slow, &fast, None).unwrap(), 9);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "ms of a second: culprit minus peer");
        assert_eq!(
            lines[2].split_whitespace().collect::<Vec<_>>(),
            ["+200.0", "+200.0", "500.0", "300.0", "augment", "(data.py:41)"]
        );
        let same = differences(&subtract(&fast, &fast, None).unwrap(), 9);
        assert_eq!(same, "the profiles do not differ\n");
    }
}
