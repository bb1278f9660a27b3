//! Pages made from what the driver knows: on threads of their own, one of a kind at a time, and
//! shared by all who ask while it is being made, and for as long again.
//!
//! The driver gives out a [`Look`], which costs it little; to merge windows, write text and
//! compress it is done here. A page that is quickly made is hardly ever used twice, so it shows
//! what is; one that takes long keeps at most half a core busy, however many ask.

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

use super::Look;
use crate::config::Metrics;
use crate::core::view::{Nodes, ViewQuery};
use crate::exposition::{Format, Own, Shown, nodes_page, page};

/// A page of one kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    /// `/metrics`.
    Metrics(Format),
    /// `/metrics/nodes`.
    Nodes(Format),
    /// `/metrics/summary`.
    Summary,
    /// `/api/v1/ledger`.
    Ledger,
}

impl Kind {
    fn all() -> impl Iterator<Item = Self> {
        let formats = Format::ALL.into_iter();
        let pages = formats.flat_map(|format| [Self::Metrics(format), Self::Nodes(format)]);
        pages.chain([Self::Summary, Self::Ledger])
    }

    /// Page and format as labels.
    const fn labels(self) -> (&'static str, &'static str) {
        match self {
            Self::Metrics(format) => ("metrics", format.as_str()),
            Self::Nodes(format) => ("nodes", format.as_str()),
            Self::Summary => ("summary", "json"),
            Self::Ledger => ("ledger", "json"),
        }
    }

    pub(super) const fn content_type(self) -> &'static str {
        match self {
            Self::Metrics(format) | Self::Nodes(format) => format.content_type(),
            Self::Summary | Self::Ledger => "application/json",
        }
    }
}

/// A finished page.
#[derive(Clone)]
struct Made {
    /// When it was finished, and how long that took.
    at: Mono,
    took: Duration,
    plain: Bytes,
    gzip: Option<Bytes>,
}

impl Made {
    fn is_stale(&self, now: Mono) -> bool {
        now.since(self.at) >= self.took
    }
}

/// All pages, and what is needed to make them.
pub(super) struct Pages {
    settings: Metrics,
    clock: Clock,
    made: BTreeMap<Kind, Turn<Option<Made>>>,
    own: Mutex<Own>,
}

impl Pages {
    pub(super) fn new(settings: &Metrics) -> Self {
        Self {
            settings: settings.clone(),
            clock: Clock::start(),
            made: Kind::all().map(|kind| (kind, Turn::default())).collect(),
            own: Mutex::default(),
        }
    }

    /// A page; `look` asks the driver what it knows, once it is this asker's turn. `None` when
    /// nobody knows any more.
    pub(super) async fn get(
        self: &Arc<Self>,
        kind: Kind,
        gzip: bool,
        look: impl Future<Output = Option<Arc<Look>>>,
    ) -> Option<Bytes> {
        let mut turn = self.made.get(&kind)?.lock().await;
        let asked = self.clock.now().mono;
        if turn.as_ref().is_none_or(|made| made.is_stale(asked)) {
            *turn = None;
            self.forget_stale(asked);
            let look = look.await?;
            // What is shown before the past was read must not be shown again after it was.
            let ready = look.still.ready;
            let begun = self.clock.now().mono;
            let pages = Arc::clone(self);
            let plain = spawn_blocking(move || pages.make(kind, look)).await.ok()?;
            let at = self.clock.now().mono;
            let took = if ready { at.since(begun) } else { Duration::ZERO };
            *turn = Some(Made { at, took, plain, gzip: None });
        }
        let made = turn.as_mut()?;
        self.count(kind, if gzip { "gzip" } else { "identity" });
        if !gzip {
            return Some(made.plain.clone());
        }
        if made.gzip.is_none() {
            let plain = made.plain.clone();
            made.gzip = Some(spawn_blocking(move || compressed(&plain)).await.ok()?);
        }
        made.gzip.clone()
    }

    /// Stale pages serve nobody any more; those that are just being made go later.
    fn forget_stale(&self, now: Mono) {
        for page in self.made.values() {
            if let Ok(mut made) = page.try_lock() {
                made.take_if(|made| made.is_stale(now));
            }
        }
    }

    /// The last reference to a look often ends here, off the driver's thread.
    fn make(&self, kind: Kind, look: Arc<Look>) -> Bytes {
        let still = &look.still;
        let begun = self.clock.now().mono;
        let shown = Shown { budgets: &still.rules.budgets, aliases: self.settings.aliases };
        let nodes = Nodes::Worst(self.settings.nodes_max);
        let native = |format| format == Format::Protobuf;
        let page = match kind {
            Kind::Metrics(format) => {
                let view = still.view(ViewQuery { fleet: true, nodes, native: native(format) });
                page(&view, shown, &self.own(&look), format)
            }
            Kind::Nodes(format) => {
                let nodes = Nodes::All;
                let view = still.view(ViewQuery { fleet: false, nodes, native: native(format) });
                nodes_page(&view, shown, format)
            }
            Kind::Summary => {
                json(&still.view(ViewQuery { fleet: true, nodes, native: false }).summary)
            }
            Kind::Ledger => json(&still.ledger_page()),
        };
        drop(look);
        let spent = self.clock.now().mono.since(begun);
        let mut own = self.own.lock().unwrap_or_else(PoisonError::into_inner);
        let figures = own.pages.entry(kind.labels()).or_default();
        figures.times += 1;
        figures.spent += spent;
        figures.bytes = page.len() as u64;
        page.into()
    }

    fn own(&self, look: &Look) -> Own {
        let (looks, connections) = (look.looks, look.connections.clone());
        let own = self.own.lock().unwrap_or_else(PoisonError::into_inner).clone();
        Own { looks, connections, ..own }
    }

    fn count(&self, kind: Kind, encoding: &'static str) {
        let mut own = self.own.lock().unwrap_or_else(PoisonError::into_inner);
        let (page, format) = kind.labels();
        *own.answers.entry((page, format, encoding)).or_default() += 1;
    }
}

fn json(page: &impl serde::Serialize) -> Vec<u8> {
    let written = serde_json::to_vec(page);
    written.unwrap_or_else(|error| {
        tracing::error!(%error, "a page cannot be written as JSON");
        b"null".to_vec()
    })
}

/// At the fastest level: a page goes to a neighbour, and is thrown away after it was read.
fn compressed(plain: &[u8]) -> Bytes {
    let mut encoder = GzEncoder::new(Vec::with_capacity(plain.len() / 8), Compression::fast());
    // Writing to memory cannot fail.
    let written = encoder.write_all(plain).and_then(|()| encoder.finish());
    written.unwrap_or_default().into()
}
