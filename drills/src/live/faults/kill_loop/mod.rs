//! A node with a spool, also on a full disk, is killed (SIGKILL) at random moments while clients
//! send numbered samples as frames and as OTLP, and note what was answered. Afterwards the sets are
//! compared: each answered sample is merged once, or within the count that the ledger names as lost
//! in a crash.
//!
//! Every sample has a bucket of its own, so that what the node published is a set of samples and
//! not a count: a sample that was doubled and another that vanished do not cancel out.
//!
//! DESIGN D17.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use plimsoll_clock::{Deadline, Stopwatch};
use plimsoll_mesh::child::free_port;
use plimsoll_mesh::stack::StackOptions;
use plimsoll_runtime::client::Api;
use plimsoll_schemas::own_operations::OWN_LOST;
use plimsoll_schemas::summary::{Ledger, Summary};

use super::disk::Disk;
use crate::live::expectation::{Drill, Expectation, Look, Span};
use crate::live::report::Report;
use crate::live::rig::{Rig, look};
use crate::live::settings::options;
use crate::sim::rng::Rng;

mod book;
mod clients;
mod tap;

use book::{Book, Sets, SharedBook};
use clients::Clients;
use tap::Tap;

/// How long a node lives between two kills, in milliseconds: from a fraction of an interval to two.
const LIFE_MS: std::ops::RangeInclusive<u64> = 100..=2_000;
/// Answered samples that show that clients were served at all.
const ANSWERED_MIN: u64 = 1_000;
const CLOSE_WAIT: Duration = Duration::from_secs(40);
/// Samples that a planted miss counts as answered although nothing sent them: far more than crashes
/// cost.
const PHANTOMS: u64 = 1_000_000;

/// Kills for `span`, at moments drawn from `seed`.
pub(super) async fn kill_loop(
    drill: Drill,
    dir: &Path,
    span: Duration,
    seed: u64,
) -> Result<Report> {
    kill_loop_with(drill, dir, None, span, seed).await
}

/// The same with spools on a disk that is full from the start on: no incarnation leaves a spool
/// file.
pub(super) async fn kill_loop_full(
    mut drill: Drill,
    dir: &Path,
    span: Duration,
    seed: u64,
) -> Result<Report> {
    std::fs::create_dir_all(dir)?;
    let Some(disk) = Disk::mount_or_skip(&mut drill, dir) else {
        return Ok(Report::new(&drill));
    };
    kill_loop_with(drill, dir, Some(&disk), span, seed).await
}

async fn kill_loop_with(
    drill: Drill,
    dir: &Path,
    full: Option<&Disk>,
    span: Duration,
    seed: u64,
) -> Result<Report> {
    let stream = std::path::absolute(dir)?.join("node-1.stream");
    let otlp = format!("127.0.0.1:{}", free_port()?);
    let usual = options(dir)?;

    let options = StackOptions {
        nodes: 1,
        workload: None,
        spools: full.map(|disk| disk.path().to_owned()).or(usual.spools.clone()),
        node_settings: format!(
            "[listen]\nstream = {stream:?}\n[otlp]\nhttp = \"{otlp}\"\n\
             [[otlp.span]]\nname = \"{}*\"\n",
            book::PREFIX
        ),
        ..usual
    };

    let mut rig = Rig::start(drill, options).await?;
    let book = SharedBook::default();
    let tap = Tap::open(rig.stack.broker().url(), &book).await?;
    let clients = Clients::start(stream, Api::at(&otlp)?, &book);

    let killed = match full {
        None => kill_repeatedly(&mut rig, span, seed).await,
        Some(disk) => tokio::select! {
            killed = kill_repeatedly(&mut rig, span, seed) => killed,
            Err(error) = disk.keep_full() => Err(error),
        },
    };

    clients.end().await;
    if rig.drill.take_planted_miss() {
        book.with(|book| book.plant(PHANTOMS));
    }
    judge_kills(&mut rig.drill, &killed);

    let summary = rig.drain(killed.map(drop)).await;
    tap.end().await;

    let summary = match summary {
        Ok(_) => settled(&mut rig).await,
        failed => failed,
    };

    judge_sets(&mut rig.drill, book.with(Book::sets), summary);
    Ok(rig.end().await)
}

