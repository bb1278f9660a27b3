//! Joins the aggregator's core with the world: the crate's only `select!`.
//!
//! `Driver` composes the rooms beside it, each with its own state: the broker connection, pending
//! confirmations, evaluations, notifications, read views, rule reloads. A turn waits for one event,
//! lets the core decide, and carries out what follows; of messages it takes several that have
//! already arrived. The driver decides nothing about data, and it waits for no disk and no
//! receiver. The emergency lane is read before the normal one, which still gets its turn.
//!
//! DESIGN S18, A43.

mod broker;
mod captures;
mod confirmations;
mod evaluations;
mod issuer;
mod notifications;
mod orders;
mod read_views;
mod regressions;
mod rule_reload;
mod shard;
mod shared_silences;
mod standby;
mod start;

use std::sync::Arc;
use std::time::Duration;

use crate::limits::{MESSAGES_A_TURN_MAX, TURN_MAX};
use bytes::Bytes;
use plimsoll_bus::{Bus, BusConfig, BusEvent, Cursor, CursorEvent, UnacknowledgedMessage};
use plimsoll_clock::{Clock, Stopwatch};
use plimsoll_runtime::exit::Exit;
use plimsoll_runtime::http::Server;
use plimsoll_runtime::service_manager::ServiceManager;
use plimsoll_runtime::settings::is_identified;
use plimsoll_runtime::signals::{SignalEvent, Signals};
use plimsoll_runtime::supervision::Supervisor;
use plimsoll_schemas::ids::{MeshName, RuleName};
use plimsoll_schemas::permissions::BrokerUser;
use plimsoll_schemas::rule::Rules;
use plimsoll_schemas::subject::{Lane, confirm_subject};
use plimsoll_schemas::summary::{ProfileRequest, ProfileRow};
use plimsoll_schemas::time::{Mono, Now};
use tokio::sync::mpsc;

use crate::config::{Config, View};
use crate::core::Core;
use crate::core::alerting::{AlertCommand, Answer, CommandError, CommandResult, RunbookPage};
use crate::core::captures::CaptureError;
use crate::core::durable::shard::Shard;
use crate::core::ingest::{Decoded, Position};
use crate::core::rules::Judged;
use crate::io::asker::Asker;
use crate::io::checkpointer::{Checkpointer, OpenedState, StateFiles, Written};
use crate::io::decoders::{Decoders, LaneEvent};
use crate::io::http::{self, PageSource, ProfileSource, Query, Readiness};
use crate::io::lanes::Lanes;
use crate::io::notify::{Endpoint, Notifier, PostOutcome};
use crate::io::profiles::ProfileStore;
use crate::io::rules::{Found, Watch};
use broker::Broker;
use captures::{CaptureReport, CaptureTasks};
use confirmations::Confirmations;
use evaluations::Evaluations;
use issuer::Issuer;
use notifications::Notifications;
use read_views::ReadViews;
use regressions::Regressions;
use rule_reload::RuleReload;
use shard::{ShardEvent, ShardLink};
use shared_silences::SharedSilences;
use standby::Owned;
pub use start::StartError;

/// Wait at the end for notifications that are not acknowledged yet.
const NOTIFICATION_WAIT: Duration = Duration::from_secs(2);
/// Wait for the connection to close after that.
const CLOSE_WAIT: Duration = Duration::from_secs(2);
/// Wait at the end for the last checkpoint.
const CHECKPOINT_WAIT: Duration = Duration::from_secs(3);

struct Driver {
    mesh: MeshName,
    clock: Clock,
    core: Core,
    broker: Broker,
    /// Asks nodes for their own histories; let go of before the broker's connection is closed.
    asker: Arc<Asker>,
    /// Captures of nodes, where profiles are kept.
    captures: Option<CaptureTasks>,
    lanes: Lanes,
    checkpointer: Checkpointer,
    confirmations: Confirmations,
    issuer: Issuer,
    /// Silences of other aggregators, if they are shared.
    shared_silences: Option<SharedSilences>,
    /// Reports to an aggregator above, if it reads one partition.
    shard: Option<ShardLink>,
    /// The report that the checkpoint being written has the samples up to.
    report_in_writing: u64,
    /// The same of the latest one that was written.
    report_stored: u64,
    notifications: Notifications,
    rules: RuleReload,
    views: ReadViews,
    evaluations: Evaluations,
    regressions: Regressions,
    queries: mpsc::Receiver<Query>,
    server: Server,
    health: Option<Server>,
    signals: Signals,
    supervisor: Supervisor,
    service_manager: ServiceManager,
    was_ready: bool,
    /// Set once the aggregator is ending: when it stops waiting.
    ends_at: Option<Mono>,
    exit: Exit,
}

