//! Collapsed stacks as text: `root (file:line);leaf (file:line) count`, one line for each stack.
//!
//! Labels, duration and comments are not in it. What ends a frame or a line is `_` in names.

use crate::labels::ThreadState;
use crate::profile::Profile;

/// The counts of a profile by stack, of threads in one state or of all.
#[must_use]
pub fn write(profile: &Profile, state: Option<ThreadState>) -> String {
    let mut text = String::new();
    for (stack, value) in profile.values(state) {
        let frames = stack.frames().iter();
        let frames =
            frames.map(|f| f.to_string().replace(|c: char| c == ';' || c.is_control(), "_"));
        let frames: Vec<String> = frames.collect();
        text.push_str(&format!("{} {}\n", frames.join(";"), value / profile.period()));
    }
    text
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::tests::{profile, profiles};

    #[test]
    fn stacks_are_lines_with_their_counts() {
        let counts: [(&[&str], u64); 3] =
            [(&["main:3", "load:5"], 4), (&["main:3"], 2), (&["x;y\nz:6"], 1)];
        let text = write(&profile(10_000_000, 1, &counts), None);
        let wanted = "main (a.py:3) 2\nmain (a.py:3);load (a.py:5) 4\nx_y_z (a.py:6) 1\n";
        assert_eq!(text, wanted);
    }

    proptest! {
        #[test]
        fn each_stack_has_one_line_and_its_frames(profile in profiles()) {
            let text = write(&profile, None);
            let values = profile.values(None);
            prop_assert_eq!(text.lines().count(), values.len());
            for (line, (stack, value)) in text.lines().zip(values) {
                let (frames, count) = line.rsplit_once(' ').unwrap();
                prop_assert_eq!(count.parse::<u64>().unwrap() * profile.period(), value);
                prop_assert_eq!(frames.split(';').count(), stack.frames().len());
            }
        }
    }
}
