//! Waits until this process has a partition of the mesh: one that no other process has, by a lease
//! in the broker's key-value store. Meanwhile its pages are probes, and metrics of the process.
//!
//! DESIGN A174.

use std::fs;
use std::path::Path;

use plimsoll_bus::{Bus, BusConfig, Leases, Messenger, StreamOwner};
use plimsoll_clock::Clock;
use plimsoll_runtime::service_manager::ServiceManager;
use plimsoll_runtime::signals::{SignalEvent, Signals};
use plimsoll_runtime::supervision::Supervisor;
use plimsoll_schemas::ids::{Incarnation, MeshName, Partition};
use plimsoll_schemas::permissions::BrokerUser;
use plimsoll_schemas::rule::Rules;
use plimsoll_schemas::subject::{above, shard_name};
use tokio::sync::mpsc;

use super::shard::{ReportsAbove, reports_above};
use super::start::{self, StartError};
use crate::config::Config;
use crate::core::durable::shard::{KeptLabels, ShardIdentity};
use crate::io::http;
use crate::io::lease::{Lease, LeaseWatch};
use crate::limits::LEASE_POLL;

/// A partition that this process has.
pub(super) struct Owned {
    pub(super) partition: Partition,
    pub(super) identity: ShardIdentity,
    pub(super) reports: ReportsAbove,
    pub(super) lease: LeaseWatch,
    pub(super) bus: Bus,
}

/// Waits for a partition; `None` if a signal came first.
///
/// # Errors
/// When the configuration is invalid or the address of probes is not available.
pub(super) async fn own_partition(
    config: &Config,
    rules: &Rules,
    supervisor: &Supervisor,
) -> Result<Option<Owned>, StartError> {
    let signals = Signals::listen()?;
    let user = BrokerUser::Aggregator;
    let bus_config = config.bus.to_config(&config.mesh, "plimsoll-aggregator-shard", user)?;
    // It reads no lane, so it creates no stream of one.
    let bus_config = BusConfig { streams: StreamOwner::Operator, ..bus_config };
    let (bus, mut events) = Bus::connect(bus_config).map_err(|error| format!("bus: {error}"))?;
    tokio::spawn(async move { while events.next().await.is_some() {} });
    let owner = config.confirm.name()?.to_string();
    let above = above(&config.mesh).map_err(|error| error.to_string())?;

    let protection = config.http.protection()?;
    let routes = http::standby_routes();
    let (pages, probes) = start::servers(config, &protection, routes, supervisor).await?;
    tracing::info!(pages = %pages.address(), "waiting for a partition");
    let (events, mut found) = mpsc::channel(1);
    let kept = KeptLabels::of(rules, &config.rollups());
    let waiting = wait(config.clone(), owner, above, kept, bus.messenger());

    let tasks = [
        tokio::spawn(end_of(signals, events.clone())),
        tokio::spawn(async move {
            // The wait is over.
            let _closed = events.send(Some(waiting.await)).await;
        }),
    ];

    let owned = next_alive(&mut found).await;
    for task in tasks {
        task.abort();
    }
    for server in [Some(pages), probes].into_iter().flatten() {
        server.end().await;
    }

    match owned {
        Some(Waited { partition, identity, reports, lease }) => {
            tracing::info!(%partition, "this aggregator has a partition");
            Ok(Some(Owned { partition, identity, reports, lease, bus }))
        }
        None => {
            bus.close().await;
            Ok(None)
        }
    }
}

/// A partition that was waited for.
struct Waited {
    partition: Partition,
    identity: ShardIdentity,
    reports: ReportsAbove,
    lease: LeaseWatch,
}

async fn wait(
    config: Config,
    owner: String,
    above: MeshName,
    kept: KeptLabels,
    messenger: Messenger,
) -> Waited {
    loop {
        let (owner, ttl) = (owner.clone(), config.shards.lease());
        let leases = Leases::new(messenger.clone(), &config.mesh, owner, ttl);
        let lease = Lease::acquire(leases, config.shards.count, former_partition(&config)).await;
        let partition = lease.partition;
        let (above, kept) = (above.clone(), kept.clone());
        let identity = ShardIdentity { above, name: shard_name(partition), kept };
        let lease = lease.spawn();
        if let Some(reports) = reports_while_owned(&messenger, &identity, &lease).await {
            return Waited { partition, identity, reports, lease };
        }
    }
}