/// Runs an aggregator until a signal ends it.
///
/// # Errors
/// When the configuration is invalid or the HTTP address is not available. An unreachable broker is
/// no error: the aggregator keeps trying, and `/readyz` reports that it is not ready.
pub async fn run(
    config: &Config,
    rules: Rules,
    watch: Watch,
    supervisor: Supervisor,
) -> Result<Exit, StartError> {
    rule_reload::log_advice(&config.advice(&rules));

    let (config, owned) = match config.shards.view() {
        View::Whole => (config.clone(), None),
        View::Above => (config.of_above()?, None),
        View::Shard => match standby::own_partition(config, &rules, &supervisor).await? {
            Some(owned) => (config.of_partition(owned.partition), Some(owned)),
            None => return Ok(Exit::Success),
        },
    };

    let mut driver = Driver::start(&config, rules, watch, supervisor, owned).await?;
    tracing::info!(http = %driver.server.address(), "aggregator started");
    while driver.turn().await {}
    let exit = driver.exit;
    driver.end().await;
    tracing::info!("aggregator ended");
    Ok(exit)
}

impl Driver {
    async fn start(
        config: &Config,
        rules: Rules,
        watch: Watch,
        supervisor: Supervisor,
        owned: Option<Owned>,
    ) -> Result<Self, StartError> {
        let partition = owned.as_ref().map(|owned| owned.partition);
        let user = BrokerUser::Aggregator;
        let bus_config = config.bus.to_config(&config.mesh, "plimsoll-aggregator", user)?;
        let bus_config = BusConfig { partition, ..bus_config };
        let scopes = config.shards.view().scopes();
        let rules = rules.within(scopes);

        let signals = Signals::listen()?;
        let protection = config.http.protection()?;
        let (routes, queries) = http::routes(&config.metrics, config.http.token()?);
        let (server, health) = start::servers(config, &protection, routes, &supervisor).await?;
        protection.warn_if_exposed(server.address());

        let clock = Clock::start();
        let endpoints = Endpoint::of_config(config)?;
        let issuer = Issuer::of(config)?;
        let (checkpointer, mut core) = restore(config, rules, clock.now(), owned.as_ref())?;
        let page_url = config.http.page_url(server.address())?;
        let profiles = start::profiles(config, clock.now().wall)?;
        let captures = profiles.map(|store| CaptureTasks::new(store, page_url.clone()));
        core.captures_mut().on_breach = config.profiles.on_breach;
        let dashboard = config.notifications.dashboard(&page_url)?;
        let core = core.linking(dashboard, RunbookPage::at(&page_url));
        let receivers = endpoints.iter().map(|endpoint| endpoint.receiver.clone()).collect();
        let are_silences_shared = issuer.key.is_some() || is_identified(&bus_config);
        // The time as seed of pauses, so that the two of a pair do not retry together.
        let mut core = core.with_receivers(clock.now(), receivers, clock.now().wall.0);

        let broker = Broker::connect(bus_config, clock.now().mono)?;
        let shared_silences = are_silences_shared.then(|| {
            core.share_silences(issuer.name.clone());
            SharedSilences::new(config.mesh.clone(), broker.bus.messenger())
        });

        let shard = owned.zip(core.shard()).map(|(owned, shard)| {
            ShardLink::new(owned.bus, owned.lease, shard, owned.reports.number)
        });
        let notifier = Notifier::start(endpoints, &supervisor);

        Ok(Self {
            mesh: config.mesh.clone(),
            lanes: Lanes::open(
                |lane| cursor(&broker.bus, &core, lane),
                &Decoders::new(config.decode_threads),
            ),
            rules: RuleReload::new(watch, clock.now().wall, scopes),
            notifications: Notifications::new(config.mesh.clone(), notifier),
            confirmations: Confirmations::default(),
            issuer,
            views: ReadViews::default(),
            evaluations: Evaluations::default(),
            regressions: Regressions::default(),
            clock,
            core,
            shared_silences,
            shard,
            report_in_writing: 0,
            report_stored: 0,
            asker: Asker::new(config.mesh.clone(), broker.bus.messenger()),
            captures,
            broker,
            checkpointer,
            queries,
            server,
            health,
            signals,
            supervisor,
            service_manager: ServiceManager::ready(clock.now().mono),
            was_ready: false,
            ends_at: None,
            exit: Exit::Success,
        })
    }

