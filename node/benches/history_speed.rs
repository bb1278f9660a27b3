//! Time in which a node answers for an hour of one operation by the second from its own history,
//! and what a day of that history takes on disk. The aggregator's part is in its own benchmark.
//!
//! `cargo bench -p plimsoll-node --bench history_speed`

use std::time::Duration;

use anyhow::{Result, ensure};
use bytes::Bytes;
use plimsoll_clock::{Clock, Stopwatch};
use plimsoll_node::core::Identity;
use plimsoll_node::core::history::{HistoryBounds, Record};
use plimsoll_node::io::history::History;
use plimsoll_schemas::histogram::Histogram;
use plimsoll_schemas::ids::{Incarnation, Labels, MeshName, NodeName, Operation, Seq, Series};
use plimsoll_schemas::subject::SnapshotKind;
use plimsoll_schemas::time::Wall;
use plimsoll_schemas::wire::history::{HistoryOf, HistoryRequest, HistoryResponse};
use plimsoll_schemas::wire::{Body, Bus, Header, Interval, Latency, Snapshot, Totals, encode};

const SECOND: u64 = 1_000_000_000;
const BEGIN: u64 = 1_700_000_000;
const HOUR: u64 = 3_600;
/// Samples of each of three operations a second.
const SAMPLES: u64 = 100;
const OPERATIONS: [(&str, u64); 3] =
    [("epoch_hook", 9_000_000), ("kernel_fetch", 4_000_000), ("publish", 2_000_000)];
const ROUNDS: usize = 5;
const MILLISECONDS_MAX: f64 = 300.0;
const MIB: f64 = 1_048_576.0;

fn main() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(measure(dir.path()))
}

async fn measure(dir: &std::path::Path) -> Result<()> {
    let (mesh, node) = (MeshName::new("m")?, NodeName::new("n1")?);
    let identity = Identity { mesh, node, labels: Labels::default() };
    let bounds = HistoryBounds { age_max: Duration::MAX, bytes_max: u64::MAX };
    let mut history = History::start(dir, &identity, bounds, Clock::start())?;
    for second in 0..HOUR {
        let record = record(&identity, second)?;
        history.write(record, Wall((BEGIN + second) * SECOND));
        while history.stats().written <= second {
            tokio::task::yield_now().await;
        }
    }
    let bytes = history.stats().bytes as f64;
    println!("MiB a day, three operations   {:.1}", bytes / MIB * 24.0);
    let mut took = Vec::new();
    for _ in 0..ROUNDS {
        took.push(hour(&mut history).await?);
    }
    took.sort_by(f64::total_cmp);
    let median = took[ROUNDS / 2];
    println!("ms for an hour by the second  {median:.0} (at most {MILLISECONDS_MAX})");
    history.end(Duration::from_secs(10)).await;
    ensure!(median <= MILLISECONDS_MAX, "the target is missed");
    Ok(())
}

/// Milliseconds until all parts of an hour are answered and decoded.
async fn hour(history: &mut History) -> Result<f64> {
    let watch = Stopwatch::start();
    let mut request = HistoryRequest {
        number: 1,
        asker: "a".to_owned(),
        of: HistoryOf::Latency {
            operation: Operation::new(OPERATIONS[0].0)?,
            labels: Labels::default(),
        },
        range: Wall(BEGIN * SECOND)..Wall((BEGIN + HOUR + 1) * SECOND),
        step_ns: SECOND,
    };
    let mut samples = 0;
    while request.range.start < request.range.end {
        history.request(Bytes::from(request.encode()), usize::MAX);
        let answer = history.answer().await;
        let response = HistoryResponse::decode(&request, &answer.payload)?;
        let counted = response.slots.iter().filter_map(|slot| slot.samples.as_ref());
        samples += counted.map(|samples| samples.exact().count).sum::<u64>();
        request.range.end = response.from;
    }
    ensure!(samples == HOUR * SAMPLES, "{samples} samples were found");
    Ok(watch.elapsed().as_secs_f64() * 1e3)
}

/// What a node seals in a second.
fn record(identity: &Identity, second: u64) -> Result<Record> {
    let histogram = |(name, median): &(&str, u64)| {
        let mut samples = Histogram::default();
        for n in 0..SAMPLES {
            samples.record(median * (80 + (second * 7 + n * 13) % 50) / 100);
        }
        let series = Series { operation: Operation::new(name)?, labels: Labels::default() };
        Ok((series, samples))
    };
    let histograms = OPERATIONS.iter().map(histogram).collect::<Result<Vec<_>>>()?;
    let latency = Latency { histograms, counters: Vec::new(), gauges: Vec::new() };
    let header = Header {
        node: identity.node.clone(),
        incarnation: Incarnation(7),
        seq: Seq(second + 1),
        start: Wall((BEGIN + second) * SECOND),
        length_ns: SECOND,
        totals: Totals { recorded: (second + 1) * 3 * SAMPLES, ..Totals::default() },
        last: false,
        successor: None,
        labels: Labels::default(),
    };
    let (latency, bus) = (Some(latency), Some(Bus::default()));
    let body = Body::Interval(Interval { latency, bus, hardware: None, event: None });
    let end = header.start.plus(Duration::from_secs(1));
    let message = encode(&Snapshot { header, body });
    let (kind, message) = (SnapshotKind::Interval, Bytes::from(message));
    Ok(Record { end, length_ns: SECOND, kind, message })
}
