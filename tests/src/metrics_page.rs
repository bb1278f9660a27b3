//! A `/metrics` page as numbers, and the findings of Prometheus' own linter about its text.

use std::collections::BTreeMap;
use std::io::{Seek, Write};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result};
use plimsoll_mesh::child::until;
use plimsoll_runtime::client::Api;

const WAIT: Duration = Duration::from_secs(60);

#[derive(Clone, Debug, PartialEq)]
pub struct MetricsPage(BTreeMap<String, f64>);

impl MetricsPage {
    /// Scrapes a process.
    ///
    /// # Errors
    /// When it does not respond, or a line is not a sample.
    pub async fn of(api: &Api) -> Result<Self> {
        Self::parse(&api.get("/metrics").await?)
    }

    /// Reads Prometheus text.
    ///
    /// # Errors
    /// Names the line that is not a sample.
    pub fn parse(text: &str) -> Result<Self> {
        let sample = |line: &str| {
            let (series, value) = line.rsplit_once(' ')?;
            Some((series.to_owned(), value.parse().ok()?))
        };
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        let samples =
            lines.map(|line| sample(line).with_context(|| format!("not a sample: {line}")));
        Ok(Self(samples.collect::<Result<_>>()?))
    }

    /// The value of one series, by its exact name and labels.
    pub fn value(&self, series: &str) -> Option<f64> {
        self.0.get(series).copied()
    }

    /// All series of one family.
    pub fn family<'a>(&'a self, name: &'a str) -> impl Iterator<Item = (&'a str, f64)> {
        let in_family = move |series: &str| {
            series.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('{'))
        };
        let samples = self.0.iter().map(|(series, value)| (series.as_str(), *value));
        samples.filter(move |(series, _)| in_family(series))
    }

    /// The values of one family, added up.
    pub fn sum(&self, name: &str) -> f64 {
        self.family(name).map(|(_, value)| value).sum()
    }

    /// One family whose only label is `label`, as a map from the label to the value of the series.
    pub fn by_label(&self, name: &str, label: &str) -> BTreeMap<String, f64> {
        let (open, close) = (format!("{name}{{{label}=\""), "\"}");
        let rows = self.0.iter().filter_map(|(series, value)| {
            let inner = series.strip_prefix(&open)?.strip_suffix(close)?;
            Some((inner.to_owned(), *value))
        });
        rows.collect()
    }
}

/// Waits until a process exports this value of one series.
///
/// # Errors
/// When it does not in time; the text holds the last value.
pub async fn await_value(api: &Api, series: &str, value: f64) -> Result<()> {
    let equal = until(series, WAIT, async || {
        api.metric(series).await.ok().flatten().filter(|seen| *seen == value).map(drop)
    });
    let equal = equal.await;
    let Err(error) = equal else { return Ok(()) };
    Err(error.context(format!("it is {:?}, not {value}", api.metric(series).await)))
}

/// What `promtool check metrics` reports about a page; empty when it is clean.
///
/// # Errors
/// When promtool cannot be run.
pub fn promtool_findings(text: &str) -> Result<String> {
    let mut page = tempfile::tempfile()?;
    page.write_all(text.as_bytes())?;
    page.rewind()?;
    let linter = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::from(page))
        .output()
        .context("promtool is not installed; on Debian or Ubuntu: apt-get install prometheus")?;
    let output =
        [linter.stdout, linter.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    let verdict = if linter.status.success() { String::new() } else { linter.status.to_string() };
    Ok(format!("{verdict}{}", output.concat()))
}

/// The headers and the body of a page for a client that accepts this type and encoding.
///
/// # Errors
/// When there is no response.
pub async fn get_accepting(
    api: &Api,
    path: &str,
    accept: &str,
    encoding: &str,
) -> Result<(reqwest::header::HeaderMap, Vec<u8>)> {
    let request = reqwest::Client::new().get(format!("{}{path}", api.url()));
    let answer = request.header("accept", accept).header("accept-encoding", encoding).send();
    let answer = answer.await?.error_for_status()?;
    Ok((answer.headers().clone(), answer.bytes().await?.into()))
}

/// The status and the body of one response, also of an error.
///
/// # Errors
/// When there is no response.
pub async fn get_any_status(api: &Api, path: &str) -> Result<(u16, String)> {
    let answer = reqwest::get(format!("{}{path}", api.url())).await?;
    Ok((answer.status().as_u16(), answer.text().await?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_read_by_series_family_and_label() {
        let page =
            MetricsPage::parse("# HELP a x\na{r=\"x y\"} 1\na{r=\"z\"} 2.5\nab 7\n").unwrap();
        assert_eq!(page.value("a{r=\"x y\"}"), Some(1.0));
        assert_eq!(page.sum("a"), 3.5);
        assert_eq!(
            page.by_label("a", "r"),
            BTreeMap::from([("x y".into(), 1.0), ("z".into(), 2.5)])
        );
        assert!(MetricsPage::parse("a one\n").is_err());
    }

    #[test]
    fn the_linter_runs() {
        assert!(promtool_findings("plimsoll_x 1\n").unwrap().contains("help text"));
        assert_eq!(
            promtool_findings("# HELP a_ratio A\n# TYPE a_ratio gauge\na_ratio 1\n").unwrap(),
            ""
        );
    }
}