    /// One event and what follows from it; false when nothing is left to do.
    async fn turn(&mut self) -> bool {
        let wait = self.next_deadline().since(self.clock.now().mono);
        let order = self.core.lane_order();
        // What is not read stays in the streams.
        let is_full = self.core.shard().is_some_and(Shard::is_full);

        // In this order, so that a flood of messages delays neither deadlines nor queries.
        tokio::select! {
            biased;
            signal = self.signals.next() => self.on_signal(signal),
            () = tokio::time::sleep(wait) => {}
            event = self.broker.next() => self.on_broker(event),
            found = self.rules.next() => self.on_rules(found),
            written = self.checkpointer.written() => self.on_written(written),
            judged = self.evaluations.next() => self.on_judged(judged),
            found = self.regressions.next() => {
                self.core.on_regressions(self.clock.now().wall, found);
            }
            Some(PostOutcome { receiver, answer, cause }) = self.notifications.next() => {
                if answer != Answer::Taken {
                    self.core.on_cause(&receiver, answer.explained(&cause));
                }
                self.core.on_answer(self.clock.now(), &receiver, answer);
            }
            Some(query) = self.queries.recv() => self.on_query(query),
            report = shared_silences(&mut self.shared_silences) => self.on_silences(&report),
            report = capture_report(&mut self.captures) => {
                report(&mut self.core, self.clock.now());
            }
            event = shard_event(&mut self.shard) => self.on_shard(event),
            event = self.lanes.next(order), if !is_full => match event {
                Some((lane, event)) => self.on_lanes(lane, event),
                None => self.fail("the reader of a lane"),
            },
        }

        let now = self.clock.now();
        self.service_manager.on_turn(now.mono);
        self.rules.on_deadline(&mut self.core, now);
        self.core.on_task_restarts(self.supervisor.total());
        if let Some(evaluation) = self.core.begin_evaluation(now) {
            self.evaluations.start(evaluation);
        }
        let reader = || self.checkpointer.history.clone();
        self.regressions.start_if_due(now, self.core.rules(), reader);

        self.write_checkpoint(now);
        self.confirm(now);
        if let Some((link, shard)) = self.shard.as_mut().zip(self.core.shard_mut()) {
            link.send(shard, now);
        }
        if let Some(shared) = &mut self.shared_silences
            && self.broker.is_connected()
        {
            shared.send(&self.core, now, self.issuer.key.as_ref());
        }

        self.start_captures(now);
        self.notifications.send(&mut self.core, &self.broker, now);
        self.on_ready();
        self.views.drop_stale(now.mono);
        self.broker.log_absence(now.mono);
        self.log_core(now.mono);
        !self.is_done(now)
    }

    /// Writes the last checkpoint and ends every task.
    async fn end(mut self) {
        let now = self.clock.now();
        self.checkpointer.finish(&mut self.core, now, CHECKPOINT_WAIT).await;
        // The pause between two batches does not count any more.
        self.confirm(Now { mono: Mono(u64::MAX), ..now });
        self.notifications.end().await;
        // Both hold the connection, which would stay open with them.
        drop((self.captures, self.asker, self.shared_silences));
        if let Some(shard) = self.shard {
            shard.end().await;
        }

        // A broker that does not answer is not waited for: its streams hold what counts.
        if tokio::time::timeout(CLOSE_WAIT, self.broker.close()).await.is_err() {
            tracing::warn!("broker connection not closed in time");
        }

        // HTTP clients get 503 from here on.
        drop(self.queries);
        self.rules.end().await;
        for server in [Some(self.server), self.health].into_iter().flatten() {
            server.end().await;
        }
    }

