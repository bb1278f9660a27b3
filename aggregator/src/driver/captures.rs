//! Carries out what captures need: requests to nodes, writes, and differences of two profiles, each
//! in a task that reports what came of it.
//!
//! DESIGN A183.

use std::panic::{AssertUnwindSafe, catch_unwind};

use plimsoll_schemas::alert::{AlertKey, ProfileEvidence};
use plimsoll_schemas::time::{Now, Wall};
use plimsoll_schemas::wire::capture::{CaptureId, CaptureResponse};
use plimsoll_schemas::wire::signature::ConfirmKey;
use tokio::task::JoinSet;

use crate::core::Core;
use crate::core::captures::{CaptureEffect, ComparedPair, RequestError};
use crate::io::asker::AskHandle;
use crate::io::profiles::{ProfileStore, evidence};

/// The tasks, of which each capture has at most one.
#[derive(Debug)]
pub(super) struct CaptureTasks {
    tasks: JoinSet<CaptureReport>,
    pub(super) store: ProfileStore,
    page_url: String,
}

/// What came of an effect.
#[derive(Debug)]
pub(super) enum CaptureReport {
    Response(CaptureId, Result<CaptureResponse, RequestError>),
    Stored(CaptureId, Result<(), &'static str>),
    Compared(AlertKey, ProfileEvidence),
    /// Two profiles could not be compared.
    NotCompared,
}

impl CaptureTasks {
    pub(super) fn new(store: ProfileStore, page_url: String) -> Self {
        Self { tasks: JoinSet::new(), store, page_url }
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

    pub(super) fn on_report(core: &mut Core, now: Now, report: CaptureReport) {
        match report {
            CaptureReport::Response(id, response) => {
                core.captures_mut().on_response(now, id, response);
            }
            CaptureReport::Stored(id, stored) => core.captures_mut().on_stored(id, stored),
            CaptureReport::Compared(alert, evidence) => {
                core.on_compared(now.wall, &alert, evidence);
            }
            CaptureReport::NotCompared => {}
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
            match effect {
                CaptureEffect::Request { id, node, step } => {
                    let (asker, key) = (asker.clone(), key.clone());
                    self.tasks.spawn(async move {
                        let response = asker.capture(&node, id, step, &key).await;
                        CaptureReport::Response(id, response)
                    });
                }
                CaptureEffect::Store { id, row, bytes } => {
                    let store = self.store.clone();
                    self.tasks.spawn_blocking(move || {
                        let write = || store.write(now.wall, id, *row, &bytes);
                        let stored = catch_unwind(AssertUnwindSafe(write));
                        CaptureReport::Stored(id, stored.unwrap_or(Err("not_stored")))
                    });
                }
                CaptureEffect::Compare(pair) => {
                    let (store, page_url) = (self.store.clone(), self.page_url.clone());
                    self.tasks.spawn_blocking(move || compare(&store, now.wall, pair, &page_url));
                }
            }
        }
    }
}

fn compare(store: &ProfileStore, now: Wall, pair: ComparedPair, page_url: &str) -> CaptureReport {
    match evidence(store, now, &pair, page_url) {
        Ok(found) => CaptureReport::Compared(pair.alert, found),
        Err(error) => {
            tracing::warn!(alert = %pair.alert, %error, "profiles of an alert not compared");
            CaptureReport::NotCompared
        }
    }
}
