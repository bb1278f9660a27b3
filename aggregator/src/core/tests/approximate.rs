//! Samples that are known by their producers' wide buckets alone: what is shown of them, what
//! alerts make of them, and that exact ones show nothing of it.

use plimsoll_schemas::alert::{Evidence, Notification};
use plimsoll_schemas::histogram::layout;
use plimsoll_schemas::summary::{BudgetRow, OperationRow, Quantiles};

use super::*;
use crate::exposition::{Format, PageOptions, ServingStats, page};

/// This many samples over one value and up to another, in milliseconds.
fn within(buckets: &[(u64, u64, u64)]) -> Histogram {
    let mut samples = Histogram::default();
    samples.watch(&[18 * MS]);
    for (over, upto, n) in buckets {
        samples.record_within(over * MS, upto * MS, *n);
    }
    samples
}

fn row(core: &Core, now: Now, operation: &str) -> OperationRow {
    let rows = core.view(now.wall, "test").summary.operations;
    rows.into_iter().find(|row| row.operation == operation).expect("it is an operation")
}

fn budget(core: &Core, now: Now) -> BudgetRow {
    core.view(now.wall, "test").summary.budgets.remove(0)
}

fn shown(core: &Core, now: Now) -> String {
    let shown = PageOptions { budgets: &core.rules().budgets, aliases: true };
    let view = core.view(now.wall, "test");
    String::from_utf8(page(&view, shown, &ServingStats::default(), Format::Text)).unwrap()
}

fn p99(of: &Quantiles) -> (u64, u64, u64) {
    let (low, high) = of.approximate.expect("it is approximate").p99_ns;
    (low, of.p99_ns.unwrap(), high)
}

#[test]
fn quantiles_are_shown_with_what_they_lie_between_and_exact_ones_without() {
    let mut core = core();
    let mut speaker = Speaker::new("a");
    let samples = within(&[(5, 10, 50), (10, 25, 50)]);
    deliver(&mut core, start(), &speaker.send_samples(start(), &["epoch_hook"], &samples));
    let mut exact = Histogram::default();
    exact.record_n(7 * MS, 100);
    deliver(&mut core, start(), &speaker.send_samples(start(), &["publish"], &exact));
    let of = row(&core, start(), "epoch_hook");
    let (low, value, high) = p99(&of.windows[&Window::TenSeconds].quantiles);
    assert_eq!([low, high].map(layout::index_of), [10 * MS + 1, 25 * MS].map(layout::index_of));
    assert!(low <= value && value <= high);
    assert_eq!(p99(&of.total), (low, value, high));
    let publish = row(&core, start(), "publish");
    assert!(publish.windows.values().all(|of| of.quantiles.approximate.is_none()));
    let page = shown(&core, start());
    let marked: Vec<_> =
        page.lines().filter(|line| line.starts_with("plimsoll_operation_approximate{")).collect();
    assert_eq!(
        marked,
        [
            r#"plimsoll_operation_approximate{scope="fleet",node="",operation="epoch_hook"} 1"#,
            r#"plimsoll_operation_approximate{scope="node",node="a",operation="epoch_hook"} 1"#,
        ]
    );
    for name in ["p50_low", "p50_high", "p99_low", "p99_high"] {
        let of = |line: &&str| line.starts_with(&format!("plimsoll_latency_{name}_seconds{{"));
        assert!(page.lines().any(|line| of(&line)), "{name}");
        assert!(page.lines().filter(of).all(|line| line.contains("epoch_hook")), "{name}");
    }
}

#[test]
fn approximate_marks_expire_with_the_windows_that_held_them() {
    let mut core = core();
    let mut speaker = Speaker::new("a");
    let samples = within(&[(10, 25, 50)]);
    deliver(&mut core, start(), &speaker.send_samples(start(), &["epoch_hook"], &samples));
    let is_marked = |core: &Core, now| shown(core, now).contains("plimsoll_operation_approximate");
    assert!(is_marked(&core, start()));
    for (seconds, window) in [(60, Window::TenSeconds), (2_592_000 + 86_400, Window::ThirtyDays)] {
        let now = start().after(seconds * SECOND);
        core.on_deadline(now);
        deliver(&mut core, now, &speaker.send(now, 3 * MS, 200));
        let of = row(&core, now, "epoch_hook");
        let figures = &of.windows[&window].quantiles;
        assert_eq!((figures.count, figures.approximate), (200, None));
        assert!(of.total.approximate.is_some(), "all time keeps everything");
        assert_eq!(is_marked(&core, now), window != Window::ThirtyDays);
    }
}

/// Sends a core the same samples for some seconds; returns its notifications.
fn notified_after(core: &mut Core, samples: &Histogram) -> Vec<Notification> {
    let (mut speaker, mut sent) = (Speaker::new("a"), Vec::new());
    for second in 1..10 {
        let now = start().after(second * SECOND);
        deliver(core, now, &speaker.send_samples(now, &["epoch_hook"], samples));
        core.on_deadline(now);
        while let Some(DueNotification { token, notification, .. }) =
            core.notifications().next_due(now.mono)
        {
            sent.push(notification);
            core.notifications().on_delivered(token);
        }
    }
    sent
}

#[test]
fn a_bucket_that_the_limit_divides_is_no_breach_and_no_proof_of_its_absence() {
    let mut core = core();
    assert_eq!(notified_after(&mut core, &within(&[(10, 25, 1_000)])), []);
    let row = budget(&core, start().after(9 * SECOND));
    assert_eq!((row.over, row.uncertain, row.samples), (0, 9_000, 9_000));
    let (least, most) = row.within_ns.unwrap();
    assert!(least <= 18 * MS && 18 * MS < most);
    assert!(row.lower_ns.unwrap() <= 18 * MS && row.upper_ns.unwrap() > 18 * MS);
}

#[test]
fn a_breach_that_edges_prove_fires_and_its_evidence_states_the_bounds() {
    let mut core = core();
    let sent = notified_after(&mut core, &within(&[(5, 10, 50), (25, 50, 50)]));
    let firing = sent.iter().find(|of| of.state == AlertState::Firing).expect("it fires");
    let Evidence::Latency(evidence) = &firing.evidence else { panic!("{:?}", firing.evidence) };
    let (least, most) = evidence.within_seconds.unwrap();
    assert!(least > 0.018 && (0.024..0.025001).contains(&least) && (0.05..0.0501).contains(&most));
    assert!((least..=most).contains(&evidence.value_seconds));
    assert_eq!(evidence.uncertain, 0);
}
