//! Checks of the broker: reachable, its version, JetStream, permissions, streams.

use std::time::Duration;

use jiff::Timestamp;
use plimsoll_bus::advisories;
use plimsoll_bus::{BrokerReport, Denial, JetStreamState, StreamReport, StreamState};
use plimsoll_schemas::figure::{counted, percent};
use plimsoll_schemas::summary::Presence;
use plimsoll_schemas::transport::small_payload;

use super::super::finding::{DoctorReport, Finding};
use super::super::limits::{NAMES_MAX, STREAM_HOLDS_MIN, STREAM_RATE_MIN, STREAM_USED_MAX};
use super::super::mesh::{AggregatorFacts, BrokerFacts, cause_and_fix};

/// Checks each program's connection to its broker.
pub(in super::super) fn check(
    brokers: &[BrokerFacts],
    aggregators: &[AggregatorFacts],
    report: &mut DoctorReport,
) {
    let up = aggregators
        .iter()
        .filter_map(|facts| facts.pages.as_ref().ok())
        .map(|pages| pages.summary.presence.get(&Presence::Up).copied().unwrap_or_default());

    // Both aggregators of a pair see all nodes; one that has just started sees fewer.
    let nodes = up.max().unwrap_or_default();

    let mut looked_at: Vec<&str> = Vec::new();
    for BrokerFacts { program, url, report: of } in brokers {
        report.add("broker", Ok(reachable(program, url, of)));

        let Ok(broker) = of else {
            let names: &[&str] = match *program {
                "aggregator" => {
                    &["advisories", "jetstream", "max_payload", "permissions", "streams"]
                }
                _ => &["advisories", "max_payload", "permissions"],
            };

            for name in names {
                report.add(name, Err(format!("the broker {url} does not answer")));
            }
            continue;
        };

        report.add("permissions", permissions(program, url, broker));

        // Both programs of a machine have one broker as a rule.
        if !looked_at.contains(&url.as_str()) {
            report.add("advisories", known_advisories(url, &broker.version));
            report.add("max_payload", Ok(max_payload(url, broker.payload_bytes_max)));
        }

        if *program == "aggregator" {
            report.add("jetstream", Ok(jetstream(url, broker.jetstream)));
            report.add("streams", streams(broker, nodes, uncreated(aggregators)));
        }

        looked_at.push(url);
    }

    if !brokers.iter().any(|facts| facts.program == "aggregator") {
        let reason = "only an aggregator may read the state of streams: give --aggregator-config";
        for name in ["jetstream", "streams"] {
            report.add(name, Err(reason.to_owned()));
        }
    }
}

/// Why an aggregator cannot create the streams, as its `/readyz` states it.
fn uncreated(aggregators: &[AggregatorFacts]) -> Option<&str> {
    let pages = aggregators.iter().filter_map(|facts| facts.pages.as_ref().ok());
    let mut causes = pages.filter_map(|pages| pages.readiness.unready.as_deref());
    causes.find_map(|cause| cause.strip_prefix("streams not created: "))
}

fn max_payload(url: &str, payload_bytes_max: usize) -> Vec<Finding> {
    let Some(text) = small_payload(payload_bytes_max) else { return Vec::new() };
    let (what, fix) = cause_and_fix(&text);
    vec![Finding::warning(url, what.to_owned(), fix.unwrap_or_default())]
}

fn reachable(program: &str, url: &str, of: &Result<BrokerReport, String>) -> Vec<Finding> {
    let Err(error) = of else { return Vec::new() };
    let fix = if error.contains("authorization") {
        format!("set the {program}'s credentials in [bus], such as bus.credentials_file")
    } else {
        "start nats-server, or correct bus.url (--nats)".to_owned()
    };
    vec![Finding::error(url, format!("the broker does not answer: {error}"), &fix)]
}

