//! State of one GPU, and its readings. It outlives the driver: a GPU that cannot be queried any
//! more keeps all its readings under their labels, and none has a value.

use std::time::Duration;

use plimsoll_schemas::hardware::{
    GPU_CLOCK_LIMIT_HERTZ, GPU_THROTTLE_REASON, GPU_THROTTLE_SECONDS_TOTAL, GPU_THROTTLED,
    MissingReading, Sensor,
};
use plimsoll_schemas::time::Mono;

use super::super::gather::Gather;
use super::super::scale::Raw;
use super::aside::Finding;
use super::faults::Faults;
use super::fold::{DOMAINS, FIGURES, Folded, OF_CLOCKS, OF_SINGLES, Poll, SINGLES, Spread};
use super::links::Links;
use super::throttle::Throttle;

/// One GPU since the agent began.
pub(super) struct Gpu {
    /// NVML's number for it when it was first seen: the label `gpu`, for good.
    pub(super) number: usize,
    pub(super) uuid: Option<String>,
    pub(super) name: Option<String>,
    /// Why it cannot be queried now.
    pub(super) lost: Option<MissingReading>,
    pub(super) faults: Faults,
    pub(super) links: Links,
    pub(super) each_interval: Vec<Finding>,
    pub(super) seldom: Vec<Finding>,
    pub(super) seldom_due: Mono,
    figures: [Spread; FIGURES],
    throttle: Throttle,
    polled: Option<Mono>,
}

impl Gpu {
    pub(super) fn new(number: usize, uuid: Option<String>) -> Self {
        Self {
            number,
            uuid,
            name: None,
            lost: None,
            faults: Faults::default(),
            links: Links::default(),
            each_interval: Vec::new(),
            seldom: Vec::new(),
            seldom_due: Mono(0),
            figures: [Spread::default(); FIGURES],
            throttle: Throttle::default(),
            polled: None,
        }
    }

    /// Adds one poll to the interval.
    pub(super) fn on_poll(&mut self, now: Mono, poll: &Poll) {
        let since = self.polled.replace(now).map_or(Duration::ZERO, |polled| now.since(polled));
        for (spread, raw) in self.figures.iter_mut().zip(poll.figures) {
            spread.add(raw);
        }
        self.throttle.add(poll.throttle_bits, since);
    }

    /// Adds the interval's readings to `gather` and begins the next one.
    pub(super) fn close(&mut self, gather: &mut Gather) {
        let number = self.number.to_string();
        let name = self.name.as_deref().map(|name| ("name", name));
        let identity: Vec<_> = [("gpu", number.as_str())].into_iter().chain(name).collect();
        let mut out = Out { gather, identity: &identity, lost: self.lost };

        for (folded, spread) in OF_SINGLES.iter().zip(&self.figures) {
            out.put_folded(folded, None, spread);
        }
        for (domain, spread) in DOMAINS.into_iter().zip(&self.figures[SINGLES..]) {
            out.put_folded(&OF_CLOCKS, Some(("domain", domain)), spread);
        }

        for (reason, held, seconds) in self.throttle.by_reason() {
            let label = Some(("reason", reason));
            out.put(&GPU_THROTTLE_REASON, label, held);
            out.put(&GPU_THROTTLE_SECONDS_TOTAL, label, seconds);
        }

        let limit = clock_limit(&self.seldom);
        out.put(&GPU_THROTTLED, None, self.throttle.by_heat(&self.figures, limit));
        let faults = self.faults.findings();

        for finding in faults.iter().chain(&self.each_interval).chain(&self.seldom) {
            let label = finding.label.as_ref().map(|(key, which)| (*key, which.as_str()));
            out.put(finding.sensor, label, finding.raw);
        }

        self.figures = [Spread::default(); FIGURES];
        self.throttle.next();
    }
}

/// The graphics clock's limit, the first of the domains.
fn clock_limit(seldom: &[Finding]) -> Raw {
    let limit = seldom.iter().find(|finding| *finding.sensor == GPU_CLOCK_LIMIT_HERTZ);
    limit.map_or(Err(MissingReading::failed("not_asked")), |finding| finding.raw)
}

struct Out<'a> {
    gather: &'a mut Gather,
    identity: &'a [(&'a str, &'a str)],
    lost: Option<MissingReading>,
}

impl Out<'_> {
    fn put(&mut self, sensor: &Sensor, label: Option<(&str, &str)>, raw: Raw) {
        let labels: Vec<_> = self.identity.iter().copied().chain(label).collect();
        self.gather.put_with(sensor, &labels, self.lost.map_or(raw, Err));
    }

    fn put_folded(&mut self, folded: &Folded, label: Option<(&str, &str)>, spread: &Spread) {
        self.put(folded.mean, label, spread.mean());
        if let Some((least, most)) = folded.bounds {
            self.put(least, label, spread.least());
            self.put(most, label, spread.most());
        }
    }
}