    fn next_deadline(&self) -> Mono {
        let more_confirmations = self.checkpointer.has_unconfirmed();
        let shard = self.shard.as_ref().zip(self.core.shard());
        let shard = shard.map(|(link, shard)| link.deadline(shard, self.clock.now()));

        let optional = [
            self.confirmations.deadline(more_confirmations),
            self.rules.deadline(),
            self.views.deadline(),
            self.core.next_post_at(),
            self.captures.as_ref().and_then(|_| self.core.captures().next_deadline()),
            self.shared_silences.as_ref().map(|shared| shared.next_at),
            self.service_manager.next_deadline(),
            self.ends_at,
            shard,
        ];

        optional.into_iter().flatten().fold(self.core.next_deadline(), Mono::min)
    }

    fn is_done(&mut self, now: Now) -> bool {
        let Some(ends_at) = self.ends_at else { return false };
        let has_reported = !self.core.shard().is_some_and(Shard::has_unsent);
        let has_sent = self.core.notifications().is_empty() && self.core.has_sent_all();
        has_reported && has_sent || now.mono >= ends_at
    }

    fn on_signal(&mut self, signal: SignalEvent) {
        match signal {
            SignalEvent::Reload => self.rules.watch.request(),
            SignalEvent::Shutdown => {
                self.service_manager.stopping();
                let now = self.clock.now().wall;
                // What is open is reported while the partition is still this process's own.
                if let Some(shard) = self.core.shard_mut() {
                    shard.seal(now);
                }
                // A second signal waits for nothing.
                let wait = if self.ends_at.is_some() { Duration::ZERO } else { NOTIFICATION_WAIT };
                self.ends_at = Some(self.clock.now().mono.plus(wait));
            }
        }
    }

    fn on_broker(&mut self, event: Option<BusEvent>) {
        let now = self.clock.now().mono;
        match event {
            Some(event) => self.broker.on_event(&mut self.core, now, &event),
            None => self.fail("the broker connection"),
        }
    }

    fn on_silences(&mut self, report: &[u8]) {
        if let Some(shared) = &self.shared_silences {
            let now = self.clock.now();
            shared.on_report(&mut self.core, now, self.issuer.key.as_ref(), report);
        }
    }

    fn on_shard(&mut self, event: ShardEvent) {
        let Some((link, shard)) = self.shard.as_mut().zip(self.core.shard_mut()) else { return };
        let now = self.clock.now();

        match event {
            ShardEvent::Attempt(outcome) => {
                if !link.on_outcome(shard, now.mono, outcome) {
                    self.fail("the reports of the partition, which another process has");
                }
            }
            ShardEvent::Confirmation(bytes) => {
                self.issuer.refresh(now.mono);
                link.on_confirmation(shard, self.issuer.key.as_ref(), &bytes);
            }
            ShardEvent::LeaseLost(why) => {
                tracing::warn!(why, "partition given up");
                self.fail("the lease of the partition");
            }
        }
    }

    fn write_checkpoint(&mut self, now: Now) {
        let was_writing = self.checkpointer.is_writing;
        self.checkpointer.write_if_due(&mut self.core, now);
        if let Some(shard) = self.core.shard().filter(|_| !was_writing) {
            self.report_in_writing = shard.seq;
        }
    }

    /// A task has ended that cannot be started again without state that is gone. The process ends
    /// with an error code, and its next start reads on from the latest checkpoint.
    ///
    /// DESIGN A53.
    fn fail(&mut self, task: &'static str) {
        if self.ends_at.is_none() {
            tracing::error!(task, "task ended; the aggregator exits, to be restarted");
            self.exit = Exit::Failure;
        }
        self.ends_at = Some(Mono(0));
    }

    fn on_rules(&mut self, found: Found) {
        self.rules.on_found(&mut self.core, self.clock.now(), found);
        self.regressions.on_rules();
        self.views.invalidate();
    }

    fn on_written(&mut self, written: Option<Written>) {
        let (now, is_gone) = (self.clock.now().mono, written.is_none());
        self.report_stored = self.report_in_writing;
        self.checkpointer.on_written(&mut self.core, now, written);
        if is_gone {
            self.fail("the checkpoint thread");
        }
    }

    fn on_judged(&mut self, judged: Option<Judged>) {
        match judged {
            Some(judged) => {
                let frozen = self.core.on_judged(self.clock.now(), judged);
                Evaluations::drop_frozen(frozen);
            }
            None => self.fail("the evaluation of rules"),
        }
    }

