//! Files of other tools: without our labels and comments, in another order, with inlined
//! functions, addresses without symbols, and several kinds of values. Two are from Go 1.19.

use std::sync::Arc;

use prost::Message;

use crate::labels::ThreadState;
use crate::pprof::decode;
use crate::pprof::messages::{
    Function, Label, Line, Location, ProfileMessage, SampleMessage, ValueTypeMessage,
};
use crate::profile::Profile;
use crate::stack::Frame;

const GO_CPU: &[u8] = include_bytes!("../../../../../tests/data/pprof/go_cpu.pb.gz");
const GO_HEAP: &[u8] = include_bytes!("../../../../../tests/data/pprof/go_heap.pb");

/// A file of a CPU profiler: `hot` is inlined into `work` at one location; another location has
/// no symbol.
pub(super) fn file() -> ProfileMessage {
    let texts = [
        "",
        "samples",
        "count",
        "cpu",
        "nanoseconds",
        "hot",
        "work",
        "_Z3hotv",
        "a.cc",
        "thread",
        "pool-1",
        "state",
        "waiting",
        "bytes",
    ];
    let sample = |location_id: &[u64], count: i64, label: &[(i64, i64)]| SampleMessage {
        location_id: location_id.to_vec(),
        value: vec![count, 10 * count],
        label: label.iter().map(|(key, str)| Label { key: *key, str: *str }).collect(),
    };
    let line = |function_id, line| Line { function_id, line };
    ProfileMessage {
        sample_type: [(1, 2), (3, 4)].map(|(kind, unit)| ValueTypeMessage { kind, unit }).into(),
        sample: vec![
            sample(&[77, 12], 3, &[(9, 10), (13, 0)]),
            sample(&[77, 12], 4, &[(9, 10), (11, 12)]),
            sample(&[12], 5, &[(9, 10), (11, 8)]),
            sample(&[], 1, &[]),
        ],
        location: vec![
            Location { id: 77, mapping_id: 9, address: 1, line: vec![line(500, 7), line(2, -1)] },
            Location { id: 12, mapping_id: 0, address: 0xbeef, line: vec![] },
        ],
        function: vec![
            Function { id: 2, name: 6, system_name: 6, filename: 8 },
            Function { id: 500, name: 0, system_name: 7, filename: 8 },
        ],
        string_table: texts.map(Vec::from).into(),
        time_nanos: -5,
        duration_nanos: 1_000,
        period: 10,
        ..ProfileMessage::default()
    }
}

fn read(file: &ProfileMessage) -> Profile {
    decode(&file.encode_to_vec()).unwrap()
}

/// `thread state: root < .. < leaf = count` of each sample.
fn lines(profile: &Profile) -> Vec<String> {
    let line = |sample: crate::profile::Sample<'_>| {
        let frames: Vec<String> = sample.stack.frames().iter().map(ToString::to_string).collect();
        let state = sample.labels.state.map_or("-", ThreadState::as_str);
        format!("{} {state}: {} = {}", sample.labels.thread, frames.join(" > "), sample.count)
    };
    profile.samples().map(line).collect()
}

#[test]
fn a_file_of_another_tool_is_read() {
    let profile = read(&file());
    let wanted = [
        " -: [unknown] = 1",
        "pool-1 -: 0xbeef = 5",
        "pool-1 -: 0xbeef > work (a.cc:0) > _Z3hotv (a.cc:7) = 3",
        "pool-1 waiting: 0xbeef > work (a.cc:0) > _Z3hotv (a.cc:7) = 4",
    ];
    assert_eq!(lines(&profile), wanted);
    assert_eq!((profile.period(), profile.value()), (10, 130));
    assert_eq!((profile.started_at.0, profile.duration_ns), (0, 1_000));
    assert_eq!(profile.comments().count(), 0);
}

#[test]
fn values_that_are_no_multiples_of_the_period_are_kept_exactly() {
    let mut uneven = file();
    uneven.sample[2].value[1] = 51;
    let profile = read(&uneven);
    assert_eq!((profile.period(), profile.value()), (1, 131));
    uneven.period = -1;
    assert_eq!(read(&uneven), profile);
}

#[test]
fn the_preferred_value_of_a_file_is_read() {
    let table = [(0, "cpu", 130), (1, "samples", 13), (3, "cpu", 130), (6, "cpu", 130)];
    for (default_sample_type, kind, value) in table {
        let profile = read(&ProfileMessage { default_sample_type, ..file() });
        assert_eq!((profile.value_type().kind.as_str(), profile.value()), (kind, value));
    }
}

#[test]
fn tables_may_follow_what_refers_to_them() {
    let whole = file();
    let parts = [
        ProfileMessage { sample: whole.sample.clone(), ..Default::default() },
        ProfileMessage { location: whole.location.clone(), ..Default::default() },
        ProfileMessage { sample: vec![], location: vec![], ..whole.clone() },
    ];
    // Fields of a later version, of each width.
    let mut bytes = b"\x7a\x01x\x80\x01\x05\x8d\x01abcd\x89\x01abcdefgh".to_vec();
    parts.iter().for_each(|part| bytes.extend(part.encode_to_vec()));
    assert_eq!(decode(&bytes), Ok(read(&whole)));
}

#[test]
fn files_of_go_have_the_figures_that_pprof_prints() {
    // Of `go tool pprof -top -cum`: flat and cum.
    let seconds = |value: u64| format!("{:.2}s", value as f64 / 1e9);
    let kilobytes = |value: u64| format!("{:.2}kB", value as f64 / 1024.0);
    let table = [
        (GO_CPU, "main.augment", "0.01s", "2.48s"),
        (GO_CPU, "sort.partition", "0.73s", "1.81s"),
        (GO_CPU, "cmpbody", "0.70s", "0.70s"),
        (GO_CPU, "main.fib", "0.08s", "0.09s"),
        (GO_HEAP, "main.augment", "1377.12kB", "2913.16kB"),
        (GO_HEAP, "runtime.main", "0.00kB", "2913.16kB"),
        (GO_HEAP, "runtime.malg", "1024.41kB", "1024.41kB"),
    ];
    for (file, name, flat, cum) in table {
        let profile = decode(file).unwrap();
        let is_cpu = profile.value_type().kind.as_str() == "cpu";
        let values = profile.values(None);
        let is_named = |frame: &Arc<Frame>| frame.function.as_str() == name;
        let own = values.iter().filter(|(stack, _)| stack.frames().last().is_some_and(is_named));
        let total = values.iter().filter(|(stack, _)| stack.frames().iter().any(is_named));
        let figures = [own.map(|(_, value)| value).sum(), total.map(|(_, value)| value).sum()];
        let printed = figures.map(|value| if is_cpu { seconds(value) } else { kilobytes(value) });
        assert_eq!(printed, [flat, cum], "{name}");
    }

    let (cpu, heap) = (decode(GO_CPU).unwrap(), decode(GO_HEAP).unwrap());
    assert_eq!((cpu.period(), cpu.value()), (10_000_000, 2_600_000_000));
    assert_eq!((heap.value_type().kind.as_str(), heap.period()), ("inuse_space", 1));
    let loader = cpu.samples().filter(|sample| sample.labels.thread.as_str() == "loader");
    assert!(loader.map(|sample| sample.count).sum::<u64>() > 250);
}