fn known_advisories(url: &str, version: &str) -> Result<Vec<Finding>, String> {
    let found = advisories::of(version)
        .ok_or_else(|| format!("{url} reports the version {version:?}, which is not a version"))?;
    if found.is_empty() {
        return Ok(Vec::new());
    }

    let any: Vec<&str> =
        found.iter().filter(|note| note.needs == "all").map(|note| note.id).collect();
    let mut needs: Vec<&str> =
        found.iter().map(|note| note.needs).filter(|needs| *needs != "all").collect();
    needs.sort_unstable();
    needs.dedup();

    let count = counted(found.len() as u64, "published advisory");
    let mut what = format!("nats-server {version} has {count}");
    if !any.is_empty() {
        what += &format!(", with any configuration: {}", listed(&any));
    }
    if !needs.is_empty() {
        what += &format!("; others matter with {}", needs.join(", "));
    }

    let fix = format!("install nats-server {} or newer", advisories::SOUND);
    Ok(vec![Finding::warning(url, what, &fix)])
}

fn jetstream(url: &str, state: JetStreamState) -> Vec<Finding> {
    match state {
        JetStreamState::Enabled => Vec::new(),
        JetStreamState::Absent => vec![Finding::error(
            url,
            "JetStream is off: messages are lost while no aggregator runs".to_owned(),
            "start nats-server with --jetstream --store_dir DIR, or set jetstream \
             { store_dir: .. } in its configuration",
        )],
        JetStreamState::Silent => vec![Finding::error(
            url,
            "JetStream does not respond with these credentials".to_owned(),
            "grant what `plimsoll nats-config` prints for this user",
        )],
    }
}

fn permissions(program: &str, url: &str, of: &BrokerReport) -> Result<Vec<Finding>, String> {
    let denied = |Denial { is_publish, subject }: &Denial| {
        let verb = if *is_publish { "publish to" } else { "subscribe to" };
        let key = if *is_publish { "publish" } else { "subscribe" };
        let what = format!("the {program} may not {verb} {subject}");
        let fix = format!(
            "add {subject:?} to permissions.{key} of its user; `plimsoll nats-config` prints all"
        );
        Finding::error(url, what, &fix)
    };

    // A node works without the JetStream API.
    let is_needed = |of: &&Denial| program != "node" || !of.subject.starts_with("$JS.API");
    let findings: Vec<Finding> = of.denied.iter().filter(is_needed).map(denied).collect();
    if findings.is_empty() && of.jetstream != JetStreamState::Enabled {
        return Err("publishing is tested only if JetStream rejects the message".to_owned());
    }
    Ok(findings)
}

fn streams(of: &BrokerReport, nodes: u64, uncreated: Option<&str>) -> Result<Vec<Finding>, String> {
    if of.jetstream != JetStreamState::Enabled {
        return Err("no JetStream".to_owned());
    }
    if of.streams.is_empty() {
        return Err("no permission to read their state: permit $JS.API.STREAM.INFO.*".to_owned());
    }
    Ok(of.streams.iter().filter_map(|report| stream(report, nodes, uncreated)).collect())
}

/// `uncreated` is why an aggregator cannot create the streams, if it cannot.
fn stream(
    StreamReport { name, state, taken_by }: &StreamReport,
    nodes: u64,
    uncreated: Option<&str>,
) -> Option<Finding> {
    let Some(state) = state else {
        let (cause, fix) = uncreated.map_or(("", None), cause_and_fix);
        return Some(match taken_by {
            Some(other) => Finding::error(
                name,
                format!("stream {other} overlaps it and takes the messages of this mesh"),
                &format!("take the subjects plimsoll.> out of it, or `nats stream rm {other}`"),
            ),
            None if !cause.is_empty() => Finding::error(
                name,
                format!("the stream is missing: {cause}"),
                fix.unwrap_or("see the log of the aggregator"),
            ),
            None => Finding::error(
                name,
                "the stream is missing".to_owned(),
                "start the aggregator, which creates it",
            ),
        });
    };

    let more = format!("nats stream edit {name} --max-bytes=SIZE");
    // A stream that drops its oldest messages when full is full for most of its life; only one that
    // refuses is about to lose what nodes send.
    if state.refuses_when_full && used(state) > STREAM_USED_MAX {
        let what = format!("{} full; a full stream refuses messages", percent(used(state)));
        return Some(Finding::error(name, what, &format!("{more}, or --discard=old")));
    }

    let holds = holds(state).filter(|holds| *holds < STREAM_HOLDS_MIN)?;
    let minutes = holds.as_secs() / 60;

    let what = format!(
        "holds {minutes} min of the messages of {} at the current rate; messages that no \
         aggregator has read by then are lost",
        counted(nodes, "node")
    );

    Some(Finding::warning(name, what, &format!("{more} and --max-age=24h")))
}