    fn confirm(&mut self, now: Now) {
        let mut stored = self.checkpointer.take_confirmations();
        if let Some((link, shard)) = self.shard.as_mut().zip(self.core.shard()) {
            let is_kept = self.checkpointer.stats.kept;
            // In memory, the samples may be in the report that is still open.
            let report = if is_kept { self.report_stored } else { shard.seq + 1 };
            link.hold(report, stored);
            stored = link.release(shard);
        }

        self.confirmations.offer(stored);
        // The next checkpoint brings newer ones, and these would only become older.
        if !self.broker.is_connected() {
            return self.confirmations.discard();
        }
        let (bus, mesh) = (&self.broker.bus, &self.mesh);
        let common = self.core.common_terms();

        self.confirmations.send_batch(now, &common, &mut self.issuer, |node, payload| {
            let subject = confirm_subject(mesh, node);
            bus.publish_unacknowledged(UnacknowledgedMessage {
                subject,
                headers: Vec::new(),
                payload,
            })
            .is_ok()
        });
    }

    fn on_ready(&mut self) {
        if self.core.is_ready() && !std::mem::replace(&mut self.was_ready, true) {
            // A client that has seen `/readyz` must not get a page from before.
            self.views.invalidate();
            tracing::info!("backlog of the streams read");
        }
    }

    /// Logs what the core has found wrong with nodes and budgets.
    fn log_core(&mut self, now: Mono) {
        if let Some(node) = self.core.next_conflict(now) {
            tracing::warn!(
                %node,
                "two nodes send under one name; change `name` in the settings of one of them"
            );
        }

        let unmatched = self.core.next_unmatched();
        if !unmatched.is_empty() {
            let budgets = unmatched.iter().map(RuleName::as_str).collect::<Vec<_>>().join(", ");
            tracing::warn!(
                budgets,
                "budgets match no sample; check their operation, labels and node_labels"
            );
        }

        let insufficient = self.core.next_insufficient();
        if !insufficient.is_empty() {
            let budgets = insufficient.iter().map(RuleName::as_str).collect::<Vec<_>>().join(", ");
            tracing::warn!(
                budgets,
                "budgets have samples over the limit, but too few to judge; set a longer window"
            );
        }
    }

    fn on_query(&mut self, query: Query) {
        // A client may have disconnected, so answers may go nowhere.
        match query {
            Query::ReadView(answer) => drop(answer.send(self.read_view())),
            Query::Events(wanted, answer) => {
                let page = self.core.events(self.clock.now().wall, &wanted);
                drop(answer.send(Box::new(page)));
            }
            Query::Alerts(wanted, answer) => {
                let page = self.core.alerts_page(self.clock.now().wall, &wanted);
                drop(answer.send(Box::new(page)));
            }
            Query::Silences(answer) => drop(answer.send(self.core.silences_page())),
            Query::Order(order, answer) => drop(answer.send(self.on_order(order))),
            Query::Runs(wanted, answer) => {
                let page = self.core.runs_page(self.clock.now().wall, &wanted);
                drop(answer.send(Box::new(page)));
            }
            Query::RunOrder(order, answer) => {
                let done = self.core.on_run_command(self.clock.now().wall, order);
                orders::log_run(&done);
                drop(answer.send(done));
            }
            Query::Profiles(answer) => drop(answer.send(ProfileSource {
                mesh: self.mesh.clone(),
                rows: self.core.captures().rows(),
                store: self.captures.as_ref().map(|captures| captures.store.clone()),
            })),
            Query::Capture(request, answer) => drop(answer.send(self.on_capture(request))),
            Query::StopCapture(id, answer) => {
                let now = self.clock.now();
                drop(answer.send(self.core.captures_mut().stop(now, id)));
            }
            Query::Undeliverable(answer) => drop(answer.send(self.core.undeliverable())),
            Query::History(answer) => {
                let reader = self.checkpointer.history.clone();
                drop(answer.send((self.mesh.clone(), reader)));
            }
            Query::Unstored(keys, held, answer) => {
                drop(answer.send(self.core.history().unstored(&keys, held)));
            }
            Query::Asker(answer) => {
                let source = (self.mesh.clone(), self.core.node_names(), self.asker.handle());
                drop(answer.send(source));
            }
            Query::Pulse(answer) => {
                let pulse = self.core.pulse(self.clock.now().wall, self.broker.state());
                drop(answer.send(pulse));
            }
            Query::UnstoredKeys(answer) => drop(answer.send(self.core.history().keys())),
            Query::Readiness(answer) => drop(answer.send(Readiness {
                broker: self.broker.state(),
                connect_error: self.broker.faults.connect_error().map(str::to_owned),
                denied: self.broker.faults.denied().map(str::to_owned),
                streams: self.broker.faults.streams().map(str::to_owned),
                warnings: self.warnings(),
                past_is_read: self.core.is_ready(),
                pending: self.core.pending().iter().map(|(_, pending)| pending).sum(),
            })),
        }
    }

