//! Silences and acknowledgements over time, by table.

use AlertState::{Firing, Pending, Resolved};
use plimsoll_schemas::alert::{Scope, SilenceMatch};
use plimsoll_schemas::ids::{NodeName, Operation, RuleName};
use plimsoll_schemas::wire::silences::SharedSilences;

use super::*;

/// Seconds.
fn at(seconds: u64) -> Wall {
    Wall(1_000_000_000 * (1_000 + seconds))
}

fn key(node: &str) -> AlertKey {
    AlertKey {
        rule: RuleName::new("epoch_hook").unwrap(),
        scope: Scope::Node(NodeName::new(node).unwrap()),
        operation: Operation::new("epoch_hook").unwrap(),
    }
}

fn silence(matches: &str, from: u64, until: u64) -> Silence {
    let matches: SilenceMatch = serde_json::from_str(matches).unwrap();
    let (by, comment) = ("ann".to_owned(), "new disks".to_owned());
    Silence { matches, by, comment, from: at(from), until: at(until) }
}

fn acknowledgement(until: u64) -> Acknowledgement {
    Acknowledgement { by: "bob".to_owned(), comment: String::new(), until: at(until) }
}

/// What happens at one second.
#[derive(Clone, Copy, Debug)]
enum Happens {
    Moves(AlertState),
    Silence(&'static str, u64),
    End(u64),
    Acknowledge(u64),
    Unacknowledge,
}

/// Its name, what happens, and the notifications that receivers are sent.
type Case = (&'static str, &'static [(u64, Happens)], &'static [(u64, AlertState)]);

/// Plays thirty seconds. Returns the seconds at which receivers are notified of one alert on node
/// n1, each with the alert's state.
fn got(story: &[(u64, Happens)]) -> Vec<(u64, AlertState)> {
    let (mut silences, mut state, mut got) = (Silences::default(), AlertState::Inactive, vec![]);
    for second in 0..30 {
        for (_, happens) in story.iter().filter(|(when, _)| *when == second) {
            match happens {
                Moves(to) => {
                    let change = Change { from: std::mem::replace(&mut state, *to), to: *to };
                    let of = silences.on_change(at(second), &key("n1"), Severity::Warning, change);
                    if !of.silenced {
                        got.push((second, *to));
                    }
                }
                Happens::Silence(matches, until) => {
                    silences.add(at(second), silence(matches, second, *until)).unwrap();
                }
                End(id) => assert!(silences.end(*id)),
                Acknowledge(until) => silences
                    .acknowledge(at(second), key("n1"), state, acknowledgement(*until))
                    .unwrap(),
                Unacknowledge => assert!(silences.unacknowledge(&key("n1"))),
            }
        }
        silences.expire(at(second));
        let firing =
            |of: &AlertKey| (*of == key("n1") && state == Firing).then_some(Severity::Warning);
        got.extend(silences.take_due(at(second), firing).iter().map(|_| (second, Firing)));
    }
    got
}

const FIRED: Change = Change { from: Pending, to: Firing };
const ENDED: Change = Change { from: Firing, to: Resolved };

use Happens::{Acknowledge, End, Moves, Unacknowledge};

const N1: &str = r#"{"node":"n1"}"#;
const ELSEWHERE: &str = r#"{"node":"n2"}"#;
const FIRES: Happens = Moves(Firing);
const RESOLVES: Happens = Moves(Resolved);

const CASES: &[Case] = &[
    ("no silence", &[(3, FIRES), (9, RESOLVES)], &[(3, Firing), (9, Resolved)]),
    (
        "a silence about others",
        &[(0, Happens::Silence(ELSEWHERE, 20)), (3, FIRES), (9, RESOLVES)],
        &[(3, Firing), (9, Resolved)],
    ),
    (
        "silent from begin to end",
        &[(0, Happens::Silence(N1, 20)), (1, Moves(Pending)), (3, FIRES), (9, RESOLVES)],
        &[],
    ),
    (
        "the silence ends first",
        &[(0, Happens::Silence(N1, 6)), (3, FIRES), (9, RESOLVES)],
        &[(6, Firing), (9, Resolved)],
    ),
    (
        "of two silences the last that ends counts",
        &[
            (0, Happens::Silence(N1, 6)),
            (1, Happens::Silence(r#"{"rule":"epoch_*"}"#, 8)),
            (3, FIRES),
        ],
        &[(8, Firing)],
    ),
    (
        "the silence is deleted",
        &[(0, Happens::Silence(N1, 20)), (3, FIRES), (5, End(1)), (9, RESOLVES)],
        &[(5, Firing), (9, Resolved)],
    ),
    (
        "a silence that comes too late keeps no end from anybody",
        &[(3, FIRES), (4, Happens::Silence(N1, 20)), (9, RESOLVES)],
        &[(3, Firing), (9, Resolved)],
    ),
    (
        "acknowledged while it fires",
        &[(3, FIRES), (4, Acknowledge(20)), (9, RESOLVES)],
        &[(3, Firing), (9, Resolved)],
    ),
    (
        "acknowledged while pending",
        &[(2, Moves(Pending)), (2, Acknowledge(20)), (3, FIRES), (9, RESOLVES)],
        &[(2, Pending)],
    ),
    (
        "the acknowledgement ends while it fires",
        &[(3, FIRES), (4, Acknowledge(7)), (9, RESOLVES)],
        &[(3, Firing), (7, Firing), (9, Resolved)],
    ),
    (
        "the acknowledgement is deleted",
        &[(3, FIRES), (4, Acknowledge(20)), (6, Unacknowledge), (9, RESOLVES)],
        &[(3, Firing), (6, Firing), (9, Resolved)],
    ),
    (
        "acknowledged and silenced, of which the silence lasts longer",
        &[(0, Happens::Silence(N1, 10)), (3, FIRES), (4, Acknowledge(7)), (12, RESOLVES)],
        &[(10, Firing), (12, Resolved)],
    ),
    (
        "an acknowledgement ends with its alert",
        &[(3, FIRES), (4, Acknowledge(29)), (9, RESOLVES), (12, FIRES)],
        &[(3, Firing), (9, Resolved), (12, Firing)],
    ),
];

#[test]
fn receivers_are_notified_once_of_each_unsilenced_begin_and_end() {
    for (name, story, wanted) in CASES {
        assert_eq!(got(story), *wanted, "{name}");
    }
}

#[test]
fn what_cannot_hold_is_refused_with_the_fix() {
    let mut silences = Silences::default();
    let mut of = |change: fn(&mut Silence)| {
        let mut requested = silence(r#"{"rule":"r"}"#, 10, 20);
        change(&mut requested);
        silences.add(at(10), requested).unwrap_err()
    };
    assert_eq!(of(|s| s.matches = SilenceMatch::default()), CommandError::Everything);
    assert_eq!(of(|s| s.by = " ".to_owned()), CommandError::NoOperator);
    assert_eq!(of(|s| s.until = at(10)), CommandError::Over);
    assert_eq!(of(|s| (s.from, s.until) = (at(1), at(9))), CommandError::Over);
    assert_eq!(of(|s| s.until = s.from.plus(SILENCE_MAX).plus(SILENCE_MAX)), CommandError::TooLong);
    assert_eq!(of(|s| s.from = at(0).plus(SILENCE_MAX * 2)), CommandError::Over);
    let long = of(|s| s.comment = "x".repeat(COMMENT_BYTES_MAX + 1));
    assert_eq!(long.to_string(), "comment has 513 bytes, more than 512; shorten it");
    let error = silences.acknowledge(at(1), key("n1"), Resolved, acknowledgement(20)).unwrap_err();
    assert!(error.to_string().contains("epoch_hook (node n1, epoch_hook) is resolved"), "{error}");
}

#[test]
fn both_are_bounded_and_make_room_when_they_end() {
    let mut silences = Silences::default();
    for _ in 0..SILENCES_MAX {
        silences.add(at(0), silence(r#"{"rule":"r"}"#, 0, 5)).unwrap();
    }
    let one_more = |silences: &mut Silences, second| {
        silences.add(at(second), silence(r#"{"rule":"r"}"#, second, second + 5))
    };
    let full = CommandError::Full { what: "silences", max: SILENCES_MAX };
    assert_eq!(one_more(&mut silences, 1), Err(full));
    silences.expire(at(5));
    assert_eq!(one_more(&mut silences, 5).unwrap().id, SILENCES_MAX as u64 + 1);
    assert_eq!(silences.rows().len(), 1);
    for node in 0..ACKNOWLEDGEMENTS_MAX {
        let active = key(&format!("n{node}"));
        silences.acknowledge(at(0), active, Firing, acknowledgement(9)).unwrap();
    }
    let full = CommandError::Full { what: "acknowledgements", max: ACKNOWLEDGEMENTS_MAX };
    let one_more = silences.acknowledge(at(0), key("m"), Firing, acknowledgement(9));
    assert_eq!(one_more, Err(full));
    let again = silences.acknowledge(at(0), key("n1"), Firing, acknowledgement(10));
    assert_eq!(again, Ok(()), "it is not new");
}

#[test]
fn what_receivers_did_not_get_is_counted_by_reason() {
    let mut silences = Silences::default();
    silences.add(at(0), silence(r#"{"severity":"warning"}"#, 0, 50)).unwrap();
    let moves = |silences: &mut Silences, node, to| {
        silences.on_change(at(1), &key(node), Severity::Warning, to)
    };
    assert!(moves(&mut silences, "a", FIRED).silenced);
    assert!(moves(&mut silences, "a", ENDED).silenced);
    silences.acknowledge(at(1), key("b"), Pending, acknowledgement(9)).unwrap();
    let of = moves(&mut silences, "b", FIRED);
    assert_eq!(of, Suppression { silenced: true, acknowledged_by: Some("bob".to_owned()) });
    let counts: Vec<_> = silences.suppressed.iter().map(|(why, n)| (why.as_ref(), *n)).collect();
    assert_eq!(counts, [("acknowledged", 1), ("silenced", 2)]);
}

#[test]
fn a_clock_that_is_set_back_ends_no_silence_that_has_begun() {
    let mut silences = Silences::default();
    silences.add(at(5), silence(r#"{"rule":"epoch_*"}"#, 5, 50)).unwrap();
    silences.add(at(5), silence(r#"{"severity":"warning"}"#, 6, 50)).unwrap();
    let holding = |silences: &Silences, second| {
        silences.holding(at(second), &key("a"), Severity::Warning).collect::<Vec<_>>()
    };
    assert_eq!(holding(&silences, 4), [1], "the other is yet to begin");
    silences.expire(at(6));
    assert_eq!(holding(&silences, 4), [1, 2]);
}

#[test]
fn a_text_that_would_break_a_line_is_refused() {
    for (by, comment, which) in [("a\nb", "", "by"), ("a", "\u{1b}[2J", "comment")] {
        let (by, comment) = (by.to_owned(), comment.to_owned());
        let requested = Silence { by, comment, ..silence(r#"{"rule":"r"}"#, 0, 5) };
        assert_eq!(Silences::default().add(at(0), requested), Err(CommandError::Control(which)));
    }
}

fn aggregator(name: &str) -> Silences {
    let mut silences = Silences::default();
    silences.share_as(AggregatorName::new(name).unwrap());
    silences
}

/// All know what each has.
fn exchange(now: Wall, all: &mut [Silences]) {
    let reports: Vec<_> = all.iter().filter_map(Silences::report).collect();
    for silences in all {
        for report in &reports {
            silences.merge(now, report.clone());
        }
    }
}

fn texts(silences: &Silences) -> Vec<String> {
    let mut all: Vec<_> = silences.rows().iter().map(|row| format!("{:?}", row.silence)).collect();
    all.sort();
    all
}

#[test]
fn a_silence_of_one_aggregator_holds_at_all_and_ends_at_all() {
    let mut all = [aggregator("a"), aggregator("b")];
    all[0].add(at(0), silence(r#"{"rule":"epoch_hook"}"#, 0, 20)).unwrap();
    all[1].add(at(0), silence(r#"{"rule":"publish"}"#, 0, 20)).unwrap();
    exchange(at(1), &mut all);
    assert_eq!(texts(&all[0]), texts(&all[1]));
    assert_eq!((all[0].count(), all[1].count()), (2, 2));
    let old = all[0].report().unwrap();
    // By the number that it has there.
    let rows = all[1].rows();
    let row = rows.iter().find(|row| format!("{:?}", row.silence).contains("epoch_hook"));
    assert!(all[1].end(row.unwrap().id));
    exchange(at(2), &mut all);
    assert_eq!((all[0].count(), all[1].count()), (1, 1));
    // A report from before begins nothing again, and one's own changes nothing.
    assert!(!all[1].merge(at(3), old));
    let own = all[0].report().unwrap();
    assert!(!all[0].merge(at(3), own));
    // Once the time is over, nothing is left of it.
    all.iter_mut().for_each(|silences| silences.expire(at(20)));
    assert_eq!(all[0].report(), Some(SharedSilences::default()));
    assert_eq!(all[1].report(), Some(SharedSilences::default()));
}

#[test]
fn an_aggregator_without_a_state_has_its_silences_again_and_begins_its_numbers_anew() {
    let mut all = [aggregator("a"), aggregator("b")];
    all[0].add(at(0), silence(r#"{"rule":"epoch_hook"}"#, 0, 20)).unwrap();
    exchange(at(1), &mut all);
    all[0] = aggregator("a");
    all[0].add(at(2), silence(r#"{"rule":"publish"}"#, 2, 20)).unwrap();
    exchange(at(3), &mut all);
    assert_eq!((all[0].count(), all[1].count()), (2, 2));
    assert_eq!(texts(&all[0]), texts(&all[1]));
}

#[test]
fn a_shared_silence_lasts_as_long_where_the_clock_differs() {
    let until = |sent: u64, received: u64| {
        let mut all = [aggregator("a"), aggregator("b")];
        all[0].add(at(sent), silence(r#"{"rule":"r"}"#, sent, sent + 300)).unwrap();
        let report = SharedSilences { at: at(sent), ..all[0].report().unwrap() };
        all[1].merge(at(received), report);
        all[1].rows().first().map(|row| (row.silence.from, row.silence.until))
    };
    assert_eq!(until(10_000, 10_004), Some((at(10_000), at(10_300))), "the report took so long");
    assert_eq!(until(10_000, 10_600), Some((at(10_600), at(10_900))), "the clock is ahead");
    assert_eq!(until(10_000, 9_000), Some((at(9_000), at(9_300))), "the clock is behind");
    assert_eq!(until(10_000, 13_601), None, "an old report is sent again");
}

#[test]
fn a_silence_that_another_aggregator_ended_ends_where_the_clock_differs() {
    let mut all = [aggregator("a"), aggregator("b")];
    all[0].add(at(10_000), silence(r#"{"rule":"r"}"#, 10_000, 10_300)).unwrap();
    let report = SharedSilences { at: at(10_000), ..all[0].report().unwrap() };
    all[1].merge(at(11_000), report);
    let id = all[1].rows()[0].id;
    assert!(all[1].end(id));
    let report = SharedSilences { at: at(11_001), ..all[1].report().unwrap() };
    assert!(all[0].merge(at(10_001), report));
    assert_eq!(all[0].count(), 0);
}

#[test]
fn a_record_keeps_what_is_shared() {
    let mut all = [aggregator("a"), aggregator("b")];
    let ids = [20, 21]
        .map(|until| all[0].add(at(0), silence(r#"{"rule":"epoch_hook"}"#, 0, until)).unwrap().id);
    all[0].end(ids[0]);
    exchange(at(1), &mut all);
    let report = all[1].report();
    let mut restored = Silences::restored(all[1].record());
    assert_eq!(restored.report(), None, "without a name nothing is shared");
    restored.share_as(AggregatorName::new("b").unwrap());
    assert_eq!(restored.report(), report);
}

#[test]
fn what_no_operator_could_have_asked_for_is_refused_and_counted() {
    let mut silences = aggregator("a");
    let origin =
        |id| SilenceOrigin { aggregator: AggregatorName::new("b").unwrap(), id, created: at(0) };
    let by_nobody = Silence { by: String::new(), ..silence(r#"{"rule":"r"}"#, 0, 20) };
    let forged = [silence("{}", 0, 20), by_nobody, silence(r#"{"rule":"r"}"#, 0, 4_000_000)];
    let all = (1..).zip(forged).map(|(id, silence)| (origin(id), silence)).collect();
    // Far ends are no memory of ours.
    let ended = vec![(origin(9), at(4_000_000))];
    assert!(
        !silences
            .merge(at(1), SharedSilences { silences: all, ended, ..SharedSilences::default() })
    );
    assert_eq!(silences.refused.get("invalid"), Some(&3));
    let many: Vec<_> = (0..300).map(|id| (origin(id), silence(r#"{"rule":"r"}"#, 0, 20))).collect();
    assert!(silences.merge(at(1), SharedSilences { silences: many, ..SharedSilences::default() }));
    assert_eq!(silences.count(), 256);
    assert_eq!(silences.refused.get("full"), Some(&44));
    // One that is over before it arrives is no fault.
    let over = vec![(origin(1_000), silence(r#"{"rule":"r"}"#, 0, 5))];
    silences.merge(at(6), SharedSilences { silences: over, ..SharedSilences::default() });
    assert_eq!(silences.refused.get("invalid"), Some(&3));
}
