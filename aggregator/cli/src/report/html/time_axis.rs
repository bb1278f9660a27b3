//! Ticks of an axis of time at round times of the reader's time zone.

use jiff::Timestamp;
use jiff::tz::TimeZone;
use plimsoll_compare::history::SecondsRange;

const DAY: i64 = 86_400;
/// Distances between ticks in seconds.
const STEPS: [i64; 18] = [
    10,
    30,
    60,
    120,
    300,
    600,
    1_800,
    3_600,
    7_200,
    10_800,
    21_600,
    43_200,
    DAY,
    2 * DAY,
    7 * DAY,
    30 * DAY,
    90 * DAY,
    365 * DAY,
];

/// At most this many ticks within a range, each with its words.
pub(super) fn ticks(range: SecondsRange, zone: &TimeZone, most: usize) -> Vec<(f64, String)> {
    let fits = |step: &&i64| range.seconds() / **step as f64 <= most as f64;
    let step = *STEPS.iter().find(fits).unwrap_or(&STEPS[STEPS.len() - 1]);

    let form = match step {
        step if step < 60 => "%H:%M:%S",
        step if step < DAY => "%H:%M",
        step if step < 90 * DAY => "%b %d",
        _ => "%Y-%m-%d",
    };

    #[expect(clippy::cast_possible_truncation, reason = "the cast saturates")]
    let (first, last) = (range.from.ceil() as i64, range.to.floor() as i64);
    // The offset of the first tick for all: a change of summer time within the range moves later
    // ticks off the round hour, not off their time.
    let offset = zone_seconds(first, zone);
    let begin = (first.saturating_add(offset)).div_euclid(step).saturating_mul(step) - offset;
    let all = (0..).map(|n: i64| begin.saturating_add(n.saturating_mul(step)));
    let inside = all.skip_while(|at| *at < first).take_while(|at| *at <= last).take(most + 1);
    inside.map(|at| (at as f64, words(at, zone, form))).collect()
}

fn zone_seconds(at: i64, zone: &TimeZone) -> i64 {
    let at = Timestamp::from_second(at).unwrap_or_default();
    i64::from(zone.to_offset(at).seconds())
}

fn words(at: i64, zone: &TimeZone, form: &str) -> String {
    let at = Timestamp::from_second(at).unwrap_or_default();
    at.to_zoned(zone.clone()).strftime(form).to_string()
}

#[cfg(test)]
mod tests {
    use jiff::tz::Offset;

    use super::*;

    fn at(from: f64, to: f64, hours: i8) -> Vec<String> {
        let zone = TimeZone::fixed(Offset::from_hours(hours).unwrap());
        ticks(SecondsRange { from, to }, &zone, 6).into_iter().map(|(_, words)| words).collect()
    }

    #[test]
    fn ticks_are_round_in_the_readers_zone() {
        assert_eq!(at(0.0, 60.0, 0).first().unwrap(), "00:00:00");
        assert_eq!(
            at(100.0, 160.0, 0),
            ["00:01:40", "00:01:50", "00:02:00", "00:02:10", "00:02:20", "00:02:30", "00:02:40"]
        );
        assert_eq!(at(0.0, 7_200.0, 1), ["01:00", "01:30", "02:00", "02:30", "03:00"]);
        assert_eq!(at(0.0, 5.0 * 86_400.0, 2)[0], "Jan 02");
        assert_eq!(at(1e18, 2e18, 0).len(), 7);
    }
}
