//! Times as people write them, in the time zone of this machine unless they state another.

use anyhow::{Context, Result, anyhow};
use clap::Args;
use jiff::civil::{DateTime, Time};
use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};
use plimsoll_compare::history::SecondsRange;

/// From when until when.
#[derive(Args, Clone, Debug, Default)]
pub struct TimeRange {
    /// Start: 10:05, 2026-11-24 10:05, RFC 3339, seconds since 1970, or now-2h
    #[arg(long, value_name = "TIME")]
    from: Option<String>,
    /// End, in the same form [default: now]
    #[arg(long, value_name = "TIME")]
    to: Option<String>,
    /// Duration of the range, such as 2h, instead of --from [default: 1h]
    #[arg(long, value_name = "SPAN", conflicts_with = "from")]
    last: Option<String>,
}

impl TimeRange {
    /// Whether any of it was given.
    pub fn is_given(&self) -> bool {
        self.from.is_some() || self.to.is_some() || self.last.is_some()
    }

    /// The range; its end may be before its start.
    ///
    /// # Errors
    /// When a time cannot be parsed; names the flag and the accepted forms.
    pub fn seconds(&self, now: &Zoned) -> Result<SecondsRange> {
        let unknown = |flag: &str, text: &str| {
            anyhow!(
                "{flag}: cannot parse {text:?}; use 10:05, 2026-11-24 10:05, \
                 2026-11-24T10:05:00+01:00, seconds since 1970, now, or now-2h"
            )
        };
        let to = self.to.as_deref().unwrap_or("now");

        let (from, to) = match (&self.from, &self.last) {
            (Some(text), _) => {
                let from = parse(text, now).ok_or_else(|| unknown("--from", text))?;
                (from, parse_end(to, from, now).ok_or_else(|| unknown("--to", to))?)
            }
            (None, last) => {
                let last = last.as_deref().unwrap_or("1h");
                let span = humantime::parse_duration(last).map_err(|_| {
                    anyhow!("--last: cannot parse {last:?}; use a duration, such as 2h")
                })?;

                let to = parse(to, now).ok_or_else(|| unknown("--to", to))?;
                let from = to.checked_sub(span);
                (from.with_context(|| format!("--last {last:?} is too long"))?, to)
            }
        };

        Ok(SecondsRange { from: seconds(from), to: seconds(to) })
    }
}

/// A range as people write it; its end may be before its start.
///
/// # Errors
/// When one of them cannot be parsed.
pub fn seconds_of(from: &str, to: &str, now: &Zoned) -> Result<SecondsRange> {
    let unknown = |text: &str| anyhow!("cannot parse {text:?}; use 10:05 or RFC 3339");

    let start = parse(from, now).ok_or_else(|| unknown(from))?;
    let end = parse_end(to, start, now).ok_or_else(|| unknown(to))?;
    Ok(SecondsRange { from: seconds(start), to: seconds(end) })
}

fn seconds(at: Timestamp) -> f64 {
    at.as_millisecond() as f64 / 1e3
}

/// The end of a range that starts at `start`.
fn parse_end(text: &str, start: Timestamp, now: &Zoned) -> Option<Timestamp> {
    let end = parse(text, now)?;
    match time_of_day(text, now) {
        // At 10:07, 10:05 to 10:10 is today and not over yet.
        Some(today) if end < start => Some(today.timestamp()),
        _ => Some(end),
    }
}

/// A time of day is the latest one that is past.
fn parse(text: &str, now: &Zoned) -> Option<Timestamp> {
    if text == "now" {
        return Some(now.timestamp());
    }
    if let Some(back) = text.strip_prefix("now-") {
        return now.timestamp().checked_sub(humantime::parse_duration(back).ok()?).ok();
    }

    if let Ok(at) = text.parse::<f64>() {
        let nanos = std::time::Duration::try_from_secs_f64(at).ok()?;
        return Timestamp::UNIX_EPOCH.checked_add(nanos).ok();
    }

    // Times with a zone come first: the types without one would accept the text and drop it.
    if let Ok(at) = text.parse::<Zoned>() {
        return Some(at.timestamp());
    }
    if let Ok(at) = text.parse::<Timestamp>() {
        return Some(at);
    }

    if let Ok(at) = text.parse::<DateTime>()
        && has_no_zone(text)
    {
        return Some(at.to_zoned(now.time_zone().clone()).ok()?.timestamp());
    }

    let today = time_of_day(text, now)?;
    let at = if today > *now { today.yesterday().ok()? } else { today };
    Some(at.timestamp())
}

