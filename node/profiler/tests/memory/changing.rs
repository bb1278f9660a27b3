//! Stacks that change while they are read: what is returned was there at one instant.

use crate::image::{Call, INTERPRETER, Image, RECORD, Session, THREAD, code, frame};

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
    // What lists the threads, a stack, the code objects.
    assert_eq!(image.calls.get() - before, 3);
}

#[test]
fn a_thread_that_has_not_run_is_not_read() {
    let image = Image::of(&[MAIN, call("f1", 4)]);
    let mut session = Session::new(&image);
    let first = session.sample();
    let before = image.calls.get();
    image.push(1, call("f2", 4), false);
    assert_eq!(session.sample_if(|native_id| native_id == 77).threads, first.threads);
    assert_eq!(image.calls.get() - before, 1);
    assert_eq!(session.stack(), named(&[("m", 102), ("f2", 103)]));

    // Another thread in the same place.
    image.word(THREAD + 160, 78);
    image.push(1, call("f3", 4), false);
    let other = session.sample_if(|_| true);
    assert_eq!(other.threads[0].stack.as_ref().unwrap()[1].function.as_str(), "f3");
}

#[test]
fn a_list_of_threads_that_changed_is_walked_anew() {
    const OTHER: u64 = 0x70_0000;
    let image = Image::of(&[MAIN]);
    let mut session = Session::new(&image);
    let numbers = |session: &mut Session<'_>| -> Vec<u64> {
        session.sample().threads.iter().map(|thread| thread.native_id).collect()
    };
    assert_eq!(numbers(&mut session), [77]);

    // A new one comes first.
    image.word(INTERPRETER + 16, OTHER);
    for offset in (0..400).step_by(8) {
        image.word(OTHER + offset, 0);
    }
    for (field, value) in [(8, THREAD), (16, INTERPRETER), (56, RECORD), (160, 78)] {
        image.word(OTHER + field, value);
    }
    image.word(THREAD, OTHER);
    assert_eq!(numbers(&mut session), [78, 77]);
    assert_eq!(numbers(&mut session), [78, 77]);

    image.unmap(OTHER, 400);
    image.word(INTERPRETER + 16, THREAD);
    image.word(THREAD, 0);
    assert_eq!(numbers(&mut session), [77]);
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
