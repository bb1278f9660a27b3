//! Renders pages from the driver's read views, on threads of their own. One page of a page is
//! rendered at a time; it serves every request that comes meanwhile, and those that come within as
//! long again.
//!
//! A read view costs the driver little; merging windows, writing text and compressing happen here.
//! A page that renders quickly is hardly ever served twice, so it is current. One that renders
//! slowly is rendered for half of the time at most, however many clients request it: on one core,
//! and the page of all nodes on half of them at a low priority.

use std::collections::BTreeMap;
use std::io::Write;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use plimsoll_clock::Clock;
use plimsoll_schemas::time::Mono;
use tokio::sync::Mutex as Turn;
use tokio::task::spawn_blocking;

use super::parts;
use super::query::PageSource;
use super::refusal::{Refusal, computed};
use super::stream::Streams;
use crate::config::Metrics;
use crate::core::view::{Nodes, ViewQuery};
use crate::exposition::{Format, PageOptions, ServingStats, page};

/// The pages that are rendered from a read view.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Page {
    /// `/metrics`.
    Metrics(Format),
    /// `/metrics/nodes`.
    Nodes(Format),
    /// `/metrics/summary`.
    Summary,
    /// `/metrics/summary?nodes=0`.
    FleetSummary,
    /// `/api/v1/ledger`.
    Ledger,
    /// `/api/v1/headroom`.
    Headroom,
    /// `/api/v1/backpressure`.
    Backpressure,
    /// `/api/v1/blame`.
    Blame,
}

impl Page {
    const JSON: [Self; 6] = [
        Self::Summary,
        Self::FleetSummary,
        Self::Ledger,
        Self::Headroom,
        Self::Backpressure,
        Self::Blame,
    ];

    fn all() -> impl Iterator<Item = Self> {
        let formats = Format::ALL.into_iter();
        let pages = formats.flat_map(|format| [Self::Metrics(format), Self::Nodes(format)]);
        pages.chain(Self::JSON)
    }

    /// Page and format as labels.
    const fn labels(self) -> (&'static str, &'static str) {
        match self {
            Self::Metrics(format) => ("metrics", format.as_str()),
            Self::Nodes(format) => ("nodes", format.as_str()),
            Self::Summary => ("summary", "json"),
            Self::FleetSummary => ("fleet_summary", "json"),
            Self::Ledger => ("ledger", "json"),
            Self::Headroom => ("headroom", "json"),
            Self::Backpressure => ("backpressure", "json"),
            Self::Blame => ("blame", "json"),
        }
    }

    pub(super) const fn content_type(self) -> &'static str {
        match self {
            Self::Metrics(format) | Self::Nodes(format) => format.content_type(),
            _ => "application/json",
        }
    }
}

#[derive(Clone)]
struct Rendered {
    /// When rendering ended, and how long it took.
    at: Mono,
    took: Duration,
    plain: Bytes,
    gzip: Option<Bytes>,
}

impl Rendered {
    fn is_stale(&self, now: Mono) -> bool {
        now.since(self.at) >= self.took
    }
}

/// The latest rendering of each page.
pub(super) struct Pages {
    settings: Metrics,
    clock: Clock,
    rendered: BTreeMap<Page, Turn<Option<Rendered>>>,
    stats: Mutex<ServingStats>,
    streams: Arc<Streams>,
}

impl Pages {
    pub(super) fn new(settings: &Metrics, streams: Arc<Streams>) -> Self {
        Self {
            settings: settings.clone(),
            clock: Clock::start(),
            rendered: Page::all().map(|page| (page, Turn::default())).collect(),
            stats: Mutex::default(),
            streams,
        }
    }

