//! Watches over a tree of files as a kernel would show them, and over real processes.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::limits::WATCH_CGROUPS_MAX;
use plimsoll_clock::{Clock, Deadline};
use plimsoll_runtime::supervision::Supervisor;
use plimsoll_schemas::hardware::{SAMPLING_CPU_SECONDS_TOTAL, SENSORS_UNREAD, SensorState};
use plimsoll_schemas::ids::Labels;
use tempfile::TempDir;

use super::super::{HardwareSettings, Sampler};
use super::*;

/// A recorded machine whose agent started at tick 100.
struct Machine {
    root: TempDir,
    watched: Watched,
    seconds: u64,
}

impl Machine {
    fn new(by: By) -> Self {
        let root = tempfile::tempdir().unwrap();
        write(&root.path().join("proc/self/stat"), &stat("agent", 'S', 100, 0, 1));
        fs::create_dir_all(root.path().join("sys/fs/cgroup")).unwrap();
        let watched = watching(root.path(), by);
        Self { root, watched, seconds: 0 }
    }

    fn path(&self, path: &str) -> PathBuf {
        self.root.path().join(path)
    }

    /// A process with `ticks` of CPU time, `pages` of memory, and as many page faults as both.
    fn run(&self, pid: u32, name: &str, started: u64, ticks: u64, pages: u64) {
        write(&self.path(&format!("proc/{pid}/stat")), &stat(name, 'S', started, ticks, pages));
        let kept: Vec<u8> = name.bytes().take(15).chain([b'\n']).collect();
        write(&self.path(&format!("proc/{pid}/comm")), &kept);
    }

    fn end(&self, pid: u32) {
        fs::remove_dir_all(self.path(&format!("proc/{pid}"))).unwrap();
    }

    fn group(&self, path: &str, pids: &str) {
        write(&self.path(&format!("sys/fs/cgroup/{path}/cgroup.procs")), pids.as_bytes());
    }

    /// What the watch reports, a second after the last time, in the order of [`ORDER`].
    fn sample(&mut self) -> Vec<SampleOutcome> {
        self.seconds += 1;
        // Each sample searches for processes anew, whatever the last one took.
        self.watched.names = Rest::default();
        self.watched.groups = Rest::default();
        sent(&self.watched.sample(Mono(self.seconds * 1_000_000_000)))
    }
}

fn watching(root: &Path, by: By) -> Watched {
    let labels = Labels::new([("watch", "job")]).unwrap();
    let watches = vec![Watch { labels, by }];
    let mut watched = Watched::new(&Root::new(root), watches);
    watched.units = Units { ticks_per_second: 100.0, page_bytes: 4_096 };
    watched
}

fn write(path: &Path, bytes: &[u8]) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, bytes).unwrap();
}

fn stat(name: &str, state: char, started: u64, ticks: u64, pages: u64) -> Vec<u8> {
    let minor = ticks + pages;
    let (user, system) = (ticks / 2, ticks - ticks / 2);
    format!(
        "1 ({name}) {state} 1 1 1 0 -1 0 {minor} 99 {ticks} 99 {user} {system} 99 99 20 0 3 0 \
         {started} 1 {pages} 18446744073709551615\n"
    )
    .into_bytes()
}

/// A value, or why there is none; `None` when there is no reading.
type SampleOutcome = Option<Result<f64, (SensorState, String)>>;

const ORDER: [&Sensor; 7] = [
    &WATCHED_PROCESSES,
    &WATCHED_CPU_SECONDS_TOTAL,
    &WATCHED_CPU_RATIO,
    &WATCHED_RESIDENT_BYTES,
    &WATCHED_THREADS,
    &WATCHED_FAULTS_MINOR_TOTAL,
    &WATCHED_FAULTS_MAJOR_TOTAL,
];

