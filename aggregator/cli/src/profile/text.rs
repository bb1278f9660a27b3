//! Profiles as text for the terminal.

use plimsoll_profile::{Profile, ThreadState, subtract};
use plimsoll_schemas::figure::{count, counted, percent};

use crate::terminal_text::safe;

/// What became of all readings.
pub(super) fn stacks(whole: u64, torn: u64, lost: u64) -> String {
    format!("{}; {} torn and {} lost", counted(whole, "stack"), count(torn), count(lost))
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

#[cfg(test)]
mod tests {
    use plimsoll_profile::{Frame, SampleLabels, Stack, ValueType};

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
}
