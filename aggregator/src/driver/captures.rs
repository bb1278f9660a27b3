//! Carries out what captures need: requests to nodes, writes, and differences of two profiles, each
//! in a task that reports to the core what came of it.
//!
//! DESIGN A183.

use std::panic::{AssertUnwindSafe, catch_unwind};

use plimsoll_schemas::time::Now;
use plimsoll_schemas::wire::capture::CaptureId;
use plimsoll_schemas::wire::signature::ConfirmKey;
use tokio::task::JoinSet;

use crate::core::Core;
use crate::core::captures::CaptureEffect;
use crate::io::asker::AskHandle;
use crate::io::profiles::{ProfileStore, Sums, evidence};

/// Reports to the core what a task has done.
pub(super) type CaptureReport = Box<dyn FnOnce(&mut Core, Now) + Send>;

/// The tasks, of which each capture has at most one.
#[derive(Debug)]
pub(super) struct CaptureTasks {
    tasks: JoinSet<CaptureReport>,
    pub(super) store: ProfileStore,
    sums: Sums,
    page_url: String,
}

impl CaptureTasks {
    pub(super) fn new(store: ProfileStore, page_url: String) -> Self {
        Self { tasks: JoinSet::new(), store, sums: Sums::default(), page_url }
    }

    /// The next report; for ever none while no task runs.
    pub(super) async fn next(&mut self) -> CaptureReport {
        loop {
            match self.tasks.join_next().await {
                Some(Ok(report)) => return report,
                // A difference: requests and writes report whatever happens.
                Some(Err(error)) => tracing::error!(%error, "task of a capture failed"),
                None => std::future::pending().await,
            }
        }
    }

    /// Starts all that is due.
    pub(super) fn start_due(
        &mut self,
        core: &mut Core,
        now: Now,
        asker: &AskHandle,
        key: &ConfirmKey,
    ) {
        while let Some(effect) = core.captures_mut().next_effect(now) {
            let store = self.store.clone();
            match effect {
                CaptureEffect::Request { id, node, step } => {
                    let (asker, key) = (asker.clone(), key.clone());
                    self.tasks.spawn(async move {
                        let response = asker.capture(&node, id, step, &key).await;
                        reporting(move |core, now| {
                            core.captures_mut().on_response(now, id, response);
                        })
                    });
                }
                CaptureEffect::Store { row, bytes } => {
                    self.store(row.id, move || store.write(now.wall, *row, &bytes));
                }
                CaptureEffect::Add { sum, part, bytes } => {
                    let sums = self.sums.clone();
                    self.store(part, move || sums.add(sum, &bytes));
                }
                CaptureEffect::StoreSum(mut row) => {
                    let sums = self.sums.clone();
                    self.store(row.id, move || {
                        let bytes = sums.take(row.id)?;
                        row.bytes = bytes.len() as u64;
                        store.write(now.wall, *row, &bytes)
                    });
                }
                CaptureEffect::Compare(pair) => {
                    let page_url = self.page_url.clone();
                    self.tasks.spawn_blocking(move || {
                        let found = evidence(&store, now.wall, &pair, &page_url);
                        let alert = pair.of.alert;
                        reporting(move |core, now| match found {
                            Ok(found) => core.on_compared(now.wall, &alert, found),
                            Err(error) => {
                                tracing::warn!(%alert, %error, "profiles of an alert not compared");
                            }
                        })
                    });
                }
            }
        }
    }

    fn store(
        &mut self,
        id: CaptureId,
        store: impl FnOnce() -> Result<(), &'static str> + Send + 'static,
    ) {
        self.tasks.spawn_blocking(move || {
            let stored = catch_unwind(AssertUnwindSafe(store)).unwrap_or(Err("not_stored"));
            reporting(move |core, _| core.captures_mut().on_stored(id, stored))
        });
    }
}

fn reporting(report: impl FnOnce(&mut Core, Now) + Send + 'static) -> CaptureReport {
    Box::new(report)
}