fn sent(readings: &[Reading]) -> Vec<SampleOutcome> {
    let mut watched = readings.iter().filter(|reading| reading.sensor != SENSORS_UNREAD.name);
    assert!(watched.all(|reading| reading.labels.get("watch") == Some("job")));
    let value = |reading: &Reading| {
        let reason = || reading.reason.as_deref().unwrap_or_default().to_owned();
        reading.value.ok_or_else(|| (reading.state, reason()))
    };
    let of = |sensor: &Sensor| readings.iter().find(|reading| reading.sensor == sensor.name);
    ORDER.map(|sensor| of(sensor).map(value)).into()
}

fn values(values: [f64; 7]) -> Vec<SampleOutcome> {
    values.map(|value| Some(value).filter(|value| !value.is_nan()).map(Ok)).into()
}

/// A number of processes, and why there are no sums.
fn without(count: f64, state: SensorState, reason: &str) -> Vec<SampleOutcome> {
    let absent = Some(Err((state, reason.to_owned())));
    [vec![Some(Ok(count))], vec![absent; 6]].concat()
}

const PAGE: f64 = 4_096.0;
const NONE: f64 = f64::NAN;

#[test]
fn figures_of_all_processes_of_a_name_are_summed_with_those_that_ended() {
    let mut machine = Machine::new(By::Process("worker".to_owned()));
    machine.run(1, "init", 1, 5_000, 9);
    assert_eq!(machine.sample(), without(0.0, SensorState::Unsupported, "no_process"));
    machine.run(7, "worker", 50, 1_000, 3);
    machine.run(8, "worker", 200, 40, 4);
    machine.run(9, "worker2", 200, 70, 5);
    // The first was there before the agent: what it used until now is not counted.
    assert_eq!(machine.sample(), values([2.0, 0.4, NONE, 7.0 * PAGE, 6.0, 44.0, 40.0]));
    machine.run(7, "worker", 50, 1_050, 3);
    machine.run(8, "worker", 200, 65, 4);
    assert_eq!(machine.sample(), values([2.0, 1.15, 0.75, 7.0 * PAGE, 6.0, 119.0, 115.0]));
    machine.end(7);
    assert_eq!(machine.sample(), values([1.0, 1.15, 0.0, 4.0 * PAGE, 3.0, 119.0, 115.0]));
    machine.end(8);
    assert_eq!(machine.sample(), without(0.0, SensorState::Unsupported, "no_process"));
    machine.run(8, "worker", 900, 5, 1);
    assert_eq!(machine.sample(), values([1.0, 1.2, NONE, PAGE, 3.0, 125.0, 120.0]));
}

#[test]
fn a_watched_number_that_goes_to_another_process_counts_both() {
    let mut machine = Machine::new(By::Pid(7));
    assert_eq!(machine.sample(), without(0.0, SensorState::Unsupported, "no_process"));
    machine.run(7, "a (b) c", 200, 500, 1);
    assert_eq!(machine.sample()[1], Some(Ok(5.0)));
    machine.run(7, "other", 300, 20, 1);
    assert_eq!(machine.sample()[1..3], [Some(Ok(5.2)), None]);
    machine.run(7, "other", 300, 50, 1);
    assert_eq!(machine.sample()[1..3], [Some(Ok(5.5)), Some(Ok(0.3))]);
}

#[test]
fn who_has_ended_is_counted_for_what_he_used_alone() {
    let mut machine = Machine::new(By::Pid(7));
    machine.run(7, "job", 200, 10, 1);
    let _first = machine.sample();
    write(&machine.path("proc/7/stat"), &stat("job", 'Z', 200, 90, 0));
    assert_eq!(machine.sample(), without(0.0, SensorState::Unsupported, "no_process"));
    machine.run(7, "job", 300, 10, 1);
    assert_eq!(machine.sample()[1], Some(Ok(1.0)));
}