#[expect(clippy::cast_precision_loss, reason = "a share, not a count")]
fn used(state: &StreamState) -> f64 {
    if state.bytes_max > 0 { state.bytes as f64 / state.bytes_max as f64 } else { 0.0 }
}

/// How long a stream holds messages, by bytes at the rate of those in it, or by their age.
/// Unknown while it has few.
#[expect(clippy::cast_precision_loss, reason = "a span for people")]
fn holds(state: &StreamState) -> Option<Duration> {
    let time = |text: &str| text.parse::<Timestamp>().ok();
    let span = time(&state.last_at)?.duration_since(time(&state.first_at)?);
    let span = Duration::try_from(span).ok().filter(|span| *span >= STREAM_RATE_MIN)?;
    let by_bytes = (state.bytes_max > 0 && state.bytes > 0)
        .then(|| span.as_secs_f64() * (state.bytes_max as f64 / state.bytes as f64))
        .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    let by_age = (state.age_max_ns > 0).then(|| Duration::from_nanos(state.age_max_ns));
    by_bytes.into_iter().chain(by_age).min()
}

fn listed(names: &[&str]) -> String {
    let shown = names.iter().take(NAMES_MAX).copied().collect::<Vec<_>>().join(", ");
    let rest = names.len().saturating_sub(NAMES_MAX);
    if rest > 0 { format!("{shown} and {rest} more") } else { shown }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::finding::Severity;

    const URL: &str = "nats://h:4222";

    fn healthy() -> BrokerReport {
        BrokerReport {
            version: "2.14.3".to_owned(),
            requires_tls: false,
            requires_credentials: false,
            payload_bytes_max: 1 << 20,
            jetstream: JetStreamState::Enabled,
            streams: vec![StreamReport {
                name: "S".to_owned(),
                state: Some(state(1 << 20, 60)),
                taken_by: None,
            }],
            denied: Vec::new(),
        }
    }

    /// Bytes that were stored within this many seconds, of a stream of 1 GiB.
    fn state(bytes: u64, seconds: i64) -> StreamState {
        let at = |seconds| Timestamp::from_second(1_700_000_000 + seconds).unwrap().to_string();
        StreamState {
            messages: 10,
            bytes,
            first_at: at(0),
            last_at: at(seconds),
            last_seq: 10,
            bytes_max: 1 << 30,
            age_max_ns: 86_400_000_000_000,
            refuses_when_full: false,
        }
    }

    fn checked(of: BrokerReport) -> DoctorReport {
        let mut report = DoctorReport::default();
        let facts = BrokerFacts { program: "aggregator", url: URL.to_owned(), report: Ok(of) };
        check(&[facts], &[], &mut report);
        report
    }

    fn only(report: &DoctorReport) -> (&'static str, Severity, String) {
        let [found] = report.findings() else { panic!("{}", report.words()) };
        (found.check, found.severity, format!("{}: {} | {}", found.place, found.what, found.fix))
    }

    #[test]
    fn a_healthy_broker_has_no_finding() {
        let report = checked(healthy());
        assert_eq!((report.findings(), report.skipped()), (&[][..], vec![]));
    }

    #[test]
    fn a_broker_that_does_not_answer_leaves_its_checks_skipped() {
        let mut report = DoctorReport::default();
        let absent = Err("connection refused".to_owned());
        let facts = BrokerFacts { program: "aggregator", url: URL.to_owned(), report: absent };
        check(&[facts], &[], &mut report);
        let (check, severity, text) = only(&report);
        assert_eq!((check, severity), ("broker", Severity::Error));
        assert!(text.contains("connection refused") && text.contains("bus.url"), "{text}");
        assert_eq!(
            report.skipped(),
            ["advisories", "jetstream", "max_payload", "permissions", "streams"]
        );
    }

    #[test]
    fn a_small_max_payload_is_a_warning_with_its_setting() {
        let report = checked(BrokerReport { payload_bytes_max: 65_536, ..healthy() });
        let (check, severity, text) = only(&report);
        assert_eq!((check, severity), ("max_payload", Severity::Warning));
        assert!(text.starts_with("nats://h:4222: the broker's max_payload is 65536"), "{text}");
        assert!(text.ends_with("| set max_payload: 1MB in nats.conf and restart nats-server"));
    }

    #[test]
    fn an_old_server_has_its_advisories_by_what_they_need() {
        let report = checked(BrokerReport { version: "2.9.10".to_owned(), ..healthy() });
        let (check, severity, text) = only(&report);
        assert_eq!((check, severity), ("advisories", Severity::Warning));
        for part in ["2.9.10 has 29 published", "CVE-2026-33223", "with accounts,", "2.12.12"] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert_eq!(
            checked(BrokerReport { version: "?".to_owned(), ..healthy() }).skipped().len(),
            1
        );
    }

    #[test]
    fn jetstream_that_is_off_or_silent_is_an_error_with_its_fix() {
        for (jetstream, fix) in
            [(JetStreamState::Absent, "--jetstream"), (JetStreamState::Silent, "nats-config")]
        {
            let report = checked(BrokerReport { jetstream, ..healthy() });
            let (check, severity, text) = only(&report);
            assert_eq!((check, severity), ("jetstream", Severity::Error));
            assert!(text.contains(fix), "{text}");
            assert_eq!(report.skipped(), ["permissions", "streams"]);
        }
    }

    #[test]
    fn a_missing_permission_names_the_key_that_grants_it() {
        let denied = vec![Denial { is_publish: true, subject: "a.b".to_owned() }];
        let (check, severity, text) = only(&checked(BrokerReport { denied, ..healthy() }));
        assert_eq!((check, severity), ("permissions", Severity::Error));
        let expected = "the aggregator may not publish to a.b | add \"a.b\" to permissions.publish";
        assert!(text.contains(expected), "{text}");
        // A node needs no JetStream API.
        let denied = vec![Denial { is_publish: true, subject: "$JS.API.INFO".to_owned() }];
        let of_node = permissions("node", URL, &BrokerReport { denied, ..healthy() });
        assert_eq!(of_node, Ok(Vec::new()));
    }

    #[test]
    fn streams_are_judged_by_the_rate_of_the_fleet() {
        let of = |state| StreamReport { name: "S".to_owned(), state, taken_by: None };
        let found = |state, cause| stream(&of(state), 400, cause);
        let text = |state| found(state, None).map(|found| found.what).unwrap_or_default();
        assert_eq!(text(None), "the stream is missing");

        let cause = Some("the broker has no room for a stream; raise `max_file_store`");
        let found = found(None, cause).unwrap();
        assert_eq!(found.what, "the stream is missing: the broker has no room for a stream");
        assert_eq!(found.fix, "raise `max_file_store`");

        let taken = StreamReport { taken_by: Some("EVERYTHING".to_owned()), ..of(None) };
        let found = stream(&taken, 400, None).unwrap();
        assert!(found.what.starts_with("stream EVERYTHING overlaps it"), "{found:?}");

        // 1 MiB a minute fills 1 GiB in 17 h; ten times that in 102 min.
        assert_eq!(text(Some(state(1 << 20, 60))), "");
        assert!(
            text(Some(state(10 << 20, 60))).starts_with("holds 102 min of the messages of 400")
        );
        // A rate does not follow from some seconds.
        assert_eq!(text(Some(state(10 << 20, 59))), "");
        let short = StreamState { age_max_ns: 3_600_000_000_000, ..state(1, 60) };
        assert!(text(Some(short)).starts_with("holds 60 min"));

        let full = StreamState { refuses_when_full: true, ..state(900 << 20, 86_400) };
        assert_eq!(text(Some(full)), "87.9 % full; a full stream refuses messages");
    }
}
