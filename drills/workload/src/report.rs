//! Sends samples to the node, and writes the sent ones to the raw file.
//!
//! A sample counts as sent, and is in the raw file, once the kernel has accepted its datagram.
//! While the node is away samples wait in order; past a bound they are counted as unsent. Nothing
//! here runs inside a timed operation.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, BufWriter, Write};

use crate::limits::{EXIT_WAIT, RAW_FLUSH_EVERY, RETRY_EVERY, SAMPLES_MAX};
use plimsoll_clock::{Deadline, Stopwatch};

use crate::sample::{Sample, Tally};
use crate::statsd::{Destination, Sent, StatsdSocket};

/// The way to the node.
#[derive(Debug)]
pub struct Reporter {
    destination: Destination,
    link: Option<StatsdSocket>,
    failed: Option<Stopwatch>,
    waiting: VecDeque<Sample>,
    raw: Option<RawFile>,
    sent: Tally,
    unsent: u64,
}

#[derive(Debug)]
struct RawFile {
    file: BufWriter<File>,
    flushed: Stopwatch,
}

impl Reporter {
    /// Connects when the first sample is there.
    pub fn new(destination: Destination, raw: Option<File>) -> Self {
        let raw =
            raw.map(|file| RawFile { file: BufWriter::new(file), flushed: Stopwatch::start() });
        Self {
            destination,
            link: None,
            failed: None,
            waiting: VecDeque::new(),
            raw,
            sent: Tally::default(),
            unsent: 0,
        }
    }

    /// Queues one sample and sends what can be sent.
    ///
    /// # Errors
    /// When the raw file cannot be written.
    pub fn report(&mut self, sample: Sample) -> io::Result<()> {
        if self.waiting.len() < SAMPLES_MAX {
            self.waiting.push_back(sample);
        } else {
            self.unsent += 1;
        }
        self.send()
    }

    /// Sends what can be sent and flushes the raw file when that is due.
    ///
    /// # Errors
    /// When the raw file cannot be written.
    pub fn tick(&mut self) -> io::Result<()> {
        self.send()?;
        match &mut self.raw {
            Some(raw) if raw.flushed.elapsed() >= RAW_FLUSH_EVERY => {
                raw.flushed = Stopwatch::start();
                raw.file.flush()
            }
            _ => Ok(()),
        }
    }

    /// Waits for a bounded time until all is sent; what is left is unsent.
    ///
    /// # Errors
    /// When the raw file cannot be written.
    pub fn finish(mut self) -> io::Result<(Tally, u64)> {
        let deadline = Deadline::within(EXIT_WAIT);
        loop {
            self.send()?;
            if self.waiting.is_empty() || !deadline.pause(RETRY_EVERY) {
                break;
            }
        }
        if let Some(raw) = &mut self.raw {
            raw.file.flush()?;
        }
        Ok((self.sent, self.unsent + self.waiting.len() as u64))
    }

    fn send(&mut self) -> io::Result<()> {
        if self.failed.is_some_and(|failed| failed.elapsed() < RETRY_EVERY) {
            return Ok(());
        }

        while let Some(sample) = self.waiting.front() {
            match self.offer(&sample.to_string()) {
                Sent::Accepted => self.on_accepted()?,
                Sent::Full => return Ok(()),
                Sent::Gone => {
                    self.link = None;
                    return Ok(());
                }
            }
        }

        Ok(())
    }

    fn offer(&mut self, datagram: &str) -> Sent {
        if self.link.is_none() {
            self.link = self.destination.connect().ok();
        }
        let sent = self.link.as_ref().map_or(Sent::Gone, |link| link.send(datagram.as_bytes()));
        self.failed = (sent != Sent::Accepted).then(Stopwatch::start);
        sent
    }

    fn on_accepted(&mut self) -> io::Result<()> {
        let Some(sample) = self.waiting.pop_front() else { return Ok(()) };
        self.sent.count(&sample);
        match (&mut self.raw, sample.raw_line()) {
            (Some(raw), Some(line)) => raw.file.write_all(line.as_bytes()),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixDatagram;
    use std::path::Path;
    use std::time::Duration;

    use super::*;

    fn reporter(dir: &Path) -> Reporter {
        let raw = File::create(dir.join("raw")).unwrap();
        Reporter::new(Destination::Unix(dir.join("sock")), Some(raw))
    }

    fn received(socket: &UnixDatagram) -> Vec<String> {
        let mut bytes = [0; 256];
        socket.set_nonblocking(true).unwrap();
        std::iter::from_fn(|| socket.recv(&mut bytes).ok().map(|len| bytes[..len].to_vec()))
            .map(|datagram| String::from_utf8(datagram).unwrap())
            .collect()
    }

    fn hook(nanos: u64) -> Sample {
        Sample::EpochHook(Duration::from_nanos(nanos))
    }

    #[test]
    fn samples_wait_for_a_node_that_comes_late_and_arrive_in_order() {
        let dir = tempfile::tempdir().unwrap();
        let mut reporter = reporter(dir.path());
        reporter.report(hook(1)).unwrap();
        reporter.report(hook(2)).unwrap();
        let socket = UnixDatagram::bind(dir.path().join("sock")).unwrap();
        let (sent, unsent) = reporter.finish().unwrap();
        assert_eq!((sent.epoch_hook, unsent), (2, 0));
        assert_eq!(received(&socket), ["epoch_hook:0.000001|ms", "epoch_hook:0.000002|ms"]);
        let raw = std::fs::read_to_string(dir.path().join("raw")).unwrap();
        assert_eq!(raw, "epoch_hook 1\nepoch_hook 2\n");
    }

    #[test]
    fn a_restarted_node_gets_what_the_old_one_did_not() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("sock");
        let mut reporter = reporter(dir.path());
        let first = UnixDatagram::bind(&path).unwrap();
        reporter.report(hook(1)).unwrap();
        assert_eq!(received(&first), ["epoch_hook:0.000001|ms"]);
        drop(first);
        reporter.report(hook(2)).unwrap();
        std::fs::remove_file(&path).unwrap();
        let second = UnixDatagram::bind(&path).unwrap();
        assert_eq!(reporter.finish().unwrap().1, 0);
        assert_eq!(received(&second), ["epoch_hook:0.000002|ms"]);
    }

    #[test]
    fn past_the_bound_samples_are_counted_as_unsent_and_stay_out_of_the_raw_file() {
        let dir = tempfile::tempdir().unwrap();
        let mut reporter = reporter(dir.path());
        for nanos in 0..SAMPLES_MAX as u64 + 5 {
            reporter.report(hook(nanos)).unwrap();
        }
        assert_eq!((reporter.waiting.len(), reporter.unsent), (SAMPLES_MAX, 5));
        let (sent, unsent) = reporter.finish().unwrap();
        assert_eq!((sent, unsent), (Tally::default(), SAMPLES_MAX as u64 + 5));
        assert_eq!(std::fs::read_to_string(dir.path().join("raw")).unwrap(), "");
    }
}
