//! A second job beside a node, made of lines that a scenario chooses. Notes every sample that the
//! socket has taken.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Result, anyhow};
use plimsoll_clock::Deadline;
use plimsoll_mesh::statsd::StatsdSender;

const OPERATION: &str = "wide";
const SERIES: u64 = 50;
/// Of each series in one round.
const SAMPLES: u64 = 8;
const ROUND: Duration = Duration::from_millis(100);
const NS_PER_US: u64 = 1_000;
const US_MIN: u64 = 2_000;
const US_MAX: u64 = 80_000;

/// A datagram and the samples in it: operation and nanoseconds.
pub(super) struct Line {
    pub(super) text: String,
    pub(super) samples: Vec<(String, u64)>,
}

/// A thread that sends until it is ended.
pub(super) struct Feeder {
    stop: Arc<AtomicBool>,
    sent: JoinHandle<Result<Vec<(String, u64)>>>,
}

impl Feeder {
    /// Sends the lines of one round after the other, each a tenth of a second after the last.
    pub(super) fn begin(socket: &Path, lines: fn(u64) -> Vec<Line>) -> Result<Self> {
        let link = StatsdSender::unix(socket)?;
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let sent = std::thread::Builder::new()
            .name("feeder".to_owned())
            .spawn(move || feed(&link, &stopped, lines))?;
        Ok(Self { stop, sent })
    }

    /// Everything that was sent: operation and nanoseconds.
    pub(super) fn end(self) -> Result<Vec<(String, u64)>> {
        self.stop.store(true, Ordering::Relaxed);
        self.sent.join().map_err(|_| anyhow!("the feeder panicked"))?
    }
}

fn feed(
    link: &StatsdSender,
    stopped: &AtomicBool,
    lines: fn(u64) -> Vec<Line>,
) -> Result<Vec<(String, u64)>> {
    let (mut sent, mut number) = (Vec::new(), 0);
    while !stopped.load(Ordering::Relaxed) {
        let round = Deadline::within(ROUND);
        for Line { text, samples } in lines(number) {
            link.send(text)?;
            sent.extend(samples);
        }
        number += 1;
        let _more = round.pause(ROUND);
    }
    Ok(sent)
}

/// Lines that fill a node's memory: many series, each of latencies that hardly ever fall into the
/// same bucket.
pub(super) fn wide(round: u64) -> Vec<Line> {
    let line = |series| {
        let first = (round * SERIES + series) * SAMPLES;
        let values: Vec<u64> = (0..SAMPLES).map(|place| spread(first + place)).collect();
        let shown: String = values.iter().map(|us| format!(":{}", in_ms(*us))).collect();
        let samples = values.iter().map(|us| (OPERATION.to_owned(), us * NS_PER_US));
        Line { text: format!("{OPERATION}{shown}|ms|#shard:{series}"), samples: samples.collect() }
    };
    (0..SERIES).map(line).collect()
}

/// Lines that no merging makes fewer: each round has series of its own.
pub(super) fn ever_new(round: u64) -> Vec<Line> {
    let line = |series| {
        let us = spread(round * SERIES + series);
        let text = format!("{OPERATION}:{}|ms|#shard:{series},round:{round:0>96}", in_ms(us));
        Line { text, samples: vec![(OPERATION.to_owned(), us * NS_PER_US)] }
    };
    (0..SERIES).map(line).collect()
}

/// One event, which makes a message of its own in each interval.
pub(super) fn event(_round: u64) -> Vec<Line> {
    vec![Line { text: "_e{5,5}:drill|event".to_owned(), samples: Vec::new() }]
}

/// Microseconds spread evenly over the whole range.
fn spread(number: u64) -> u64 {
    // The golden ratio's share of 2^64: neighbours fall far apart, and none is met twice.
    US_MIN + (number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) % (US_MAX - US_MIN)
}

fn in_ms(us: u64) -> String {
    format!("{}.{:03}", us / 1_000, us % 1_000)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::os::unix::net::UnixDatagram;

    use super::*;

    #[test]
    fn latencies_are_spread_over_the_range() {
        let many: BTreeSet<u64> = (0..1_000).map(spread).collect();
        assert!(many.len() > 950, "{}", many.len());
        let (least, most) = (*many.first().unwrap(), *many.last().unwrap());
        assert!(least >= US_MIN && most < US_MAX && most - least > 70_000, "{least} {most}");
    }

    #[test]
    fn every_sent_sample_is_noted_and_arrives() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("sock");
        let socket = UnixDatagram::bind(&path).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        let feeder = Feeder::begin(&path, wide).unwrap();
        let mut buffer = [0; 512];
        let read = socket.recv(&mut buffer).unwrap();
        let line = std::str::from_utf8(&buffer[..read]).unwrap().to_owned();
        feeder.stop.store(true, Ordering::Relaxed);
        for _ in 1..SERIES {
            socket.recv(&mut buffer).unwrap();
        }
        let sent = feeder.end().unwrap();
        let first: Vec<String> = sent[..8].iter().map(|(_, ns)| in_ms(ns / NS_PER_US)).collect();
        assert_eq!(line, format!("wide:{}|ms|#shard:0", first.join(":")));
        assert_eq!(sent.len() as u64 % (SERIES * SAMPLES), 0);
    }
}
