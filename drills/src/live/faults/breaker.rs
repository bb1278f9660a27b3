//! A stream refuses every message: the breaker of each node opens, a probe finds the stream full,
//! and closes it once there is room. The alert `breaker_open` fires, arrives and clears, and no
//! sample is lost.

use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use plimsoll_mesh::jetstream::JetStreamAdmin;
use plimsoll_mesh::stack::StackOptions;
use plimsoll_schemas::alert::Scope;
use plimsoll_schemas::ids::MeshName;
use plimsoll_schemas::subject::{Lane, lane_stream};

use crate::live::account::Terms;
use crate::live::alerts::ProvokedAlert;
use crate::live::expectation::{Drill, Expectation, Look, Span};
use crate::live::mesh_name::MESH;
use crate::live::report::Report;
use crate::live::rig::{Rig, words};
use crate::live::settings::{busy, no_budgets_but, planted_miss};
use crate::live::tally::of_nodes;

const RULE: &str = "breaker_open";
/// The shipped rule waits until a breaker opens again and again; this one fires at the first.
const SOON: &str = "[[rule]]\nname = \"breaker_open\"\nfor = 1\n";
const NODES: usize = 2;
const OPEN: &str = "plimsoll_agent_breaker_state{state=\"open\"}";
const CLOSED: &str = "plimsoll_agent_breaker_state{state=\"closed\"}";
/// Three refusals, one after the other.
const OPEN_WAIT: Duration = Duration::from_secs(30);
/// Longer than an open breaker lasts, so that a probe is refused too.
const FULL: Duration = Duration::from_secs(35);
/// An open breaker lasts 30 s.
const CLOSE_WAIT: Duration = Duration::from_secs(45);
const FIRE_WAIT: Duration = Duration::from_secs(45);
/// A pause is known for two minutes, and five evaluations must pass.
const CLEAR_WAIT: Duration = Duration::from_secs(180);
/// What a stream holds without this drill.
const ROOMY_BYTES: u64 = 1 << 30;

pub(super) async fn refused(mut drill: Drill, dir: &Path) -> Result<Report> {
    let planted = planted_miss(&mut drill, RULE);
    let rule = if planted.is_empty() { SOON } else { &planted };
    let aggregator_settings = format!("{}{rule}", no_budgets_but(""));
    let options = StackOptions { nodes: NODES, aggregator_settings, ..busy(dir)? };
    Rig::run(drill, options, Terms::NOTHING, disturb).await
}

async fn disturb(rig: &mut Rig) -> Result<()> {
    let base = rig.merged().await?;
    let mut admin = JetStreamAdmin::connect(&rig.stack.broker().url())?;
    let mesh_name = MeshName::new(MESH)?;
    let streams = Lane::ALL.map(|lane| lane_stream(&mesh_name, lane, None));

    for stream in &streams {
        let full = admin.bytes(stream)?.max(1);
        admin.set_limit(stream, full, "new")?;
    }

    let full = rig.drill.elapsed();
    expect_state(rig, "breakers open", OPEN, Span { since: full, within: OPEN_WAIT }).await;
    rig.pass("the streams are full", FULL).await;
    for stream in &streams {
        admin.set_limit(stream, ROOMY_BYTES, "old")?;
    }
    let roomy = rig.drill.elapsed();
    expect_state(rig, "breakers close", CLOSED, Span { since: roomy, within: CLOSE_WAIT }).await;

    let alert = |scope| ProvokedAlert::of_rule(RULE, scope);
    let mut alerts: Vec<_> = rig.nodes().iter().cloned().map(Scope::Node).map(alert).collect();
    // Reports of an open breaker may only arrive once it has closed.
    let within = roomy.saturating_sub(full) + FIRE_WAIT;
    rig.expect_fired(&mut alerts, Span { since: full, within }).await;
    rig.expect_cleared(&alerts, Span { since: roomy, within: CLEAR_WAIT }).await;
    rig.expect_recovery(&base, rig.drill.elapsed()).await;
    Ok(())
}

/// Waits until the page of every node shows this state of its breaker.
async fn expect_state(rig: &mut Rig, name: &str, series: &str, span: Span) {
    let expectation = Expectation::new(
        name,
        format!("{series} is 1 on every node within {}", words(span.within)),
    );
    let look = async || -> Result<Look> {
        let states = of_nodes(&rig.stack, series).await?;
        Ok(Look::new(states.iter().all(|state| *state == 1.0), format!("{states:?}")))
    };
    rig.drill.expect(expectation, span, look).await;
}
