//! Reads one side from the history of an aggregator: a run, or a range of the fleet.

use anyhow::{Context, Result, bail, ensure};
use jiff::Zoned;
use plimsoll_compare::Side;
use plimsoll_compare::history::{
    HistoryRequest, HistorySide, RateRequest, RateRequests, SideReader, is_whole, measured_rate,
    rate_requests,
};
use plimsoll_runtime::client::Api;
use plimsoll_schemas::ids::Operation;
use plimsoll_schemas::limits::api::HISTORY_ANSWER_BYTES_MAX;
use plimsoll_schemas::run::RUN_LABEL;
use plimsoll_schemas::summary::{
    HistoryPage, HistoryPoint, MESSAGEPACK, MetricHistoryPage, MetricsPage, OperationsPage,
};

use crate::runs;
use crate::targets::{page, with_parameters};
use crate::time_range;

/// What a side's name stands for: `run:NAME` or `range:FROM/TO`; `None` for a file.
///
/// # Errors
/// When a range cannot be parsed.
pub(super) fn named(text: &str, now: &Zoned) -> Result<Option<HistorySide>> {
    if let Some(name) = text.strip_prefix("run:") {
        return Ok(Some(HistorySide::Run(name.to_owned())));
    }
    let Some(range) = text.strip_prefix("range:") else { return Ok(None) };
    let (from, to) = range
        .split_once('/')
        .with_context(|| format!("{text:?}: write range:FROM/TO, such as range:10:00/10:30"))?;
    let range = time_range::seconds_of(from, to, now)?;
    ensure!(range.from < range.to, "{text:?}: the range ends before it starts");
    Ok(Some(HistorySide::Range(range)))
}

/// The side as an aggregator has it, to be compared in these operations; in all without any.
///
/// # Errors
/// When the aggregator does not answer, keeps no history, has nothing of it, or does not keep
/// samples of the run by its name.
pub(super) async fn load(api: &Api, stored: HistorySide, operations: &[Operation]) -> Result<Side> {
    if let HistorySide::Run(name) = &stored
        && let Some(row) = runs::find(api, name).await
        && let Some(why) = row.not_kept(|of| operations.is_empty() || operations.contains(of))
    {
        bail!("{why}; --operation names others");
    }
    let known: OperationsPage = page(api, "/api/v1/operations").await?;
    let now = Zoned::now().timestamp().as_millisecond() as f64 / 1e3;
    let mut reader = SideReader::new(stored.clone(), &known, now)?;

    while let Some(request) = reader.next_request() {
        let of_fleet = ask(api, &request, [None, None]).await?.points;
        let points = match request.of_nodes() {
            Some(request) => of_nodes(api, &request, &of_fleet).await.unwrap_or(of_fleet),
            None => of_fleet,
        };
        reader.on_answer(&points);
    }

    let mut side = reader.finish()?;
    let metrics: MetricsPage = page(api, "/api/v1/metrics").await?;
    let is_wanted =
        |of: &str| operations.is_empty() || operations.iter().any(|name| name.as_str() == of);
    let RateRequests { requests, left_out } = rate_requests(&stored, &side, &metrics, is_wanted);
    if left_out > 0 {
        eprintln!("plimsoll compare: {left_out} counters are left out; --operation names some");
    }
    for request in requests {
        let page = rate_page(api, &request).await?;
        let name = Operation::new(&request.metric)?;
        side.rates.extend(measured_rate(&page).map(|rate| (name, rate)));
    }
    Ok(side)
}

async fn rate_page(api: &Api, request: &RateRequest) -> Result<MetricHistoryPage> {
    let RateRequest { metric, run, from, to, step } = request;
    let parameters = [
        ("metric", Some(metric.clone())),
        ("rollup", run.as_ref().map(|_| RUN_LABEL.to_owned())),
        ("value", run.clone()),
        ("from", Some(from.to_string())),
        ("to", Some(to.to_string())),
        ("step", Some(format!("{step}s"))),
    ];
    let parameters: Vec<_> = parameters.iter().map(|(key, value)| (*key, value)).collect();
    page(api, &with_parameters("/api/v1/query", &parameters)).await
}

/// What nodes answer, if it is all that the fleet's history has.
async fn of_nodes(
    api: &Api,
    request: &HistoryRequest,
    of_fleet: &[HistoryPoint],
) -> Option<Vec<HistoryPoint>> {
    let label = request.run.as_ref().map(|run| format!("{RUN_LABEL}={run}"));
    let to_all = HistoryRequest { run: None, ..request.clone() };
    let page = ask(api, &to_all, [Some("*".to_owned()), label]).await.ok()?;
    is_whole(&page, of_fleet).then_some(page.points)
}

async fn ask(
    api: &Api,
    request: &HistoryRequest,
    [node, label]: [Option<String>; 2],
) -> Result<HistoryPage> {
    let HistoryRequest { operation, run, from, to, step, with_distribution } = request;

    let parameters = [
        ("operation", Some(operation.clone())),
        ("rollup", run.as_ref().map(|_| RUN_LABEL.to_owned())),
        ("value", run.clone()),
        ("node", node),
        ("label", label),
        ("from", Some(from.to_string())),
        ("to", Some(to.to_string())),
        ("step", Some(format!("{step}s"))),
        ("quantiles", Some("0.5".to_owned())),
        ("distribution", Some(with_distribution.to_string())),
    ];

    let parameters: Vec<_> = parameters.iter().map(|(key, value)| (*key, value)).collect();
    let path = with_parameters("/api/v1/query", &parameters);
    // JSON would list each bucket: twenty times the bytes.
    let bytes = api.fetch(&path, MESSAGEPACK, HISTORY_ANSWER_BYTES_MAX).await?;
    HistoryPage::from_messagepack(&bytes).context("/api/v1/query has an unexpected form")
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use jiff::tz::TimeZone;
    use plimsoll_compare::history::SecondsRange;

    use super::*;

    #[test]
    fn runs_and_ranges_differ_from_files() {
        let now = Timestamp::from_second(1_700_000_000).unwrap().to_zoned(TimeZone::UTC);
        let of = |text: &str| named(text, &now);
        assert_eq!(of("a.hlog").unwrap(), None);
        assert_eq!(of("run:v42").unwrap(), Some(HistorySide::Run("v42".to_owned())));
        let range = SecondsRange { from: 1_699_992_000.0, to: 1_699_993_800.0 };
        assert_eq!(of("range:20:00/20:30").unwrap(), Some(HistorySide::Range(range)));
        let error = of("range:20:30/20:00").unwrap_err().to_string();
        assert!(error.ends_with("the range ends before it starts"), "{error}");
        assert!(of("range:20:30").unwrap_err().to_string().contains("write range:FROM/TO"));
    }
}
