//! What Prometheus makes of a classic histogram: `rate`, `histogram_quantile` and `for`, as its
//! documentation and its source (promql/functions.go and quantile.go of 2.42) have them.

use std::collections::VecDeque;

/// Seconds between scrapes, and between evaluations.
pub(crate) const EVERY: u64 = 15;
/// The range of `rate` and the wait of `for`, in seconds.
pub(crate) const MINUTE: f64 = 60.0;
/// The default buckets of Prometheus' client libraries, in seconds.
pub(crate) const DEFAULT_BUCKETS: [f64; 11] =
    [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];

/// `rate` of a counter over the range that ends at `at`, from its (time, value) points within
/// that range. Counters here are never reset.
#[expect(clippy::cast_precision_loss, reason = "a handful of points")]
pub(crate) fn rate(points: &[(f64, f64)], at: f64, range: f64) -> Option<f64> {
    let [first, .., last] = points else { return None };
    let increase = last.1 - first.1;
    let sampled = last.0 - first.0;
    let average = sampled / (points.len() - 1) as f64;
    let mut to_start = first.0 - (at - range);
    if increase > 0.0 {
        // A counter cannot have been below zero.
        to_start = to_start.min(sampled * (first.1 / increase));
    }
    let reach = |gap: f64| if gap < average * 1.1 { gap } else { average / 2.0 };
    let extrapolated = sampled + reach(to_start) + reach(at - last.0);
    Some(increase * (extrapolated / sampled / range))
}

/// `histogram_quantile` of cumulative (upper edge, rate) buckets, the last of which is `+Inf`.
pub(crate) fn histogram_quantile(quantile: f64, buckets: &[(f64, f64)]) -> f64 {
    let mut most = 0.0;
    // Rates are extrapolated bucket by bucket, and may not rise from each to the next.
    let monotonic = buckets.iter().map(|(edge, count)| {
        most = count.max(most);
        (*edge, most)
    });
    let buckets: Vec<_> = monotonic.collect();
    let Some(((_, observations), finite)) = buckets.split_last() else { return f64::NAN };
    if *observations == 0.0 || finite.is_empty() {
        return f64::NAN;
    }
    let rank = quantile * observations;
    let Some(found) = finite.iter().position(|(_, count)| *count >= rank) else {
        return finite[finite.len() - 1].0;
    };
    let (start, below) = if found == 0 { (0.0, 0.0) } else { finite[found - 1] };
    let (end, count) = finite[found];
    start + (end - start) * ((rank - below) / (count - below))
}

/// A job's histogram and the rule `histogram_quantile(0.99, rate(..[1m])) > limit for 1m`.
#[derive(Clone)]
pub(crate) struct Prometheus {
    limit: f64,
    /// Upper edges in seconds and in whole nanoseconds, ascending, without `+Inf`.
    edges: Vec<(f64, u64)>,
    /// Samples in each bucket, not cumulative; the last is above all edges.
    counts: Vec<u64>,
    /// Second, and cumulative counts then.
    scraped: VecDeque<(u64, Vec<u64>)>,
    /// Since when the expression has held.
    pending: Option<u64>,
    firing: bool,
    scrapes_at: u64,
    evaluates_at: u64,
}

impl Prometheus {
    /// Scrapes and evaluates at these seconds of every fifteen, which differ.
    pub(crate) fn new(limit: f64, buckets: &[f64], (scrapes_at, evaluates_at): (u64, u64)) -> Self {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "positive")]
        let edges: Vec<_> = buckets.iter().map(|le| (*le, (le * 1e9).round() as u64)).collect();
        let counts = vec![0; edges.len() + 1];
        let scraped = VecDeque::new();
        Self {
            limit,
            edges,
            counts,
            scraped,
            pending: None,
            firing: false,
            scrapes_at,
            evaluates_at,
        }
    }

    /// The job's samples of one second, in nanoseconds.
    pub(crate) fn observe(&mut self, samples: &[u64]) {
        for sample in samples {
            let bucket = self.edges.iter().take_while(|(_, edge)| sample > edge).count();
            self.counts[bucket] += 1;
        }
    }

    /// Whether the alert fires at the end of a second.
    pub(crate) fn fires(&mut self, second: u64) -> bool {
        if second % EVERY == self.scrapes_at {
            self.scrape(second);
        }
        if second % EVERY == self.evaluates_at {
            self.evaluate(second);
        }
        self.firing
    }

    fn scrape(&mut self, second: u64) {
        let sum = |sum: &mut u64, n: &u64| {
            *sum += n;
            Some(*sum)
        };
        self.scraped.push_back((second, self.counts.iter().scan(0, sum).collect()));
        // No scrape falls together with an evaluation, so a minute holds four.
        if self.scraped.len() > 4 {
            self.scraped.pop_front();
        }
    }

    fn evaluate(&mut self, second: u64) {
        // A quantile that is no number is above nothing.
        let over = self.quantile(second).is_some_and(|quantile| quantile > self.limit);
        self.pending = if over { self.pending.or(Some(second)) } else { None };
        #[expect(clippy::cast_precision_loss, reason = "days in seconds")]
        let lasted = |since: u64| (second - since) as f64 >= MINUTE;
        self.firing = self.pending.is_some_and(lasted);
    }

    /// The p99 as the expression has it in a second; none of too few scrapes.
    #[expect(clippy::cast_precision_loss, reason = "counts stay below 2^53")]
    pub(crate) fn quantile(&self, second: u64) -> Option<f64> {
        let at = second as f64;
        let seen = || self.scraped.iter().filter(|(then, _)| *then as f64 >= at - MINUTE);
        let edges = self.edges.iter().map(|(le, _)| *le).chain([f64::INFINITY]);
        let buckets = edges.enumerate().map(|(bucket, le)| {
            let points: Vec<_> =
                seen().map(|(then, counts)| (*then as f64, counts[bucket] as f64)).collect();
            rate(&points, at, MINUTE).map(|rate| (le, rate))
        });
        let buckets: Option<Vec<_>> = buckets.collect();
        buckets.map(|buckets| histogram_quantile(0.99, &buckets))
    }
}
