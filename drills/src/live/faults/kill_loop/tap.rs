//! Reads what the nodes publish from the bus itself, and books each sample once for each message
//! that brings it.

use std::time::Duration;

use anyhow::Result;
use plimsoll_bus::{Bus, BusConfig, Listener};
use plimsoll_schemas::ids::MeshName;
use plimsoll_schemas::subject::{Lane, SnapshotSubject, lane_filter};
use plimsoll_schemas::wire::decode;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::book::SharedBook;
use crate::live::mesh_name::MESH;
use crate::live::notifications::observe;

/// Silence on the bus after which everything published has been read.
const QUIET: Duration = Duration::from_secs(2);

/// A running reader of both lanes.
pub(super) struct Tap {
    _bus: Bus,
    over: watch::Sender<bool>,
    tasks: Vec<JoinHandle<()>>,
}

impl Tap {
    /// Subscribes to both lanes.
    pub(super) async fn open(url: String, book: &SharedBook) -> Result<Self> {
        let (name, mesh) = ("plimsoll-drill-tap".to_owned(), MeshName::new(MESH)?);
        let bus = observe(BusConfig::new(url, name, mesh.clone())).await?;
        let (over, is_over) = watch::channel(false);
        let read = |lane| {
            let listener = bus.listen(lane_filter(&mesh, lane, None));
            tokio::spawn(read(listener, book.clone(), is_over.clone()))
        };
        let tasks = Lane::ALL.map(read).into();
        Ok(Self { _bus: bus, over, tasks })
    }

    /// Reads what is still on its way, and ends.
    pub(super) async fn end(self) {
        self.over.send_replace(true);
        for task in self.tasks {
            let _panicked = task.await;
        }
    }
}

async fn read(mut listener: Listener, book: SharedBook, mut is_over: watch::Receiver<bool>) {
    loop {
        let quiet = async {
            drop(is_over.wait_for(|over| *over).await);
            tokio::time::sleep(QUIET).await;
        };

        let message = tokio::select! {
            message = listener.next() => message,
            () = quiet => None,
        };

        let Some(message) = message else { return };
        let Ok(subject) = message.subject.parse::<SnapshotSubject>() else { continue };
        let Ok(snapshot) = decode(&subject, &message.payload) else { continue };
        let header = snapshot.header;
        let Some(latency) = snapshot.body.into_parts().latency else { continue };

        book.with(|book| {
            // A message that comes again is known by its number.
            if !book.is_new(header.incarnation, header.seq) {
                return;
            }
            for (series, histogram) in &latency.histograms {
                for (bucket, count) in histogram.counts().iter() {
                    book.publish(series.operation.as_str(), bucket, count);
                }
            }
        });
    }
}
