//! A capture as text: folded stacks, which flame graph programs read, or JSON.

use std::io::{self, Write};

use crate::output::{Capture, CountedStack, Frame, ThreadActivity};

/// One line for each stack: its thread, its functions from the root on, its count.
///
/// # Errors
/// When `out` cannot be written.
pub fn folded(capture: &Capture, out: &mut impl Write) -> io::Result<()> {
    for CountedStack { stack, count } in &capture.stacks {
        let thread = capture.threads.iter().find(|thread| thread.id == stack.thread);
        let name = thread.map_or("", |thread| &thread.name);
        let activity = match stack.activity {
            ThreadActivity::Running => "running",
            ThreadActivity::Waiting => "waiting",
            ThreadActivity::Gil => "gil",
        };
        write!(out, "{} {} {activity}", plain(name), stack.thread.0)?;

        if stack.is_truncated {
            write!(out, ";[deeper]")?;
        }
        let frames = stack.frames.iter().filter_map(|row| capture.frames.get(row.0 as usize));
        for Frame { function, file, line, .. } in frames {
            write!(out, ";{} ({}:{line})", plain(function), plain(file))?;
        }
        writeln!(out, " {count}")?;
    }
    out.flush()
}

/// The whole capture as one object.
///
/// # Errors
/// When `out` cannot be written.
pub fn json(capture: &Capture, out: &mut impl Write) -> io::Result<()> {
    serde_json::to_writer(&mut *out, capture)?;
    writeln!(out)?;
    out.flush()
}

/// Text of the target without what separates frames and lines.
fn plain(text: &str) -> String {
    let replaced = |c: char| match c {
        ';' => ',',
        c if c.is_control() => ' ',
        c => c,
    };
    text.chars().map(replaced).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::{
        End, Facts, FrameRef, ReadingCounts, StackSample, Thread, ThreadId, Ticks,
    };

    fn capture() -> Capture {
        let facts = Facts {
            pid: 1,
            python: "3.11.7".to_owned(),
            started_unix_seconds: 0.0,
            seconds: 1.0,
            rate_hz: 100,
            reached_hz: 100.0,
            ended: End::Complete,
            ticks: Ticks::default(),
            readings: ReadingCounts::default(),
        };
        let frame = |function: &str, line| Frame {
            function: function.into(),
            file: "/a;b.py".into(),
            first_line: 1,
            line,
        };
        let stack = |activity, rows: &[u32], is_truncated| StackSample {
            thread: ThreadId(7),
            activity,
            frames: rows.iter().map(|row| FrameRef(*row)).collect(),
            is_truncated,
        };
        Capture {
            facts,
            threads: vec![Thread { id: ThreadId(7), name: "wor\nker".to_owned() }],
            frames: vec![frame("<module>", 3), frame("f.<locals>.é", 0)],
            stacks: vec![
                CountedStack { stack: stack(ThreadActivity::Running, &[0, 1], false), count: 5 },
                CountedStack { stack: stack(ThreadActivity::Gil, &[1], true), count: 1 },
            ],
        }
    }

    #[test]
    fn a_folded_stack_is_one_line_whatever_the_names_are() {
        let mut out = Vec::new();
        folded(&capture(), &mut out).unwrap();
        let expected = "wor ker 7 running;<module> (/a,b.py:3);f.<locals>.é (/a,b.py:0) 5\n\
                        wor ker 7 gil;[deeper];f.<locals>.é (/a,b.py:0) 1\n";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }

    #[test]
    fn json_has_facts_frames_and_counts() {
        let mut out = Vec::new();
        json(&capture(), &mut out).unwrap();
        let read: serde_json::Value = serde_json::from_slice(&out).unwrap();
        assert_eq!(read["facts"]["ended"], "complete");
        assert_eq!(read["frames"][1]["function"], "f.<locals>.é");
        assert_eq!(read["stacks"][0]["count"], 5);
        assert_eq!(read["stacks"][0]["frames"], serde_json::json!([0, 1]));
        assert_eq!(read["stacks"][1]["activity"], "gil");
    }
}
