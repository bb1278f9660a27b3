//! The samples sent, the raw file and the summary's counts are equal.

use std::net::UdpSocket;
use std::time::Duration;

use nix::sys::signal::Signal;

use crate::running::{Running, is_latency};

fn starting(datagrams: &[String], start: &str) -> Vec<String> {
    datagrams.iter().filter_map(|datagram| datagram.strip_prefix(start)).map(Into::into).collect()
}

fn losses(datagrams: &[String]) -> Vec<f64> {
    let texts = starting(datagrams, "training_loss:");
    texts.iter().map(|text| text.strip_suffix("|g").unwrap().parse().unwrap()).collect()
}

#[test]
fn the_raw_file_lists_exactly_the_latencies_that_arrived() {
    let mut running = Running::start(&["--epochs", "50", "--epochs-per-second", "0"]);
    let all = running.rest();
    let latencies: Vec<String> = all.iter().filter(|d| is_latency(d)).cloned().collect();
    assert_eq!(latencies.len(), 100);
    assert_eq!(latencies, running.raw_as_datagrams());
    assert_eq!(starting(&all, "epochs:"), vec!["1|c"; 50]);

    let ended = running.ended();
    assert_eq!(ended.status.code(), Some(0));
    assert_eq!(ended.stderr, "");
    let sent = serde_json::json!(
        { "epoch_hook": 50, "kernel_fetch": 50, "epochs": 50, "training_loss": 50 });
    assert_eq!(ended.summary["sent"], sent);
    assert_eq!(ended.summary["unsent"], 0);
    assert_eq!(
        (&ended.summary["epochs"], &ended.summary["ended_by"]),
        (&50.into(), &"epochs".into())
    );
}

#[test]
fn the_work_is_real_and_within_its_budgets() {
    let mut running = Running::start(&["--epochs", "100", "--epochs-per-second", "0"]);
    let all = running.rest();
    let losses = losses(&all);
    assert!(losses[99] < losses[0] / 3.0, "{losses:?}");
    let accuracy = running.ended().summary["validation_accuracy"].as_f64().unwrap();
    assert!(accuracy > 0.9, "{accuracy}");

    let fetches = starting(&all, "kernel_fetch:");
    let with = |outcome| fetches.iter().filter(|fetch| fetch.ends_with(outcome)).count();
    assert!(with("|ms|#outcome:hit") > 20, "{fetches:?}");
    assert!(with("|ms|#outcome:miss") > 20, "{fetches:?}");
    assert_eq!(with("|ms|#outcome:error"), 0);
    let median = |start| {
        let texts = starting(&all, start);
        let millis = texts.iter().map(|text| text.split_once('|').unwrap().0.parse().unwrap());
        let mut millis: Vec<f64> = millis.collect();
        millis.sort_by(f64::total_cmp);
        millis[millis.len() / 2]
    };
    assert!(median("epoch_hook:") < 18.0, "{}", median("epoch_hook:"));
    assert!(median("kernel_fetch:") < 10.0, "{}", median("kernel_fetch:"));
}

#[test]
fn one_seed_learns_the_same_twice_and_another_learns_otherwise() {
    let learnt = |seed| {
        let flags = ["--epochs", "5", "--epochs-per-second", "0", "--seed", seed];
        losses(&Running::start(&flags).rest())
    };
    assert_eq!(learnt("4"), learnt("4"));
    assert_ne!(learnt("4"), learnt("5"));
}

#[test]
fn sigterm_and_sigint_end_the_job_after_a_whole_epoch() {
    for signal in [Signal::SIGTERM, Signal::SIGINT] {
        let mut running = Running::start(&[]);
        let mut all = vec![running.next().unwrap()];
        running.signal(signal);
        all.extend(running.rest());
        let ended = running.ended();
        assert_eq!(ended.status.code(), Some(0));
        assert_eq!(ended.summary["ended_by"], "signal");
        all.retain(|datagram| is_latency(datagram));
        assert_eq!(all, running.raw_as_datagrams());
        assert_eq!(ended.summary["epochs"], all.len() / 2);
    }
}

#[test]
fn samples_wait_for_a_node_that_comes_late() {
    let mut running = Running::start_alone(&["--epochs", "30"]);
    running.await_file("kernels/kernel-7.bin");
    running.bind();
    let mut all = running.rest();
    let ended = running.ended();
    assert_eq!((all.len(), &ended.summary["unsent"]), (120, &0.into()));
    all.retain(|datagram| is_latency(datagram));
    assert_eq!(all, running.raw_as_datagrams());
}

#[test]
fn samples_that_no_node_ever_took_are_unsent_and_not_in_the_raw_file() {
    let mut running = Running::start_alone(&["--epochs", "3", "--epochs-per-second", "0"]);
    let ended = running.ended();
    assert_eq!(ended.status.code(), Some(0));
    assert_eq!((&ended.summary["epochs"], &ended.summary["unsent"]), (&3.into(), &12.into()));
    assert_eq!(running.raw_as_datagrams(), Vec::<String>::new());
}

#[test]
fn a_node_that_does_not_read_cannot_hold_the_job_for_ever() {
    let mut running = Running::start(&["--seconds", "1"]);
    let ended = running.ended();
    assert_eq!((ended.status.code(), &ended.summary["ended_by"]), (Some(0), &"seconds".into()));
    assert!(ended.summary["unsent"].as_u64().unwrap() > 0, "{}", ended.summary);
    let mut queued = running.rest();
    queued.retain(|datagram| is_latency(datagram));
    assert!(!queued.is_empty());
    assert_eq!(queued, running.raw_as_datagrams());
}

#[test]
fn epochs_start_on_schedule_and_not_before() {
    let mut running = Running::start(&["--seconds", "1", "--epochs-per-second", "50"]);
    let epochs = starting(&running.rest(), "epochs:").len();
    assert!((25..=50).contains(&epochs), "{epochs}");
}

#[test]
fn udp_carries_the_same_samples() {
    let node = UdpSocket::bind("127.0.0.1:0").unwrap();
    node.set_read_timeout(Some(Duration::from_millis(5))).unwrap();
    let url = format!("udp://{}", node.local_addr().unwrap());
    let flags = ["--epochs", "10", "--epochs-per-second", "0", "--statsd", &url];
    let mut running = Running::start_alone(&flags);
    assert_eq!(running.ended().summary["unsent"], 0);
    let mut bytes = [0; 256];
    let received =
        std::iter::from_fn(|| node.recv(&mut bytes).ok().map(|len| bytes[..len].to_vec()));
    let received = received.map(|datagram| String::from_utf8(datagram).unwrap());
    assert_eq!(
        received.filter(|datagram| is_latency(datagram)).collect::<Vec<_>>(),
        running.raw_as_datagrams()
    );
}