#[test]
fn a_group_holds_the_processes_of_all_groups_below_it() {
    for hierarchy in ["", "memory/", "systemd/"] {
        let mut machine = Machine::new(By::Cgroup("jobs".into()));
        assert_eq!(machine.sample(), without(0.0, SensorState::Unsupported, "no_process"));
        (7..=10).for_each(|pid| machine.run(pid, "x", 200, 1, 1));
        machine.group(&format!("{hierarchy}jobs"), "");
        machine.group(&format!("{hierarchy}jobs/a"), "7\n8\n7\n");
        machine.group(&format!("{hierarchy}jobs/a/b"), "9\n12345\n");
        machine.group(&format!("{hierarchy}others"), "10\n");
        let sums = values([3.0, 0.03, NONE, 3.0 * PAGE, 9.0, 6.0, 3.0]);
        assert_eq!(machine.sample(), sums, "{hierarchy}");
    }
}

#[test]
fn what_cannot_be_known_is_failed_and_no_smaller_sum() {
    let mut machine = Machine::new(By::Cgroup("jobs".into()));
    machine.run(7, "x", 200, 10, 1);
    machine.group("jobs", "7\n8\n");
    assert_eq!(machine.sample()[1], Some(Ok(0.1)));
    write(&machine.path("proc/8/stat"), b"8 (x) S no figures\n");
    assert_eq!(machine.sample(), without(2.0, SensorState::Failed, "malformed"));
    machine.run(8, "x", 200, 10, 1);
    assert_eq!(machine.sample()[1], Some(Ok(0.2)));

    machine.group("jobs", "0\n7\n");
    let unknown = Some(Err((SensorState::Failed, "other_pid_namespace".to_owned())));
    assert_eq!(machine.sample(), vec![unknown; 7]);
    let many: String = (1..=WATCHED_PROCESSES_MAX + 1).map(|pid| format!("{pid}\n")).collect();
    machine.group("jobs", &many);
    assert_eq!(machine.sample(), without(1_025.0, SensorState::Failed, "too_many"));
    machine.group("jobs", "7\n8\n");
    machine.run(7, "x", 200, 30, 1);
    assert_eq!(machine.sample()[1], Some(Ok(0.4)));
    for n in 0..WATCH_CGROUPS_MAX {
        machine.group(&format!("jobs/{n}"), "");
    }
    let unknown = Some(Err((SensorState::Failed, "too_many_cgroups".to_owned())));
    assert_eq!(machine.sample(), vec![unknown; 7]);
}

#[test]
fn a_machine_without_files_fails_and_is_not_none() {
    let empty = tempfile::tempdir().unwrap();
    for (by, state, reason) in [
        (By::Process("x".to_owned()), SensorState::Unsupported, "not_found"),
        (By::Cgroup("x".into()), SensorState::Unsupported, "no_cgroups"),
    ] {
        let unknown = Some(Err((state, reason.to_owned())));
        let readings = watching(empty.path(), by).sample(Mono(1));
        assert_eq!(sent(&readings), vec![unknown; 7]);
    }
}

#[test]
fn a_name_longer_than_the_kernel_keeps_is_compared_with_the_arguments() {
    let mut machine = Machine::new(By::Process("my_long_training.py".to_owned()));
    for (pid, name, arguments) in [
        (7, "my_long_training.py", "/usr/bin/python3\0./jobs/my_long_training.py\0--fast\0"),
        (8, "my_long_training.py", "/opt/my_long_training.py\0"),
        (9, "my_long_training.py", "my_long_training.py2\0x\0my_long_training.py\0"),
        (10, "my_long_train", "my_long_training.py\0"),
        (11, "my_long_training.py", ""),
    ] {
        machine.run(pid, name, 200, 1, 1);
        write(&machine.path(&format!("proc/{pid}/cmdline")), arguments.as_bytes());
    }
    assert_eq!(machine.sample()[0], Some(Ok(2.0)));
}

#[test]
fn a_pid_reused_between_two_polls_is_left_out_until_the_next() {
    let mut machine = Machine::new(By::Process("worker".to_owned()));
    machine.run(7, "worker", 200, 10, 1);
    assert_eq!(machine.sample()[1], Some(Ok(0.1)));
    machine.watched.names = Rest(Mono(u64::MAX));
    machine.run(7, "other", 300, 900, 1);
    let readings = machine.watched.sample(Mono(10_000_000_000));
    assert_eq!(sent(&readings), without(0.0, SensorState::Unsupported, "no_process"));
}