    /// What should be changed although the aggregator works, in the words of the log.
    fn warnings(&self) -> Vec<String> {
        let faults = &self.broker.faults;
        // Of an aggregator that is not ready it is the state.
        let rejection = faults.rejection().filter(|_| self.core.is_ready());
        let broker = faults.payload().into_iter().chain(rejection).map(str::to_owned);
        let receivers = self.core.failing_receivers().into_iter();
        let receivers = receivers.map(|(name, cause)| format!("receiver {name}: {cause}"));
        broker.chain(receivers).collect()
    }

    fn on_order(&mut self, order: AlertCommand) -> Result<CommandResult, CommandError> {
        let logged = order.clone();
        let done = self.core.on_order(self.clock.now().wall, order)?;
        orders::log(&logged, &done);
        // The client's next request shows the change.
        self.views.invalidate();
        Ok(done)
    }

    fn on_capture(&mut self, request: ProfileRequest) -> Result<ProfileRow, CaptureError> {
        if self.captures.is_none() {
            return Err(CaptureError::NoStore);
        }
        if self.issuer.key.is_none() {
            return Err(CaptureError::NoKey);
        }
        let ordered = self.core.on_capture_request(self.clock.now(), request)?;
        tracing::info!(id = %ordered.id, node = %ordered.node, "capture ordered by a client");
        Ok(ordered)
    }

    fn start_captures(&mut self, now: Now) {
        let Some(captures) = &mut self.captures else { return };
        if self.core.captures().next_deadline().is_some() {
            self.issuer.refresh(now.mono);
        }
        if let Some(file) = &self.issuer.key {
            captures.start_due(&mut self.core, now, &self.asker.handle(), file.key());
        }
    }

    fn read_view(&mut self) -> Arc<PageSource> {
        let began = self.clock.now();
        if let Some(view) = self.views.latest(began.mono) {
            return view;
        }

        let mut view = self.core.read_view(began.wall, self.broker.state());
        view.own.checkpoints = self.checkpointer.stats.clone();
        let unkept = self.checkpointer.stats.history_dropped;
        view.own.history_dropped = self.core.history().dropped().map(|pending| pending + unkept);
        let unkept = self.checkpointer.stats.history_dropped_values;
        let dropped = self.core.history().dropped_values();
        view.own.history_dropped_values = dropped.map(|pending| pending + unkept);
        view.own.asks = self.asker.counts();
        view.own.captures = self.core.captures().ledger.clone();
        let store = self.captures.as_ref().map(|captures| &captures.store);
        view.own.profiles_quarantined = store.map(ProfileStore::quarantined);
        view.own.shard = self.core.shard().map(Shard::counts);
        view.own.rule_files = self.rules.stats.clone();
        view.own.confirmations = self.confirmations.stats;
        view.own.task_restarts = self.supervisor.restarts();
        view.own.broker_faults = self.broker.faults.counts().collect();
        view.own.broker_advisories = self.broker.faults.advisories();

        let ended = self.clock.now().mono;
        let connections = self.server.stats();
        let source = |views| PageSource { view, views, connections };
        self.views.store(began.mono, ended, source)
    }

    /// Handles the messages that have arrived, for a bounded number and time.
    fn on_lanes(&mut self, lane: Lane, event: LaneEvent) {
        let turn = Stopwatch::start();
        self.on_lane(lane, event);
        for _ in 1..MESSAGES_A_TURN_MAX {
            if turn.elapsed() >= TURN_MAX {
                return;
            }
            if self.core.shard().is_some_and(Shard::is_full) {
                return;
            }
            let Some((lane, event)) = self.lanes.ready(self.core.lane_order()) else { return };
            self.on_lane(lane, event);
        }
    }

    fn on_lane(&mut self, lane: Lane, event: LaneEvent) {
        match event {
            LaneEvent::Message(decoded) => self.on_message(*decoded),
            LaneEvent::Cursor(event) => self.on_cursor(lane, event),
        }
    }

