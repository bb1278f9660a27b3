//! The broker is down for as many intervals as ten minutes have, under a load that compresses
//! badly. The node must merge what it holds instead of growing, and lose none of it.
//!
//! Ten minutes pass in one, with intervals of 100 ms, the shortest that a node takes.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use plimsoll_mesh::stack::StackOptions;
use plimsoll_node::limits::{COALESCE_BYTES, COALESCE_MESSAGES};

use super::feeder::{Feeder, wide};
use super::memory::{Curve, Watch, mib};
use crate::live::account::Terms;
use crate::live::expectation::{Drill, Expectation, Look};
use crate::live::report::Report;
use crate::live::rig::Rig;
use crate::live::settings::busy;
use crate::live::tally::metric;
use crate::processes::usage;

const SETTINGS: &str = "[interval]\nlength_ms = 100\n";
/// 600 intervals of 100 ms.
const AWAY: Duration = Duration::from_secs(60);
const MESSAGES: &str = "plimsoll_agent_outbox_messages";
const BYTES: &str = "plimsoll_agent_outbox_bytes";
/// Messages above the mark at which merging begins: those of one interval, and one being merged.
const MESSAGES_SLACK: usize = 8;
/// Held bytes are counted as they would be sent. Twice that much may be resident: while the parts
/// of a message are merged, both are in memory, and freed memory returns to the system in pages.
const RESIDENT_FACTOR: u64 = 2;
/// From the middle of the outage to its end memory may fluctuate, and not grow. What follows, when
/// hundreds of messages are on their way at once, is held to the bound above only.
const WAVER_MAX: u64 = 4 * 1024 * 1024;

pub(super) async fn absent(drill: Drill, dir: &Path) -> Result<Report> {
    let options = StackOptions { nodes: 1, node_settings: SETTINGS.to_owned(), ..busy(dir)? };

    let disturb = async |rig: &mut Rig| -> Result<()> {
        let base = rig.merged().await?;
        let station = &rig.stack.stations()[0];
        let (id, api, socket) = (station.node_id(), station.api.clone(), station.socket.clone());
        let before = usage(id).context("the node is gone")?.resident_bytes;

        rig.stack.broker().kill();
        let gone = rig.drill.elapsed();
        let (feeder, watch) = (Feeder::begin(&socket, wide)?, Watch::begin(id));
        rig.pass("the broker is away", AWAY).await;
        let held =
            Held { messages: metric(&api, MESSAGES).await?, bytes: metric(&api, BYTES).await? };
        rig.fed.insert(rig.nodes()[0].clone(), feeder.end()?);
        rig.stack.broker().restart().await?;
        rig.expect_recovery(&base, rig.drill.elapsed()).await;

        let curve = watch.end().await?;
        curve.write(&dir.join("resident.csv"))?;
        judge_held(&mut rig.drill, gone, &held);
        judge_resident(&mut rig.drill, gone, before, &curve);
        Ok(())
    };

    Rig::run(drill, options, Terms::NOTHING, disturb).await
}

/// What a node's outbox holds, by its page.
struct Held {
    messages: f64,
    bytes: f64,
}

fn judge_held(drill: &mut Drill, since: Duration, held: &Held) {
    let Held { messages, bytes } = *held;
    let messages_max = COALESCE_MESSAGES + MESSAGES_SLACK;
    let expectation = Expectation::new(
        "holds no more than it may",
        format!("at most {messages_max} messages and {COALESCE_BYTES} bytes after 600 intervals"),
    );
    #[expect(clippy::cast_precision_loss, reason = "bounds far below 2^52")]
    let met = messages <= messages_max as f64 && bytes <= COALESCE_BYTES as f64;
    drill.judge(expectation, since, Look::new(met, format!("{messages} messages, {bytes} bytes")));
}

fn judge_resident(drill: &mut Drill, since: Duration, before: u64, curve: &Curve) {
    let bound = before + RESIDENT_FACTOR * COALESCE_BYTES as u64;
    let (peak, drawn) = (curve.peak(), curve.drawn());

    let expectation = Expectation::new(
        "memory stays within its bound",
        format!("at most {}: {} before, and what may be held, twice", mib(bound), mib(before)),
    );

    let seen = format!("peak {}, {drawn}, in resident.csv", mib(peak));
    drill.judge(expectation, since, Look::new(peak <= bound, seen));
    let (middle, end) = curve.until(AWAY).later_thirds();

    let expectation = Expectation::new(
        "memory is level",
        format!("the last third at most {} above the one before", mib(WAVER_MAX)),
    );

    let seen = format!("{} after {}", mib(end), mib(middle));
    drill.judge(expectation, since, Look::new(end <= middle + WAVER_MAX, seen));
}
