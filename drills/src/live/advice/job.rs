//! A job that computes and then stores rows in a database, turn by turn, and commits as many rows
//! at a time as its configuration states. Notes every latency that its socket has taken.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use plimsoll_clock::{Deadline, Stopwatch};
use plimsoll_mesh::statsd::StatsdSender;
use plimsoll_schemas::random::SplitMix64;
use redb::{Database, TableDefinition};
use serde_json::Value;

pub(super) const TURN: &str = "turn";
/// The key of its configuration.
pub(super) const BATCH: &str = "db_batch_size";
/// Rows of a turn.
pub(super) const ROWS: u64 = 20;
/// The file stays small: later rows replace earlier ones.
const ROWS_KEPT: u64 = 10_000;
const INFER_US: u64 = 5_000;
const VARIES_US: u64 = 1_000;
const NS_PER_US: u64 = 1_000;
const TABLE: TableDefinition<'_, u64, u64> = TableDefinition::new("rows");

/// Operation and nanoseconds of each.
type Samples = Vec<(String, u64)>;

/// A thread that makes turns until it is stopped.
pub(super) struct Job {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Result<Samples>>,
}

struct Work {
    run: String,
    batch: u64,
    database: Database,
    link: StatsdSender,
    random: SplitMix64,
    row: u64,
}

impl Job {
    pub(super) fn start(run: &str, config: &Path, database: &Path, socket: &Path) -> Result<Self> {
        let config: Value = serde_json::from_str(&std::fs::read_to_string(config)?)?;
        let batch = config["job"][BATCH].as_u64().context("the configuration has no batch")?;
        let mut work = Work {
            run: run.to_owned(),
            batch: batch.max(1),
            database: Database::create(database)?,
            link: StatsdSender::unix(socket)?,
            random: SplitMix64(1),
            row: 0,
        };

        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = std::thread::Builder::new().name("job".to_owned()).spawn(move || {
            let mut sent = Vec::new();
            while !stopped.load(Ordering::Relaxed) {
                work.turn(&mut sent)?;
            }
            Ok(sent)
        })?;
        Ok(Self { stop, thread })
    }

    /// Stops it after the turn that it makes; returns the samples that it has sent.
    pub(super) fn stop(self) -> Result<Samples> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().map_err(|_| anyhow!("the job panicked"))?
    }
}

impl Work {
    fn turn(&mut self, sent: &mut Samples) -> Result<()> {
        let span = Duration::from_micros(INFER_US + self.random.bits() % VARIES_US);
        let watch = Stopwatch::start();
        let _over = Deadline::within(span).pause(span);
        let infer = micros(&watch);
        self.store()?;
        let turn = micros(&watch);

        let run = &self.run;
        for (operation, class, us) in [
            (TURN.to_owned(), "", turn),
            (format!("{TURN}.infer"), ",class:llm", infer),
            (format!("{TURN}.store"), ",class:database", turn - infer),
        ] {
            let (ms, rest) = (us / 1_000, us % 1_000);
            self.link.send(format!("{operation}:{ms}.{rest:03}|ms|#run:{run}{class}"))?;
            sent.push((operation, us * NS_PER_US));
        }
        self.link.send(format!("{TURN}.rows:{ROWS}|c|#run:{run}"))
    }

    /// Stores the rows of a turn, a batch in each transaction.
    fn store(&mut self) -> Result<()> {
        let mut left = ROWS;
        while left > 0 {
            let rows = left.min(self.batch);
            let transaction = self.database.begin_write()?;
            let mut table = transaction.open_table(TABLE)?;
            for _ in 0..rows {
                self.row += 1;
                table.insert(self.row % ROWS_KEPT, self.row)?;
            }
            drop(table);
            transaction.commit()?;
            left -= rows;
        }
        Ok(())
    }
}

fn micros(watch: &Stopwatch) -> u64 {
    u64::try_from(watch.elapsed().as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixDatagram;

    use redb::{ReadableDatabase, ReadableTableMetadata};

    use super::*;

    #[test]
    fn a_turn_stores_its_rows_and_sends_what_it_took() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        let node = UnixDatagram::bind(at("sock")).unwrap();
        node.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        std::fs::write(at("job.json"), r#"{"job": {"db_batch_size": 7}}"#).unwrap();

        let job = Job::start("v1", &at("job.json"), &at("db"), &at("sock")).unwrap();
        let read = || {
            let mut buffer = [0; 256];
            let length = node.recv(&mut buffer).unwrap();
            String::from_utf8(buffer[..length].to_vec()).unwrap()
        };
        let lines: Vec<String> = (0..4).map(|_| read()).collect();
        assert!(lines[0].starts_with("turn:") && lines[0].ends_with("|ms|#run:v1"), "{lines:?}");
        assert!(lines[2].ends_with("|ms|#run:v1,class:database"), "{lines:?}");
        assert_eq!(lines[3], "turn.rows:20|c|#run:v1");
        job.stop.store(true, Ordering::Relaxed);
        // The socket's queue is short.
        let reader = std::thread::spawn(move || while node.recv(&mut [0; 256]).is_ok() {});
        let sent = job.stop().unwrap();
        drop(reader);

        let turns = sent.iter().filter(|(operation, _)| operation == TURN).count();
        assert_eq!(sent.len(), 3 * turns);
        let database = Database::open(at("db")).unwrap();
        let table = database.begin_read().unwrap().open_table(TABLE).unwrap();
        assert_eq!(table.len().unwrap(), ROWS * turns as u64);
    }
}
