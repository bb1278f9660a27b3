//! What is shown as stale while a broker, nodes or an operation are silent.

use plimsoll_schemas::summary::{BudgetRow, Freshness};
use plimsoll_schemas::transport::BusEvent;

use super::*;
use crate::core::view::{NoStatistics, StatisticsQuery};

/// The last second in which everything sends.
const SILENT_AT: u32 = 60;
/// When pages are read.
const END: u32 = 89;

/// Who is silent from [`SILENT_AT`] on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Silence {
    Nothing,
    /// Nodes are cut off with the aggregator.
    Broker,
    /// For a second only.
    BrokerBriefly,
    OneNode,
    EveryNode,
    /// Jobs send no samples; nodes report.
    Jobs,
    /// Both nodes have left in order.
    AllLeft,
}

impl Silence {
    fn begins(self) -> u32 {
        if self == Self::BrokerBriefly { END } else { SILENT_AT + 1 }
    }

    fn broker(self) -> &'static str {
        match self {
            Self::Broker | Self::BrokerBriefly => "disconnected",
            _ => "jetstream",
        }
    }
}

fn at(second: u32) -> Now {
    start().after(second * SECOND)
}

fn wall_seconds(second: u32) -> Option<f64> {
    Some(1_700_000_000.0 + f64::from(second))
}

/// Two nodes that take `ms` each second, judged over a minute, up to `end`.
fn mesh(silence: Silence, ms: u64, end: u32) -> Core {
    let mut core = core();
    let mut rules = Rules::clone(core.rules());
    rules.budgets.iter_mut().for_each(|budget| budget.window = Window::OneMinute);
    judge_by(&mut core, rules);
    let mut speakers = ["a", "b"].map(Speaker::new);
    for second in 0..=end {
        let now = at(second);
        let is_silent = second >= silence.begins();
        if is_silent && silence.broker() == "disconnected" {
            core.on_bus_event(now.mono, &BusEvent::Disconnected);
        }

        for (n, speaker) in speakers.iter_mut().enumerate() {
            let message = match silence {
                Silence::Jobs if is_silent => {
                    speaker.message(now, Body::Bus(Bus::default()), false)
                }
                Silence::AllLeft if second == silence.begins() => speaker.final_message(now),
                Silence::Nothing => speaker.send(now, ms * MS, 10),
                Silence::OneNode if n == 0 => speaker.send(now, ms * MS, 10),
                _ if is_silent => continue,
                _ => speaker.send(now, ms * MS, 10),
            };
            deliver(&mut core, now, &message);
        }
        core.on_deadline(now);
    }
    core
}

/// How current the mesh is, and the rows of the budget `epoch_hook`: of the fleet, of `a`, of `b`.
fn shown(core: &Core, silence: Silence, end: u32) -> (Freshness, [BudgetRow; 3]) {
    let query = ViewQuery { fleet: true, nodes: Nodes::All, native: false };
    let summary = core.read_view(at(end).wall, silence.broker()).view(query).summary;
    let rows = summary.budgets.into_iter().filter(|row| row.budget == "epoch_hook");
    (summary.freshness, rows.collect::<Vec<_>>().try_into().unwrap())
}

fn known(second: u32, stale: bool) -> Freshness {
    Freshness { as_of_seconds: wall_seconds(second), stale }
}

#[test]
fn what_is_silent_is_stale_and_never_within() {
    use Verdict::{NoData, Within};
    let (current, old) = (known(END, false), known(SILENT_AT, true));
    let before = |stale| known(END - 1, stale);
    let ended = known(SILENT_AT, false);
    for (silence, mesh_is, fleet_is, b_is, verdicts, reporting) in [
        (Silence::Nothing, current, current, current, [Within, Within], 2),
        (Silence::Broker, old, old, old, [NoData, NoData], 0),
        (Silence::BrokerBriefly, before(true), before(false), before(false), [Within, Within], 2),
        (Silence::OneNode, current, current, old, [Within, NoData], 1),
        (Silence::EveryNode, old, old, old, [NoData, NoData], 0),
        (Silence::AllLeft, known(SILENT_AT + 1, false), ended, ended, [Within, Within], 0),
    ] {
        let core = mesh(silence, 4, END);
        let (freshness, [fleet, _, b]) = shown(&core, silence, END);
        let found = (freshness, fleet.freshness, b.freshness);
        assert_eq!(found, (mesh_is, fleet_is, b_is), "{silence:?}");
        assert!(fleet.samples > 0, "{silence:?}: the window still has samples");
        assert_eq!([fleet.verdict, b.verdict], verdicts, "{silence:?}");
        assert_eq!(fleet.nodes_reporting, reporting, "{silence:?}");
        let pulse = core.pulse(at(END).wall, silence.broker());
        assert_eq!(pulse.freshness, freshness, "{silence:?}");
    }
}

#[test]
fn an_operation_that_ended_has_no_data_and_the_time_of_its_last_sample() {
    let end = SILENT_AT + 70;
    let core = mesh(Silence::Jobs, 4, end);
    let (freshness, [fleet, a, _]) = shown(&core, Silence::Jobs, end);
    assert_eq!(freshness, known(end, false), "nodes report");
    for row in [fleet, a] {
        assert_eq!((row.samples, row.value_ns, row.verdict), (0, None, Verdict::NoData));
        assert_eq!(row.freshness, known(SILENT_AT, false));
    }
}

#[test]
fn silence_ends_no_breach_and_its_figures_are_stale() {
    let core = mesh(Silence::Broker, 36, END);
    let (_, [fleet, a, _]) = shown(&core, Silence::Broker, END);
    for row in [fleet, a] {
        assert_eq!((row.verdict, row.alert), (Verdict::Breach, AlertState::Firing));
        assert_eq!(row.freshness, known(SILENT_AT, true));
    }
}

#[test]
fn statistics_are_stale_with_the_nodes_that_they_are_of() {
    let core = mesh(Silence::OneNode, 4, END);
    let view = core.read_view(at(END).wall, "jetstream");
    let stale = |node: Option<&str>| -> Result<bool, NoStatistics> {
        let operation = Operation::new("epoch_hook").unwrap();
        let node = node.map(|name| name.parse().unwrap());
        let page = view.statistics(&StatisticsQuery { operation, node, window: None })?;
        Ok(page.freshness.stale)
    };
    assert_eq!([stale(None), stale(Some("a")), stale(Some("b"))], [Ok(false), Ok(false), Ok(true)]);
}

#[test]
fn a_mesh_without_nodes_is_not_stale_until_its_broker_is_gone() {
    let core = core();
    let of = |broker| core.pulse(at(END).wall, broker).freshness;
    assert_eq!(of("jetstream"), Freshness::default());
    let gone = Freshness { as_of_seconds: None, stale: true };
    assert_eq!((of("silent"), of("disconnected")), (gone, gone));
}
