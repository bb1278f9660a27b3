//! Reads the runs of a side from the history of an aggregator: runs, a range of the fleet, or
//! either of them with one value of a label.

use std::cell::RefCell;
use std::collections::BTreeSet;

use anyhow::{Context, Result, bail, ensure};
use jiff::Zoned;
use plimsoll_compare::Side;
use plimsoll_compare::history::{
    ArmOf, Group, HistoryRequest, HistorySide, NoSide, RateRequest, RateRequests, SecondsRange,
    SideReader, arms_of, is_whole, measured_rate, rate_requests, runs_of,
};
use plimsoll_runtime::client::Api;
use plimsoll_schemas::ids::Operation;
use plimsoll_schemas::limits::api::{HISTORY_ANSWER_BYTES_MAX, QUERY_METRICS_MAX};
use plimsoll_schemas::summary::{
    HistoryPage, HistoryPoint, MESSAGEPACK, MetricHistoryPage, MetricHistoryPages, MetricsPage,
    OperationsPage,
};

use super::arms::Arms;
use super::loaded::LoadedRun;
use crate::runs;
use crate::targets::{page, with_parameters};
use crate::time_range;

/// What a history has of a side.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Stored {
    /// Names of runs separated by commas, with `*` for any text.
    Runs(String),
    Range(SecondsRange),
}

/// What a side's name stands for: `run:NAMES` or `range:FROM/TO`; `None` for a file.
///
/// # Errors
/// When a range cannot be parsed.
pub(super) fn named(text: &str, now: &Zoned) -> Result<Option<Stored>> {
    if let Some(names) = text.strip_prefix("run:") {
        return Ok(Some(Stored::Runs(names.to_owned())));
    }
    let Some(range) = text.strip_prefix("range:") else { return Ok(None) };
    let (from, to) = range
        .split_once('/')
        .with_context(|| format!("{text:?}: write range:FROM/TO, such as range:10:00/10:30"))?;
    let range = time_range::seconds_of(from, to, now)?;
    ensure!(range.from < range.to, "{text:?}: the range ends before it starts");
    Ok(Some(Stored::Range(range)))
}

/// An aggregator, and what its history has.
pub(super) struct Source<'a> {
    api: &'a Api,
    known: OperationsPage,
    metrics: MetricsPage,
    /// These alone; all without any.
    operations: &'a [Operation],
    /// Nodes of which it was stated that they do not answer.
    stated: RefCell<BTreeSet<String>>,
}

impl<'a> Source<'a> {
    pub(super) async fn of(api: &'a Api, operations: &'a [Operation]) -> Result<Self> {
        let known = page(api, "/api/v1/operations").await?;
        let metrics = page(api, "/api/v1/metrics").await?;
        let stated = RefCell::default();
        Ok(Self { api, known, metrics, operations, stated })
    }

    /// The runs of a side as the aggregator has them.
    ///
    /// # Errors
    /// When the aggregator does not answer, keeps no history, has nothing of one, or does not keep
    /// samples of a run by its name.
    pub(super) async fn runs(&self, shown: &str, stored: &Stored) -> Result<Vec<LoadedRun>> {
        let sides: Vec<(String, HistorySide)> = match stored {
            Stored::Range(range) => vec![(shown.to_owned(), HistorySide::Range(*range))],
            Stored::Runs(text) => {
                let names = runs_of(text, &self.known)?.into_iter();
                names.map(|name| (name.clone(), HistorySide::Run(name))).collect()
            }
        };
        let mut runs = Vec::with_capacity(sides.len());
        for (name, of) in sides {
            if let HistorySide::Run(name) = &of {
                self.check_kept(name).await?;
            }
            let side = self.side(&of).await.with_context(|| name.clone())?;
            runs.push(LoadedRun { name, side });
        }
        Ok(runs)
    }

    /// The arms of a side, the one that is A first. Values without samples are left out unless
    /// they were named.
    ///
    /// # Errors
    /// As those of [`Self::runs`], and when there are too few arms or too many.
    pub(super) async fn arms(&self, stored: &Stored, arms: &Arms) -> Result<Vec<LoadedRun>> {
        let of = match stored {
            Stored::Range(range) => ArmOf::Range(*range),
            Stored::Runs(name) => match runs_of(name, &self.known)?.as_slice() {
                [only] => ArmOf::Run(only.clone()),
                several => bail!("--arms splits one run, and {name:?} are {}", several.len()),
            },
        };
        if let ArmOf::Run(name) = &of {
            self.check_kept(name).await?;
        }

        let Arms { label, values } = arms;
        let mut found = Vec::new();
        for value in arms_of(label, values, &self.known)? {
            let name = format!("{label}={value}");
            let arm = Group { rollup: label.clone(), value: value.clone() };
            match self.side(&HistorySide::Arm { of: of.clone(), arm }).await {
                Ok(side) => found.push(LoadedRun { name, side }),
                Err(error)
                    if error.downcast_ref() == Some(&NoSide::Empty) && !values.contains(&value) => {
                }
                Err(error) => return Err(error.context(name)),
            }
        }
        ensure!(found.len() > 1, NoSide::OneArm { label: label.clone(), found: found.len() });
        Ok(found)
    }

    async fn check_kept(&self, run: &str) -> Result<()> {
        let is_asked = |of: &Operation| self.operations.is_empty() || self.operations.contains(of);
        match runs::find(self.api, run).await.and_then(|row| row.not_kept(is_asked)) {
            Some(why) => bail!("{why}; --operation names others"),
            None => Ok(()),
        }
    }