#[test]
fn polls_pause_long_after_slow_ones_and_thirty_seconds_at_most() {
    let mut rest = Rest::default();
    assert!(rest.is_over(Mono(0)));
    let took = Stopwatch::start();
    assert!(Deadline::within(Duration::from_secs(60)).pause(Duration::from_millis(20)));
    rest.begin(Mono(0), took);
    assert!(!rest.is_over(Mono(0).plus(Duration::from_millis(3_900))));
    assert!(rest.is_over(Mono(0).plus(WATCH_LOOK_REST_MAX)));
}

/// A real process that is ended with the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ended = self.0.kill();
        let _status = self.0.wait();
    }
}

fn start(shell: &Path, script: &str) -> Running {
    let mut shell = Command::new(shell);
    Running(shell.args(["-c", script]).stdin(Stdio::piped()).spawn().unwrap())
}

/// Samples until one is as wished.
fn poll(
    watched: &mut Watched,
    clock: Clock,
    is_enough: impl Fn(&[SampleOutcome]) -> bool,
) -> Vec<SampleOutcome> {
    let deadline = Deadline::within(Duration::from_secs(60));
    loop {
        let sent = sent(&watched.sample(clock.now().mono));
        if is_enough(&sent) {
            return sent;
        }
        assert!(deadline.pause(Duration::from_millis(50)), "{sent:?}");
    }
}

#[test]
fn a_real_process_ends_and_stays_counted() {
    let clock = Clock::start();
    let burning = start(Path::new("/bin/sh"), "while :; do :; done");
    let mut watched = watching(Path::new("/"), By::Pid(burning.0.id()));
    let value =
        |sent: &[SampleOutcome], at: usize| sent[at].clone().and_then(Result::ok).unwrap_or(0.0);
    let busy = poll(&mut watched, clock, |sent| value(sent, 1) >= 0.2 && value(sent, 2) > 0.0);
    assert_eq!(value(&busy, 0), 1.0);
    assert_eq!(value(&busy, 4), 1.0);
    assert!(value(&busy, 3) >= 64.0 * 1_024.0, "{busy:?}");
    assert!(value(&busy, 5) > 0.0, "{busy:?}");
    drop(burning);
    let over = poll(&mut watched, clock, |sent| value(sent, 0) == 0.0);
    assert_eq!(over, without(0.0, SensorState::Unsupported, "no_process"));
    assert!(watched.watches[0].1.usage.total.cpu_ticks >= 20);
}

#[test]
fn a_real_process_is_found_by_its_name() {
    let folder = tempfile::tempdir().unwrap();
    let name = format!("w{}", std::process::id());
    let clock = Clock::start();
    let mut watched = watching(Path::new("/"), By::Process(name.clone()));
    let none = sent(&watched.sample(clock.now().mono));
    assert_eq!(none, without(0.0, SensorState::Unsupported, "no_process"));
    let shell = folder.path().join(&name);
    std::os::unix::fs::symlink("/bin/sh", &shell).unwrap();
    let start = || start(&shell, "read line");
    let two = [start(), start()];
    let _found = poll(&mut watched, clock, |sent| sent[0] == Some(Ok(2.0)));
    drop(two);
    let _gone = poll(&mut watched, clock, |sent| sent[0] == Some(Ok(0.0)));
}

