//! The evaluation of rules that is carried out on another thread while messages are merged.
//!
//! DESIGN A70.

use std::future::pending;

use tokio::task::{JoinHandle, spawn_blocking};

use crate::core::fleet::Fleet;
use crate::core::rules::{Evaluation, Judged};

/// At most one evaluation at a time.
#[derive(Default)]
pub(super) struct Evaluations {
    running: Option<JoinHandle<Judged>>,
}

impl Evaluations {
    pub(super) fn start(&mut self, evaluation: Evaluation) {
        self.running = Some(spawn_blocking(move || evaluation.judge()));
    }

    /// Its result, `None` if it panicked; while there is none, never. Cancel safe.
    pub(super) async fn next(&mut self) -> Option<Judged> {
        let Some(running) = &mut self.running else { return pending().await };
        let judged = running.await;
        self.running = None;
        judged.ok()
    }

    /// Drops the fleet as it was judged, of which thousands of nodes have changed since.
    pub(super) fn drop_frozen(fleet: Fleet) {
        drop(spawn_blocking(move || drop(fleet)));
    }
}