/// A time of day, of today.
fn time_of_day(text: &str, now: &Zoned) -> Option<Zoned> {
    let time = text.parse::<Time>().ok()?;
    let is_alone = has_no_zone(text) && !text.contains('-');
    is_alone.then(|| now.date().to_datetime(time).to_zoned(now.time_zone().clone()).ok())?
}

/// Types without a zone, or without a date, would drop those that the text has.
fn has_no_zone(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit() || b"-:. T".contains(&byte))
}

/// A time in the time zone of this machine, which it states.
pub fn shown(seconds: f64, zone: &TimeZone) -> String {
    #[expect(clippy::cast_possible_truncation, reason = "the cast saturates")]
    let at = Timestamp::from_millisecond((seconds * 1e3) as i64).unwrap_or_default();
    at.to_zoned(zone.clone()).strftime("%Y-%m-%d %H:%M:%S%:z").to_string()
}

#[cfg(test)]
mod tests {
    use jiff::tz::Offset;

    use super::*;

    fn now() -> Zoned {
        let zone = TimeZone::fixed(Offset::from_hours(2).unwrap());
        Timestamp::from_second(1_700_000_000).unwrap().to_zoned(zone)
    }

    fn range(from: Option<&str>, to: Option<&str>, last: Option<&str>) -> Result<SecondsRange> {
        let owned = |text: Option<&str>| text.map(str::to_owned);
        TimeRange { from: owned(from), to: owned(to), last: owned(last) }.seconds(&now())
    }

    #[test]
    fn times_are_read_as_people_write_them_in_the_local_zone() {
        // It is 00:13:20 at two hours east of Greenwich.
        let from = |text| range(Some(text), None, None).unwrap().from;
        assert_eq!(from("00:05"), 1_699_999_500.0);
        assert_eq!(from("00:20"), 1_699_914_000.0, "of the day before");
        assert_eq!(from("2023-11-14 23:00"), 1_699_995_600.0);
        assert_eq!(from("2023-11-13 23:00"), 1_699_909_200.0, "of another day");
        assert_eq!(from("2023-11-14"), 1_699_912_800.0, "its first moment");
        assert_eq!(from("2023-11-14T23:00[UTC]"), 1_700_002_800.0, "of another zone");
        assert_eq!(from("2023-11-14T21:00:00Z"), 1_699_995_600.0);
        assert_eq!(from("2023-11-14T22:00:00+01:00"), 1_699_995_600.0);
        assert_eq!(from("1699995600.5"), 1_699_995_600.5);
        assert_eq!(from("now-1h"), 1_699_996_400.0);
        let ends = |range: SecondsRange| (range.from, range.to);
        let hour = range(None, None, None).unwrap();
        assert_eq!(ends(hour), (1_699_996_400.0, 1_700_000_000.0));
        let last = range(None, Some("00:10"), Some("5m")).unwrap();
        assert_eq!(ends(last), (1_699_999_500.0, 1_699_999_800.0));
        assert_eq!(shown(1_699_999_500.0, now().time_zone()), "2023-11-15 00:05:00+02:00");
    }

    #[test]
    fn a_range_that_is_not_over_ends_ahead() {
        // It is 00:13:20.
        let ends = |range: SecondsRange| (range.from, range.to);
        let of = |from, to| ends(range(Some(from), Some(to), None).unwrap());
        assert_eq!(of("00:10", "00:20"), (1_699_999_800.0, 1_700_000_400.0));
        assert_eq!(of("23:50", "00:20"), (1_699_998_600.0, 1_700_000_400.0), "over midnight");
        assert_eq!(of("23:50", "00:10"), (1_699_998_600.0, 1_699_999_800.0), "over");
        assert_eq!(of("00:20", "00:30"), (1_699_914_000.0, 1_699_914_600.0), "of the day before");

        let (from, to) = of("00:10", "00:05");
        assert!(to < from, "its end is past, and before its start");
        let alone = seconds_of("00:10", "00:20", &now()).unwrap();
        assert_eq!(ends(alone), of("00:10", "00:20"));
    }

    #[test]
    fn what_cannot_be_parsed_names_the_flag_and_the_fix() {
        let error = |from, to, last| format!("{:#}", range(from, to, last).unwrap_err());
        assert!(
            error(Some("noon"), None, None).starts_with("--from: cannot parse \"noon\"; use 10:05")
        );
        for lossy in ["10:05+05:00", "2023-11-14 10:05 EST", "2023-11-14T10:05[Nowhere/City]"] {
            assert!(error(Some(lossy), None, None).contains("cannot parse"), "{lossy}");
        }
        assert!(error(None, Some("25:00"), None).starts_with("--to: cannot parse \"25:00\"; use"));
        assert!(
            error(None, None, Some("5")).starts_with("--last: cannot parse \"5\"; use a duration")
        );
    }
}
