//! What other systems counted, in the node's ledger and messages.

use plimsoll_schemas::ids::Series;

use super::*;
use crate::core::intake::Reject;
use crate::core::intake::lines::{TimeUnit, ValueUnit};
use crate::core::intake::points::{Buckets, Latencies, Temporality, Value};

/// Reports what a stream has counted since the node began.
fn offer(core: &mut Core, stream: u64, now: Now, counts: &[u64; 3]) -> Result<(), Reject> {
    let series = || Ok(Series::plain(Operation::new("a").unwrap()));
    let buckets = Buckets::Explicit { bounds: &[0.005, 0.018], counts };
    let (count, sum) = (counts.iter().sum(), Some(0.5));
    let (unit, min, max) = (ValueUnit::Time(TimeUnit::Seconds), None, None);
    let value = Value::Latencies(Latencies { unit, count, sum, min, max, buckets });
    let (time, temporality) = (now.wall, Temporality::Cumulative);
    core.on_point(
        now,
        &Point { stream, series: &series, start: start().wall, time, temporality, value },
    )
}

#[test]
fn what_points_add_is_in_the_message_and_the_ledger_of_their_interval() {
    let mut core = core(Bounds::default());
    core.on_bus_event(start(), &connected());
    let mut now = start();
    // Two producers of one operation; the second is silent for an interval.
    for (first, second, new) in
        [([1, 2, 3], Some([0, 0, 4]), 10), ([1, 2, 4], None, 1), ([2, 2, 4], Some([5, 0, 4]), 6)]
    {
        now = now.after(SECOND);
        assert_eq!(offer(&mut core, 1, now, &first), Ok(()));
        assert_eq!(second.map_or(Ok(()), |counts| offer(&mut core, 2, now, &counts)), Ok(()));
        assert_eq!(offer(&mut core, 1, now, &first), Err(Reject::Duplicate));
        core.on_deadline(now);
        let status = core.status();
        assert_eq!(status.totals.recorded, status.intake.samples);
        let snapshots = deliver(&mut core, now);
        // The node's own latencies of publishing are beside them.
        let Some(latency) = snapshots[0].body.latency() else { panic!("{snapshots:?}") };
        let got = latency.histograms.iter().find(|(series, _)| series.to_string() == "a");
        assert_eq!(got.map(|(_, histogram)| histogram.count()), Some(new));
    }
    let status = core.status();
    assert_eq!(status.intake.points.recorded, 5);
    assert_eq!(status.intake.rejected[&Reject::Duplicate], 3);
}