    async fn side(&self, of: &HistorySide) -> Result<Side> {
        let now = Zoned::now().timestamp().as_millisecond() as f64 / 1e3;
        let mut reader = SideReader::new(of, &self.known, now)?;
        while let Some(request) = reader.next_request() {
            reader.on_answer(&self.points(&request).await?);
        }

        let mut side = reader.finish()?;
        let is_wanted = |of: &str| {
            self.operations.is_empty() || self.operations.iter().any(|name| name.as_str() == of)
        };
        let RateRequests { requests, left_out } =
            rate_requests(of, &side, &self.metrics, is_wanted);
        if left_out > 0 {
            eprintln!("plimsoll compare: {left_out} counters are left out; --operation names some");
        }
        for requests in requests.chunks(QUERY_METRICS_MAX) {
            for page in rate_pages(self.api, requests).await? {
                let name = Operation::new(&page.metric)?;
                side.rates.extend(measured_rate(&page).map(|rate| (name, rate)));
            }
        }
        Ok(side)
    }

    async fn points(&self, request: &HistoryRequest) -> Result<Vec<HistoryPoint>> {
        let Some(of_nodes) = request.of_nodes() else {
            return Ok(ask(self.api, request, None).await?.points);
        };
        if request.further.is_some() {
            let page = ask_nodes(self.api, &of_nodes).await?;
            self.state_missing(&page, "");
            return Ok(page.points);
        }

        let of_fleet = ask(self.api, request, None).await?.points;
        let found = ask_nodes(self.api, &of_nodes).await.ok();
        if let Some(page) = found {
            if is_whole(&page, &of_fleet) {
                return Ok(page.points);
            }
            self.state_missing(&page, "; slots of 10 s or more are compared");
        }
        Ok(of_fleet)
    }
}

impl Source<'_> {
    /// States once which nodes gave no history of their own.
    fn state_missing(&self, page: &HistoryPage, then: &str) {
        for node in page.nodes.iter().flatten() {
            if let Some(error) = &node.error
                && self.stated.borrow_mut().insert(node.node.clone())
            {
                eprintln!("plimsoll compare: {} is missing: {error}{then}", node.node);
            }
        }
    }
}

/// The pages of counters of one side, which the aggregator reads at once.
async fn rate_pages(api: &Api, requests: &[RateRequest]) -> Result<Vec<MetricHistoryPage>> {
    let Some(RateRequest { group, from, to, step, .. }) = requests.first() else {
        return Ok(Vec::new());
    };
    let mut parameters = of_range(group.as_ref(), *from, *to, *step).to_vec();
    parameters.extend(requests.iter().map(|request| ("metric", Some(request.metric.clone()))));
    let parameters: Vec<_> = parameters.iter().map(|(key, value)| (*key, value)).collect();
    let path = with_parameters("/api/v1/query", &parameters);
    if requests.len() == 1 {
        return Ok(vec![page(api, &path).await?]);
    }
    let MetricHistoryPages { pages } = page(api, &path).await?;
    Ok(pages)
}

/// What all nodes answer from their own histories.
async fn ask_nodes(api: &Api, request: &HistoryRequest) -> Result<HistoryPage> {
    let labels = request.labels().map(|(key, value)| format!("{key}={value}"));
    let labels: Vec<String> = labels.collect();
    let to_all = HistoryRequest { group: None, ..request.clone() };
    ask(api, &to_all, Some(labels)).await
}

/// Asks the fleet's history, or all nodes with these labels.
async fn ask(
    api: &Api,
    request: &HistoryRequest,
    of_nodes: Option<Vec<String>>,
) -> Result<HistoryPage> {
    let HistoryRequest { operation, group, from, to, step, with_distribution, .. } = request;
    let mut parameters = of_range(group.as_ref(), *from, *to, *step).to_vec();
    parameters.push(("operation", Some(operation.clone())));
    parameters.push(("quantiles", Some("0.5".to_owned())));
    parameters.push(("distribution", Some(with_distribution.to_string())));
    parameters.push(("node", of_nodes.is_some().then(|| "*".to_owned())));
    parameters.extend(of_nodes.into_iter().flatten().map(|label| ("label", Some(label))));

    let parameters: Vec<_> = parameters.iter().map(|(key, value)| (*key, value)).collect();
    let path = with_parameters("/api/v1/query", &parameters);
    // JSON would list each bucket: twenty times the bytes.
    let bytes = api.fetch(&path, MESSAGEPACK, HISTORY_ANSWER_BYTES_MAX).await?;
    HistoryPage::from_messagepack(&bytes).context("/api/v1/query has an unexpected form")
}

fn of_range(
    group: Option<&Group>,
    from: f64,
    to: f64,
    step: f64,
) -> [(&'static str, Option<String>); 5] {
    [
        ("rollup", group.map(|of| of.rollup.clone())),
        ("value", group.map(|of| of.value.clone())),
        ("from", Some(from.to_string())),
        ("to", Some(to.to_string())),
        ("step", Some(format!("{step}s"))),
    ]
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use jiff::tz::TimeZone;

    use super::*;

    #[test]
    fn runs_and_ranges_differ_from_files() {
        let now = Timestamp::from_second(1_700_000_000).unwrap().to_zoned(TimeZone::UTC);
        let of = |text: &str| named(text, &now);
        assert_eq!(of("a.hlog").unwrap(), None);
        assert_eq!(of("run:v42-*").unwrap(), Some(Stored::Runs("v42-*".to_owned())));
        let range = SecondsRange { from: 1_699_992_000.0, to: 1_699_993_800.0 };
        assert_eq!(of("range:20:00/20:30").unwrap(), Some(Stored::Range(range)));
        let error = of("range:20:30/20:00").unwrap_err().to_string();
        assert!(error.ends_with("the range ends before it starts"), "{error}");
        assert!(of("range:20:30").unwrap_err().to_string().contains("write range:FROM/TO"));
    }
}