#[test]
fn watched_processes_come_with_the_samples_and_their_cost() {
    let labels = Labels::new([("watch", "job")]).unwrap();
    let watch = vec![Watch { labels, by: By::Pid(std::process::id()) }];
    let config = HardwareSettings { gpu: false, watch, ..HardwareSettings::default() };
    let (sampler, mut samples) = Sampler::start(&config, &Supervisor::default());
    let deadline = Deadline::within(Duration::from_secs(60));
    let got = |sample: &[Reading], sensor: &Sensor, label| {
        let mut of = sample.iter().filter(|reading| reading.sensor == sensor.name);
        of.any(|reading| reading.labels.iter().any(|pair| pair == label) && reading.value.is_some())
    };
    loop {
        if let Ok(sample) = samples.try_recv()
            && got(&sample, &WATCHED_CPU_RATIO, ("watch", "job"))
            && got(&sample, &SAMPLING_CPU_SECONDS_TOTAL, ("thread", "watched"))
        {
            return sampler.stop();
        }
        assert!(deadline.pause(Duration::from_millis(20)), "no sample of the watch");
    }
}

#[test]
fn memory_is_summed_and_a_leak_has_a_time_until_its_limit() {
    let mut machine = Machine::new(By::Process("worker".to_owned()));
    let gib = 1_u64 << 30;
    let kib = |of: u64| of / 1_024;
    write(&machine.path("proc/meminfo"), format!("MemAvailable: {} kB\n", kib(gib)).as_bytes());
    write(&machine.path("sys/fs/cgroup/a/b/memory.current"), b"1000");
    write(&machine.path("sys/fs/cgroup/a/b/memory.max"), b"max");
    // Of which 9 000 bytes are pages of files.
    write(&machine.path("sys/fs/cgroup/a/memory.current"), b"10000");
    write(&machine.path("sys/fs/cgroup/a/memory.stat"), b"anon 1000\ninactive_file 9000\n");
    write(&machine.path("sys/fs/cgroup/a/memory.max"), format!("{}", gib / 2 + 1_000).as_bytes());
    for pid in [7, 8] {
        let status = b"Name:\tworker\nVmHWM:\t    2048 kB\nVmSwap:\t       4 kB\n";
        write(&machine.path(&format!("proc/{pid}/status")), status);
        write(&machine.path(&format!("proc/{pid}/cgroup")), b"0::/a/b\n");
    }
    write(&machine.path("proc/7/smaps_rollup"), b"Rss: 9 kB\nPss:       700 kB\n");

    let value = |readings: &[Reading], sensor: &Sensor| {
        let found = readings.iter().find(|reading| reading.sensor == sensor.name).unwrap();
        found.value.ok_or_else(|| found.reason.clone().unwrap_or_default())
    };
    let mut readings = Vec::new();
    // 2 560 pages of 4 KiB in a minute: 10 MiB, of two processes.
    for minute in 0..=90_u64 {
        machine.run(7, "worker", 200, 1, 100_000 + 1_280 * minute);
        machine.run(8, "worker", 200, 1, 100_000 + 1_280 * minute);
        machine.watched.names = Rest::default();
        readings = machine.watched.sample(Mono(minute * 60_000_000_000));
        if minute == 2 {
            assert_eq!(value(&readings, &WATCHED_GROWTH_BYTES_PER_SECOND), Ok(0.0));
            assert_eq!(value(&readings, &WATCHED_LIMIT_LATEST_SECONDS), Ok(2_592_000.0));
        }
    }
    let grows = value(&readings, &WATCHED_GROWTH_BYTES_PER_SECOND).unwrap();
    assert!((grows - 10.0 * 1_048_576.0 / 60.0).abs() < 1.0, "{grows}");
    // 512 MiB are left below the outer group.
    let times = [&WATCHED_LIMIT_EARLIEST_SECONDS, &WATCHED_LIMIT_LATEST_SECONDS];
    for sensor in times {
        let seconds = value(&readings, sensor).unwrap();
        assert!((seconds - 51.2 * 60.0).abs() < 1.0, "{seconds}");
    }
    assert_eq!(value(&readings, &WATCHED_PEAK_BYTES), Ok(4.0 * 1_048_576.0));
    assert_eq!(value(&readings, &WATCHED_SWAP_BYTES), Ok(8_192.0));
    // The second process ended while it was read: the first one counts.
    assert_eq!(value(&readings, &WATCHED_PROPORTIONAL_BYTES), Ok(700.0 * 1_024.0));
}