/// Kills the node until the time is over, and starts it again each time.
async fn kill_repeatedly(rig: &mut Rig, span: Duration, seed: u64) -> Result<u32> {
    let (mut rng, end) = (Rng::new(seed, 1), Deadline::within(span));
    let (mut kills, since) = (0, Stopwatch::start());
    while !end.has_passed() {
        tokio::time::sleep(Duration::from_millis(rng.within(LIFE_MS))).await;
        rig.stack.kill_node(0);
        kills += 1;
        rig.stack.launch_node(0)?;
        rig.stack.await_readiness().await.context("after a kill")?;
        if kills % 20 == 0 {
            eprintln!("{} kills in {} s", kills, since.elapsed().as_secs());
        }
    }
    Ok(kills)
}

/// Waits until nothing of any incarnation is open: an aggregator closes an incarnation that left no
/// spool some time after its end.
async fn settled(rig: &mut Rig) -> Result<Summary> {
    let words = format!("nothing is held or unaccounted within {} s", CLOSE_WAIT.as_secs());
    let span = Span { since: rig.drill.elapsed(), within: CLOSE_WAIT };
    let settled = |ledger: &Ledger| Look::new(ledger.is_settled(), format!("{ledger:?}"));
    let look = async || look(&rig.stack, |summary| settled(&summary.ledger)).await;
    rig.drill.expect(Expectation::new("settled", words), span, look).await;
    rig.stack.api().summary().await
}

fn judge_kills(drill: &mut Drill, killed: &Result<u32>) {
    let expectation = Expectation::new("killed", "the node is killed at least twice");
    let kills = killed.as_ref().map_or(0, |kills| *kills);
    let look = Look { met: kills >= 2, ..Look::of(killed, &format!("{kills} times")) };
    drill.judge(expectation, Duration::ZERO, look);
}

fn judge_sets(drill: &mut Drill, sets: Sets, summary: Result<Summary>) {
    let since = drill.elapsed();
    let answered = format!("at least {ANSWERED_MIN} samples are answered");

    let expectations = [
        ("clients were answered", answered.as_str()),
        ("none doubled", "no sample is published twice, and none that was not sent"),
        ("merged is what was published", "the aggregator merged exactly that set"),
        (
            "none unnamed",
            "each answered sample is merged, or within what the ledger names as lost in a crash",
        ),
        ("no other loss", "nothing held or unaccounted, and no reason but crash"),
    ];

    let looks = match summary {
        Ok(summary) => looks(sets, &summary),
        Err(error) => [(); 5].map(|()| Look::new(false, format!("{error:#}"))),
    };

    for ((name, expected), look) in expectations.into_iter().zip(looks) {
        drill.judge(Expectation::new(name, expected), since, look);
    }
}

fn looks(sets: Sets, summary: &Summary) -> [Look; 5] {
    let Sets { sent, answered, published, doubled, unknown, missing } = sets;

    let counts = summary
        .operations
        .iter()
        .filter(|row| row.scope.node().is_empty() && row.operation.starts_with(book::PREFIX));

    let merged: u64 = counts.map(|row| row.total.count).sum();
    let ledger = &summary.ledger;
    let crash = ledger.lost.get("crash").copied().unwrap_or(0);
    let others =
        ledger.lost.iter().filter(|(reason, _)| !["crash", OWN_LOST].contains(&&***reason));
    let others: u64 = others.map(|(_, n)| n).sum();
    let open = ledger.held + ledger.unaccounted + ledger.unread;

    [
        Look::new(answered >= ANSWERED_MIN, format!("{answered} answered of {sent} sent")),
        Look::new(
            doubled == 0 && unknown == 0,
            format!("{published} published, {doubled} twice, {unknown} of them never sent"),
        ),
        Look::new(merged == published, format!("{merged} merged, {published} published")),
        Look::new(
            missing <= crash,
            format!(
                "{missing} answered samples are not merged, {crash} are named: {} unnamed",
                missing.saturating_sub(crash)
            ),
        ),
        Look::new(open == 0 && others == 0, format!("{open} open, lost {:?}", ledger.lost)),
    ]
}
