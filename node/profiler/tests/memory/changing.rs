//! Stacks that change while they are read: what is returned was there at one instant.

use crate::image::{Call, Image, RECORD, Session, code, frame};

const fn call(function: &str, offset: i64) -> Call<'_> {
    Call { function, offset }
}

const MAIN: Call<'_> = call("m", 2);

fn named(stack: &[(&str, u32)]) -> Option<Vec<(String, u32)>> {
    Some(stack.iter().map(|(function, line)| ((*function).to_owned(), *line)).collect())
}

#[test]
fn a_stack_that_stands_still_is_whole() {
    let image = Image::of(&[MAIN, call("f1", 4), call("g2", -2)]);
    let mut session = Session::new(&image);
    let expected = named(&[("m", 102), ("f1", 103), ("g2", 100)]);
    assert_eq!(session.stack(), expected);
    assert_eq!(session.stack(), expected);
}

#[test]
fn a_second_sample_takes_few_calls() {
    let image = Image::of(&[MAIN, call("f1", 4), call("g2", 6)]);
    let mut session = Session::new(&image);
    session.sample();
    let before = image.calls.get();
    session.sample();
    // The first interpreter, its state, its first thread, that thread, its stack, the code objects.
    assert_eq!(image.calls.get() - before, 6);
}

#[test]
fn a_caller_that_runs_has_no_callee_whatever_lies_above_it() {
    // The current frame was read before `g2` returned; what `f1` had called is still above `f3`.
    let image = Image::of(&[MAIN, call("f1", 4), call("g2", 6)]);
    image.push(1, call("f3", 4), false);
    assert_eq!(Session::new(&image).stack(), named(&[("m", 102), ("f3", 103)]));
}

#[test]
fn a_caller_before_its_first_instruction_has_no_callee() {
    let image = Image::of(&[MAIN, call("f1", -2), call("g2", 6)]);
    assert_eq!(Session::new(&image).stack(), named(&[("m", 102), ("f1", 100)]));
}

#[test]
fn a_call_after_the_current_frame_was_read_is_seen() {
    let image = Image::of(&[MAIN, call("f1", 4), call("g2", 6)]);
    image.word(RECORD + 8, frame(0));
    assert_eq!(Session::new(&image).stack(), named(&[("m", 102), ("f1", 103), ("g2", 104)]));
}

#[test]
fn a_stack_on_which_no_frame_runs_counts_once_it_stands() {
    let image = Image::of(&[MAIN, call("f1", 4), call("g2", 6)]);
    image.push(2, call("g2", 6), true);
    let mut session = Session::new(&image);
    assert_eq!(session.stack(), named(&[("m", 102), ("f1", 103), ("g2", 104)]));

    // While it changes from one reading to the next, none of them counts.
    for reading in 0..64 {
        let offset = 2 * (reading % 8 + 1);
        // A reading has four ranges: the thread, its current frame, its stack twice.
        let change = move |image: &Image| image.push(2, call("g2", offset), true);
        image.before_range(4 + 4 * usize::try_from(reading).unwrap(), change);
    }
    assert_eq!(session.stack(), None);
}

#[test]
fn another_code_object_at_the_same_address_is_noticed() {
    let image = Image::of(&[MAIN, call("f1", 4)]);
    let mut session = Session::new(&image);
    assert_eq!(session.stack(), named(&[("m", 102), ("f1", 103)]));
    let at = code("f1");
    // Each of them with every address as it was.
    let name: fn(&Image, u64) = |image, at| image.text(at + 0x500, "f7");
    let line: fn(&Image, u64) = |image, at| image.word(at + 72, 200);
    let table: fn(&Image, u64) = |image, at| image.put(at + 0x800 + 32, &[0xd0]);
    for (change, line) in [(name, 103), (line, 203), (table, 202)] {
        change(&image, at);
        assert_eq!(session.stack(), named(&[("m", 102), ("f7", line)]));
    }
}

#[test]
fn a_code_object_freed_before_it_was_read_names_no_frame() {
    // Ranges 0 to 3 list the thread, 4 to 7 are of its stack; then come fields of code objects.
    const FIELDS: usize = 8;
    let image = Image::of(&[MAIN, call("f1", 4)]);
    image.before_range(FIELDS, |image| {
        image.text(code("f1") + 0x500, "f9");
        image.push(1, call("f2", 4), false);
    });
    assert_eq!(Session::new(&image).stack(), named(&[("m", 102), ("f2", 103)]));
}

#[test]
fn an_instruction_outside_its_code_object_is_torn() {
    for offset in [20, -4, i64::MIN] {
        let image = Image::of(&[MAIN, call("f1", offset)]);
        assert_eq!(Session::new(&image).stack(), None, "{offset}");
    }
}

#[test]
fn a_stack_that_was_unmapped_is_torn_and_never_kept() {
    let image = Image::of(&[MAIN, call("f1", 4)]);
    let mut session = Session::new(&image);
    assert!(session.stack().is_some());
    image.unmap(frame(0), 64);
    assert_eq!(session.stack(), None);
}
