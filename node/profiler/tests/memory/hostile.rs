//! Memory that is made to mislead: it costs a bounded number of reads and never a panic.

use std::cell::Cell;

use plimsoll_profiler::layout::table::{V3_9, V3_10, V3_11, V3_12};
use plimsoll_profiler::layout::{Frames, Layout};
use plimsoll_profiler::limits::{
    CALLS_PER_SAMPLE_MAX, CODES_MAX, FRAMES_MAX, LIST_ATTEMPTS_MAX, THREADS_MAX,
};
use plimsoll_profiler::memory::{Address, Memory, ReadError, Span};
use plimsoll_profiler::reader::{Paths, Reader};
use proptest::prelude::*;

use crate::image::{Call, Image, RECORD, Session, THREAD, frame};

/// All addresses have a word, made from the address; many are pointers into a small region.
#[derive(Debug)]
struct Maze {
    seed: u64,
    /// Of 16 pages, how many are not mapped.
    holes: u64,
    /// Whether words differ from one call to the next.
    is_restless: bool,
    calls: Cell<u64>,
}

impl Maze {
    fn word(&self, at: u64) -> u64 {
        let call = if self.is_restless { self.calls.get() / 3 } else { 0 };
        let mixed = mix(self.seed ^ mix(at / 8) ^ call);
        match mixed % 8 {
            0 => 0,
            1 => mixed,
            2 => mixed % 300,
            3 => u64::MAX,
            // Into four pages, so that circles are short.
            _ => 0x1000 + (mix(mixed) % 0x4000) / 8 * 8,
        }
    }
}

impl Memory for &Maze {
    fn read(&self, spans: &[Span], into: &mut [u8]) -> Result<(), ReadError> {
        self.calls.set(self.calls.get() + 1);
        let mut rest = into;
        for span in spans {
            let (here, behind) = rest.split_at_mut(span.bytes);
            rest = behind;
            if mix(self.seed ^ (span.start.0 >> 12)) % 16 < self.holes {
                return Err(ReadError::Unmapped);
            }
            for (offset, byte) in (0..).zip(here) {
                let at = span.start.0.wrapping_add(offset);
                *byte = self.word(at).to_ne_bytes()[usize::try_from(at % 8).unwrap()];
            }
        }
        Ok(())
    }
}

fn mix(value: u64) -> u64 {
    let value = (value ^ (value >> 31)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (value ^ (value >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9) ^ (value >> 32)
}

/// Calls of two samples: for stacks, for the list of threads of each interpreter and their numbers,
/// and for code objects, each of which takes five.
const CALLS_MAX: u64 =
    2 * (CALLS_PER_SAMPLE_MAX + 16 * (LIST_ATTEMPTS_MAX + 1) * THREADS_MAX + 6 * CODES_MAX) as u64;

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn no_memory_makes_the_reader_panic_or_loop(
        seed: u64, holes in 0_u64..6, is_restless: bool, version in 0_usize..5,
    ) {
        let frames = Frames::ByPointer { chunk: 232, owner: 74, generator: 72 };
        let like_3_14 = Layout { frames, ..V3_12 };
        let layout = [V3_9, V3_10, V3_11, V3_12, like_3_14][version].clone();
        let maze = Maze { seed, holes, is_restless, calls: Cell::new(0) };
        let mut reader = Reader::new(&maze, layout, Address(0x1000), Paths::Short);
        for _ in 0..2 {
            if let Ok(readings) = reader.sample(|_| seed % 2 == 0) {
                prop_assert!(readings.threads.len() <= 16 * THREADS_MAX);
            }
        }
        prop_assert!(maze.calls.get() <= CALLS_MAX, "{} calls", maze.calls.get());
    }

    #[test]
    fn a_process_with_any_word_replaced_is_read_or_torn(
        place in 0_usize..5, offset in 0_u64..48, value in prop_oneof![
            any::<u64>(), Just(0), Just(u64::MAX), Just(frame(0)), Just(frame(1)), Just(THREAD),
        ],
    ) {
        let call = |function, offset| Call { function, offset };
        let image = Image::of(&[call("m", 2), call("f1", 4), call("g2", 6)]);
        let base = [THREAD, RECORD, frame(1), crate::image::INTERPRETER, crate::image::code("f1")][place];
        image.word(base + offset * 8, value);
        let mut session = Session::new(&image);
        let readings = session.sample();
        for thread in readings.threads {
            prop_assert!(thread.stack.is_none_or(|frames| frames.len() <= FRAMES_MAX));
        }
        prop_assert!(image.ranges_read() < 200_000);
    }
}

#[test]
fn a_circle_of_frames_is_cut() {
    let call = |function, offset| Call { function, offset };
    let image = Image::of(&[call("m", 2), call("f1", 4)]);
    image.push(0, call("m", 2), true);
    image.word(frame(0) + 48, frame(1));
    let readings = Session::new(&image).sample();
    let frames = readings.threads[0].stack.as_ref().expect("it stands still");
    assert_eq!(frames.len(), FRAMES_MAX);
}

#[test]
fn a_circle_of_threads_is_cut() {
    let image = Image::of(&[Call { function: "main", offset: 2 }]);
    image.word(THREAD + 8, THREAD);
    let readings = Session::new(&image).sample();
    assert!(readings.is_list_torn);
    assert_eq!(readings.threads.len(), 1);
}