/// What the stream above has of a partition; `None` if its lease was lost first.
async fn reports_while_owned(
    messenger: &Messenger,
    identity: &ShardIdentity,
    lease: &LeaseWatch,
) -> Option<ReportsAbove> {
    let partition = lease.partition;
    let mut fault = None;

    while !lease.is_lost() {
        match reports_above(messenger, identity).await {
            Ok(reports) => return Some(reports),
            Err(why) if fault.as_ref() == Some(&why) => {}
            Err(why) => {
                tracing::warn!(%partition, why, "its newest report cannot be read yet; retrying");
                fault = Some(why);
            }
        }
        tokio::time::sleep(LEASE_POLL).await;
    }

    None
}

/// The partition, or none if a signal came first. Reports to the service manager meanwhile that the
/// process lives.
async fn next_alive(found: &mut mpsc::Receiver<Option<Waited>>) -> Option<Waited> {
    let clock = Clock::start();
    let mut manager = ServiceManager::ready(clock.now().mono);
    loop {
        let now = clock.now().mono;
        let wait = manager.next_deadline().unwrap_or(now.plus(LEASE_POLL)).since(now);
        if let Ok(found) = tokio::time::timeout(wait, found.recv()).await {
            return found.flatten();
        }
        manager.on_turn(clock.now().mono);
    }
}

/// The name of a file beside the state of a partition: which incarnation it is of.
const RUN: &str = "run";

/// Files of a partition that another process has reported since are of no use: they lack what that
/// one has merged. Moves them aside.
pub(super) fn set_aside_former(config: &Config, owned: &Owned) -> Result<(), String> {
    let Some(newest) = &owned.reports.newest else { return Ok(()) };

    let is_former = |folder: &Path| match fs::read_to_string(folder.join(RUN)) {
        Ok(incarnation) => incarnation.trim() != newest.incarnation.to_string(),
        Err(_) => folder.exists(),
    };

    for folder in config.folders().filter(|folder| is_former(folder)) {
        let aside = folder.with_extension("former");
        // One former state at most is kept aside: it may have gigabytes.
        let moved = remove(&aside).and_then(|()| fs::rename(&folder, &aside));
        moved.map_err(|error| format!("{} cannot be moved: {error}", folder.display()))?;
        tracing::info!(
            folder = %folder.display(),
            "another aggregator has had the partition since; the older state is moved aside"
        );
    }

    Ok(())
}

/// The partition that this process has files of, of several the last one that it had.
fn former_partition(config: &Config) -> Option<Partition> {
    let had_since = |partition: Partition| {
        let config = config.of_partition(partition);
        let notes = config.folders().map(|folder| folder.join(RUN));
        notes.filter_map(|note| fs::metadata(note).ok()?.modified().ok()).max()
    };
    let had = Partition::first(config.shards.count).filter_map(|of| Some((had_since(of)?, of)));
    had.max().map(|(_, partition)| partition)
}

/// Notes which incarnation the files of a partition are of from now on.
pub(super) fn note_incarnation(config: &Config, incarnation: Incarnation) -> Result<(), String> {
    for folder in config.folders() {
        let path = folder.join(RUN);
        let written =
            fs::create_dir_all(&folder).and_then(|()| fs::write(&path, format!("{incarnation}\n")));
        written.map_err(|error| format!("{} cannot be written: {error}", path.display()))?;
    }
    Ok(())
}

fn remove(folder: &Path) -> std::io::Result<()> {
    if folder.exists() { fs::remove_dir_all(folder) } else { Ok(()) }
}

async fn end_of(mut signals: Signals, events: mpsc::Sender<Option<Waited>>) {
    while !matches!(signals.next().await, SignalEvent::Shutdown) {}
    // The wait is over.
    let _closed = events.send(None).await;
}