    /// A page; `read_view` is polled when it has to be rendered.
    pub(super) async fn get(
        self: &Arc<Self>,
        page: Page,
        gzip: bool,
        read_view: impl Future<Output = Result<Arc<PageSource>, Refusal>>,
    ) -> Result<Bytes, Refusal> {
        let mut turn = self.rendered[&page].lock().await;
        let now = self.clock.now().mono;

        if turn.as_ref().is_none_or(|rendered| rendered.is_stale(now)) {
            // Freed first, so that the old and the new text
            // of a large page are not in memory together.
            *turn = None;
            self.drop_stale(now);
            let source = read_view.await?;
            // A page from before the aggregator was ready must not be served after it is.
            let ready = source.view.ready;
            let begun = self.clock.now().mono;
            let pages = Arc::clone(self);
            let plain = computed(move || pages.render(page, source)).await?;
            let at = self.clock.now().mono;
            let took = if ready { at.since(begun) } else { Duration::ZERO };
            *turn = Some(Rendered { at, took, plain, gzip: None });
        }

        let rendered = turn.as_mut().ok_or_else(Refusal::ending)?;
        self.count(page, if gzip { "gzip" } else { "identity" });
        if !gzip {
            return Ok(rendered.plain.clone());
        }
        if let Some(gzip) = &rendered.gzip {
            return Ok(gzip.clone());
        }
        let plain = rendered.plain.clone();
        // At the fastest level, since pages mostly travel within a site.
        let gzip = computed(move || compressed(&plain, Compression::fast())).await?;
        rendered.gzip = Some(gzip.clone());
        Ok(gzip)
    }

    /// Frees stale pages, but for those that are being rendered.
    fn drop_stale(&self, now: Mono) {
        for page in self.rendered.values() {
            if let Ok(mut rendered) = page.try_lock() {
                rendered.take_if(|rendered| rendered.is_stale(now));
            }
        }
    }

    /// The last reference to a read view often ends here, off the driver's thread, and no response
    /// waits for it.
    fn render(&self, kind: Page, source: Arc<PageSource>) -> Bytes {
        let state = &source.view;
        let begun = self.clock.now().mono;
        let options = PageOptions { budgets: &state.rules.budgets, aliases: self.settings.aliases };
        let nodes = Nodes::Worst(self.settings.nodes_max);
        let view = |nodes, native| state.view(ViewQuery { fleet: true, nodes, native });

        let body = match kind {
            Page::Metrics(format) => {
                let view = view(nodes, format == Format::Protobuf);
                page(&view, options, &self.serving(&source), format)
            }
            Page::Nodes(format) => parts::render(state, options, format, parts::threads()),
            Page::Summary => json(&view(nodes, false).summary),
            Page::FleetSummary => json(&view(Nodes::Worst(0), false).summary),
            Page::Ledger => json(&state.ledger_page()),
            Page::Headroom => json(&state.headroom_page()),
            Page::Backpressure => json(&state.backpressure_page()),
            Page::Blame => json(&state.blame),
        };

        drop(spawn_blocking(move || drop(source)));
        let spent = self.clock.now().mono.since(begun);
        let mut serving = self.stats.lock().unwrap_or_else(PoisonError::into_inner);
        let stats = serving.pages.entry(kind.labels()).or_default();
        stats.rendered += 1;
        stats.total += spent;
        stats.bytes = body.len() as u64;
        body.into()
    }

    fn serving(&self, source: &PageSource) -> ServingStats {
        let (views, connections) = (source.views, source.connections.clone());
        let stats = self.stats.lock().unwrap_or_else(PoisonError::into_inner).clone();
        ServingStats { views, connections, streams: self.streams.stats(), ..stats }
    }

    fn count(&self, page: Page, encoding: &'static str) {
        let mut serving = self.stats.lock().unwrap_or_else(PoisonError::into_inner);
        let (page, format) = page.labels();
        *serving.responses.entry((page, format, encoding)).or_default() += 1;
    }
}

fn json(page: &impl serde::Serialize) -> Vec<u8> {
    let written = serde_json::to_vec(page);
    written.unwrap_or_else(|error| {
        tracing::error!(%error, "page cannot be encoded as JSON");
        b"null".to_vec()
    })
}

pub(super) fn compressed(plain: &[u8], level: Compression) -> Bytes {
    let mut encoder = GzEncoder::new(Vec::with_capacity(plain.len() / 8), level);
    // Writing to memory cannot fail.
    let written = encoder.write_all(plain).and_then(|()| encoder.finish());
    written.unwrap_or_default().into()
}
