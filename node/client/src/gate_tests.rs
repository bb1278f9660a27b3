//! A flush and a thread that was stopped on its way to the side that it had chosen.

use plimsoll_schemas::ids::{Operation, Series};

use super::*;

#[test]
fn a_flush_also_takes_what_came_late_to_the_side_of_the_flush_before() {
    let mut state = State::new();
    let series = Series::plain(Operation::new("epoch_hook").unwrap());
    let index = state.directory.operation(Some(series));
    let recorder = Arc::new([Half::new(), Half::new()]);
    state.threads.entry(1).or_default().insert(index, recorder.clone());
    SIDE.store(0, Relaxed);
    let mut held = Held::default();
    recorder[0].record(5);
    assert!(state.take_into(&mut held));
    assert_eq!(state.tally.taken, 1);
    // Chosen before that flush turned writers away, written after it.
    recorder[0].record(6);
    recorder[1].record(7);
    assert!(state.take_into(&mut held));
    assert_eq!((state.tally.taken, state.recorded()), (3, 3));
    SIDE.store(COLD, Relaxed);
}