    fn on_cursor(&mut self, lane: Lane, event: CursorEvent) {
        match event {
            CursorEvent::Positioned { first_seq, last_seq, stream_id } => {
                self.core.on_positioned(lane, first_seq, last_seq, &stream_id);
            }
            CursorEvent::Reset { expected_seq, last_seq } => {
                let lane_name = lane.as_str();
                tracing::warn!(lane = lane_name, expected_seq, last_seq, "stream was recreated");
                self.core.on_reset(lane, last_seq);
            }
            CursorEvent::Used { ratio } => self.core.on_stream_used(lane, ratio),
            CursorEvent::Message(message) => self.on_message(Decoded::of(message)),
        }
    }

    fn on_message(&mut self, decoded: Decoded) {
        // Cloning the subject of each message would cost more than the rare log needs.
        let subject = decoded.snapshot.is_err().then(|| decoded.message.subject.clone());
        let Err(unreadable) = self.core.on_decoded(self.clock.now(), decoded) else { return };
        // Any client that may publish can cause this: the 1st, 2nd, 4th, 8th ... is logged.
        if unreadable.count.is_power_of_two() {
            let (subject, count) = (subject.unwrap_or_default(), unreadable.count);
            tracing::warn!(subject, count, why = unreadable.text, "message cannot be decoded");
        }
    }
}

/// The core from its checkpoint, or an empty one; of a partition that another process has had since
/// then an empty one.
fn restore(
    config: &Config,
    rules: Rules,
    now: Now,
    owned: Option<&Owned>,
) -> Result<(Checkpointer, Core), StartError> {
    let mesh = config.mesh.clone();
    let history = config.history.path.as_deref();

    let files = StateFiles {
        state: config.state.path.as_deref(),
        history: history.map(|path| (path, config.history.bounds())),
        confirms_memory: config.confirm.without_state,
    };

    if let Some(owned) = owned {
        // Before they are opened: a state from before another owner lacks what that one has merged.
        standby::set_aside_former(config, owned)?;
    }

    let opened = Checkpointer::open(&files, &mesh, now.wall).map_err(|error| error.to_string())?;
    let OpenedState { checkpointer, checkpoint, alerts, budgets, history } = opened;
    let stored_shard = checkpoint.as_ref().and_then(|of| of.shard().cloned());

    let mut core = match checkpoint {
        Some(checkpoint) => Core::restore(mesh, rules, now, checkpoint),
        None => Core::new(mesh, rules, now),
    };

    if let Some(record) = alerts {
        core = core.with_alerts(record);
    }
    if let Some(stored) = history {
        core = core.with_history(stored);
    }
    // Before error budgets, whose counts are carried into the windows that are kept from here on.
    core = core.measuring(config.windows.nodes_up_to, &config.rollups());
    if let Some(record) = budgets {
        core = core.with_budgets(record);
    }

    if let Some(owned) = owned {
        let newest = owned.reports.newest.clone();
        let shard = Shard::resume(owned.identity.clone(), now.wall, newest, stored_shard);
        // Without this note the next start takes the files for those of a former owner.
        standby::note_incarnation(config, shard.incarnation)?;
        core = core.reporting(shard);
    }

    Ok((checkpointer, core))
}

/// Continues after the core's position. A position without a stream's identity means nothing.
fn cursor(bus: &Bus, core: &Core, lane: Lane) -> Cursor {
    let Position { read, stream_id } = core.position(lane);
    let next = if stream_id.is_some() { read.saturating_add(1) } else { 1 };
    bus.cursor(lane, next, stream_id)
}

/// The next event of a shard; for ever none of another aggregator.
async fn shard_event(shard: &mut Option<ShardLink>) -> ShardEvent {
    match shard {
        Some(shard) => shard.next().await,
        None => std::future::pending().await,
    }
}

/// The next report of silences; for ever none if they are not shared.
async fn shared_silences(shared: &mut Option<SharedSilences>) -> Bytes {
    match shared {
        Some(shared) => shared.next().await,
        None => std::future::pending().await,
    }
}

/// The next report of a capture; for ever none if no profile is kept.
async fn capture_report(captures: &mut Option<CaptureTasks>) -> CaptureReport {
    match captures {
        Some(captures) => captures.next().await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests;
