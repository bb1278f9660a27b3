//! The aggregator's decisions, without clock, socket or task: messages in, alerts out.
//!
//! This file composes the rooms and is the only one that sees all of them. A message's way:
//! [`ingest`] decodes it, on any thread, and sets its event time, [`fleet`] merges it at most once.
//! Once a second [`rules`] judges the fleet and [`blame`] which peer of a job is slow; by their
//! findings [`alerting`] moves alerts and notifies. Alerts and clients order profiles of
//! [`captures`]. [`history`] collects what was merged for the past, [`runs`] keeps which runs there
//! are, [`advice`] divides the time of a range, [`durable`] collects each room's part of a
//! checkpoint, and what the aggregator of a partition reports to one above, and [`view`] freezes
//! all of them for pages. The state is a fold over the stream: the same messages in any order lead
//! to the same answer.
//!
//! DESIGN A31.

pub mod advice;
pub mod alerting;
pub mod blame;
mod capture_orders;
pub mod captures;
pub mod durable;
pub mod fleet;
pub mod history;
pub mod ingest;
mod queries;
pub mod rules;
pub mod runs;
pub mod view;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use plimsoll_schemas::alert::AlertKey;
use plimsoll_schemas::budget::Window;
use plimsoll_schemas::ids::{AggregatorName, MeshName, NodeName, RuleName};
use plimsoll_schemas::own_operations::NOTIFICATION_DELIVERY;
use plimsoll_schemas::rule::Rules;
use plimsoll_schemas::subject::Lane;
use plimsoll_schemas::summary::RunRow;
use plimsoll_schemas::time::{Mono, Now, Wall, nanos};
use plimsoll_schemas::transport::{BusEvent, Delivered, Refusal, Ticket};
use plimsoll_schemas::wire::silences::SharedSilences;

use alerting::{
    AlertCommand, Alerting, AlertsRecord, Answer, CommandError, CommandResult, Dashboard,
    Notifications, Post, Receiver, RunbookPage, Situation, Undeliverable,
};
use blame::Blame;
use captures::Captures;
use durable::shard::Shard;
use durable::{Changes, Checkpoint, Durable, Rest};
use fleet::{BudgetsRecord, Definition, Fleet};
use history::{History, Known, StoredHistory};
use ingest::{Decoded, Ingest, MeshLinks, Unreadable};
use rules::{Evaluation, EvaluationTime, Evaluator, Inputs, Judged, SelfCounts, Value};
use runs::{RunCommand, RunError, RunRegistry};

/// An aggregator's whole state.
pub struct Core {
    mesh: MeshName,
    ingest: Ingest,
    fleet: Fleet,
    evaluator: Evaluator,
    blame: Blame,
    alerting: Alerting,
    durable: Durable,
    history: History,
    runs: RunRegistry,
    captures: Captures,
    /// Its reports to an aggregator above, if it reads one partition.
    shard: Option<Shard>,
    /// True while an evaluation is carried out elsewhere.
    is_evaluating: bool,
    task_restarts: u64,
}

impl Core {
    /// An aggregator that has read nothing yet.
    pub fn new(mesh: MeshName, rules: impl Into<Rules>, now: Now) -> Self {
        Self::with_rules(mesh, Arc::new(rules.into()), now)
    }

    fn with_rules(mesh: MeshName, rules: Arc<Rules>, now: Now) -> Self {
        Self {
            ingest: Ingest::new(now),
            fleet: Fleet::new(&rules),
            blame: Blame::new(&rules),
            evaluator: Evaluator::new(rules, now.mono),
            alerting: Alerting::new(mesh.clone()),
            durable: Durable::default(),
            history: History::default(),
            runs: RunRegistry::default(),
            captures: Captures::default(),
            shard: None,
            is_evaluating: false,
            task_restarts: 0,
            mesh,
        }
    }

    /// The core as it was when `checkpoint` was taken. It is ready to read on from its positions
    /// once [`Self::measuring`] has set which windows are kept now.
    pub fn restore(
        mesh: MeshName,
        rules: impl Into<Rules>,
        now: Now,
        checkpoint: Checkpoint,
    ) -> Self {
        let rules = Arc::new(rules.into());
        let is_whole = checkpoint.is_whole();
        let (nodes, pools, rest) = checkpoint.into_parts();
        let durable = if is_whole { Durable::restored(pools.clone()) } else { Durable::default() };

        let Some(rest) = rest else {
            let fleet = Fleet::restore(&rules, nodes, pools, None);
            return Self { durable, fleet, ..Self::with_rules(mesh, rules, now) };
        };

        let judged_at = rest.evaluator.judged_at;
        Self {
            ingest: Ingest::restore(now, rest.ingest, judged_at.unwrap_or(rest.at)),
            durable,
            fleet: Fleet::restore(&rules, nodes, pools, Some(rest.fleet)),
            blame: Blame::new(&rules),
            evaluator: Evaluator::restore(rules, now.mono, rest.evaluator),
            alerting: Alerting::restore(mesh.clone(), rest.alerting),
            history: History::paused(rest.history_generation),
            runs: RunRegistry::restore(rest.runs),
            captures: Captures::default(),
            shard: None,
            is_evaluating: false,
            task_restarts: 0,
            mesh,
        }
    }

    /// The same core with the alerts that receivers are owed, of a checkpoint that lacks them.
    pub fn with_alerts(self, record: AlertsRecord) -> Self {
        Self { alerting: Alerting::restore_owed(self.mesh.clone(), record), ..self }
    }

    /// The same core with what is left of error budgets, of a checkpoint that lacks some of it.
    pub fn with_budgets(mut self, record: BudgetsRecord) -> Self {
        self.fleet.carry(&self.evaluator.rules().budgets, record);
        self
    }

    /// The same core where nodes keep windows up to this one, and samples are grouped so; a
    /// roll-up that was not defined so before begins empty.
    pub fn measuring(mut self, nodes_up_to: Window, rollups: &[Definition]) -> Self {
        self.fleet.measure(self.evaluator.rules(), nodes_up_to, rollups);
        self
    }

    /// The same core, whose samples a history keeps.
    pub fn with_history(self, stored: StoredHistory) -> Self {
        Self { history: History::kept(stored), ..self }
    }

    /// The same core, which reports what it merges to an aggregator above.
    pub fn reporting(self, shard: Shard) -> Self {
        Self { shard: Some(shard), ..self }
    }

    /// Its reports to an aggregator above, if it reads one partition.
    pub fn shard_mut(&mut self) -> Option<&mut Shard> {
        self.shard.as_mut()
    }

    /// The same, to look at.
    pub fn shard(&self) -> Option<&Shard> {
        self.shard.as_ref()
    }

    /// Samples are grouped so from now on; a roll-up that was not defined so before begins empty.
    /// Returns whether that is a change.
    pub fn group_by(&mut self, rollups: &[Definition]) -> bool {
        let is_change = !self.fleet.rollups().are_defined(rollups);
        if is_change {
            self.fleet.group_by(rollups);
        }
        is_change
    }

    /// The same core whose alerts link to these pages.
    pub fn linking(mut self, dashboard: Dashboard, runbook_page: RunbookPage) -> Self {
        self.alerting.link_to(dashboard, runbook_page);
        self
    }

    /// The same core, notifying these receivers, at once of what fires already. The seed is for
    /// the pauses after failures.
    pub fn with_receivers(mut self, now: Now, receivers: Vec<Receiver>, seed: u64) -> Self {
        let (alerting, situation) = self.alerting();
        alerting.notify(now.wall, receivers, seed, situation);
        self
    }

    /// Alerting, with what its notifications are made from.
    fn alerting(&mut self) -> (&mut Alerting, Situation<'_>) {
        let Self { ingest, fleet, evaluator, blame, alerting, .. } = self;
        let inputs = Inputs { fleet, broker: ingest.broker_health() };
        (alerting, Situation { evaluator, inputs, blame })
    }

    /// Reading of a lane begins; see [`Ingest::on_positioned`].
    pub fn on_positioned(&mut self, lane: Lane, first_seq: u64, last_seq: u64, stream_id: &str) {
        self.ingest.on_positioned(lane, first_seq, last_seq, stream_id);
        if let Some(shard) = self.shard.as_mut().filter(|_| !stream_id.is_empty()) {
            shard.on_stream(lane, stream_id);
        }
    }

    /// The lane's stream was created anew: positions begin again, merged samples stay merged.
    pub fn on_reset(&mut self, lane: Lane, last_seq: u64) {
        self.ingest.on_reset(lane, last_seq);
        self.history.on_reset(lane);
    }

    /// So much of a lane's stream is used, if it refuses messages when it is full; else 0.
    pub fn on_stream_used(&mut self, lane: Lane, ratio: f64) {
        self.ingest.on_stream_used(lane, ratio);
    }

    /// Handles an event of the connection to the broker. A notification that was refused is sent
    /// again when its acknowledgement is overdue, unless no broker accepts it.
    pub fn on_bus_event(&mut self, now: Mono, event: &BusEvent) {
        self.ingest.on_bus_event(event, now);
        match event {
            BusEvent::Acknowledged { ticket: Ticket(token), .. } => {
                self.notifications().on_delivered(*token);
            }
            BusEvent::Refused {
                ticket: Ticket(token),
                reason: Refusal::TooLarge | Refusal::Malformed,
            } => self.notifications().on_refused(*token),
            _ => {}
        }
    }

    pub fn on_message(&mut self, now: Now, message: &Delivered) -> Result<(), Unreadable> {
        self.on_decoded(now, Decoded::of(message.clone()))
    }

    /// Takes one message that any thread has decoded. One that could not be decoded costs itself
    /// alone.
    ///
    /// # Errors
    /// When it could not be decoded; it has been counted.
    pub fn on_decoded(&mut self, now: Now, decoded: Decoded) -> Result<(), Unreadable> {
        let (lane, stream_seq) = (decoded.message.lane, decoded.message.stream_seq);
        let taken = self.take(now, decoded);
        if let Some(shard) = &mut self.shard {
            // After its samples are added, and also if there
            // are none: a position must not be ahead of them.
            shard.on_read(lane, stream_seq);
        }
        taken
    }

    fn take(&mut self, now: Now, decoded: Decoded) -> Result<(), Unreadable> {
        let (lane, at) = (decoded.message.lane, decoded.message.at);
        let stream_seq = decoded.message.stream_seq;
        // Before the event time is computed: known offsets
        // of nodes' clocks are of the clock before.
        if self.ingest.is_clock_set(now) {
            self.on_clock_jump(now);
        }
        self.end_catch_up(now);
        // The past before this message is judged first, as it was without it (A12).
        if let Some(before) = self.ingest.on_stored_at(now.wall, lane, at) {
            self.catch_up(now, before);
        }

        let (time, snapshot) = self.ingest.on_decoded(now, decoded)?;
        // Before it is merged: its totals would replace those
        // of the node until that has reached its number (A151).
        if self.fleet.is_far_ahead(&snapshot.header, time.arrived) {
            return Err(self.ingest.refuse(Unreadable::far_ahead(&snapshot.header)));
        }
        let Some(merged) = self.fleet.merge(&time, snapshot) else { return Ok(()) };

        self.runs.on_merged(now.wall, &merged, self.fleet.rollups());
        for samples in &merged.samples {
            self.evaluator.on_samples(self.ingest.ticked_at.mono, samples);
        }
        // The past is too late to be judged second by second.
        if !self.ingest.is_catching_up() {
            self.blame.on_merged(now.wall, &merged);
        }

        // The history may be ahead of a state that was
        // lost, and would count the message twice (A76).
        if self.history.is_new(lane, stream_seq, || self.ingest.position(lane)) {
            let (operations, rollups) = (self.fleet.operations(), self.fleet.rollups());
            self.history.on_merged(&merged, Known { operations, rollups });
        }

        // What an owner of the partition has reported before
        // is merged here for windows and alerts alone (A172).
        if let Some(shard) = &mut self.shard
            && !shard.is_reported(lane, stream_seq)
        {
            shard.on_merged(now.wall, &merged);
        }
        Ok(())
    }

    /// Once everything stored at the start has been read, judges the rest of the past.
    fn end_catch_up(&mut self, now: Now) {
        if self.ingest.is_ready() && self.ingest.is_catching_up() {
            self.catch_up(now, now.wall.plus(Duration::from_nanos(1)));
            self.ingest.end_catch_up();
            self.evaluator.schedule(now.mono);
        }
    }

    fn catch_up(&mut self, now: Now, before: Wall) {
        while let Some(due) = self.ingest.next_catch_up(now.wall, before) {
            self.fleet.expire_windows(due);
            let time = EvaluationTime { at: due, behind: now.wall.since(due) };
            let active = self.alerting.active();
            let judged = self.evaluation(time, active).judge();
            self.on_findings(judged);
            let (alerting, situation) = self.alerting();
            alerting.end_finished(due, situation);
        }
    }

    /// Advances to `now`: once a second windows move on and every rule is judged.
    pub fn on_deadline(&mut self, now: Now) {
        if let Some(evaluation) = self.begin_evaluation(now) {
            self.on_judged(now, evaluation.judge());
        }
    }

    /// The same, where rules are judged elsewhere: [`Self::on_judged`] takes the result, and until
    /// then no other evaluation begins.
    pub fn begin_evaluation(&mut self, now: Now) -> Option<Evaluation> {
        let (alerting, situation) = self.alerting();
        // Here and not at the start: by now receivers are known that are owed the ends.
        alerting.end_unruled_since_restart(now.wall, situation);
        self.end_catch_up(now);
        if self.is_evaluating || !self.evaluator.is_due(now.mono) {
            return None;
        }
        self.on_clock_jump(now);

        // The past is read as it was: a node long gone may still have messages to come.
        if self.ingest.is_ready() {
            let expired = self.fleet.expire(now.wall);
            let (alerting, situation) = self.alerting();
            alerting.on_nodes_expired(now.wall, &expired, situation);
            let read_up_to = self.ingest.read_up_to().as_of(now.mono);
            let history_series = self.history.series();
            let round_trips = self.fleet.watch(now, read_up_to, history_series);
            let nodes = self.mesh_nodes();
            self.ingest.watch_broker(now.mono, MeshLinks { nodes, round_trips });
            self.fleet.record_deliveries(now.wall);
            self.history.on_tick(now, self.fleet.present);
            self.is_evaluating = true;
            let active = self.alerting.active();
            let found = self.blame.evaluate(now.wall, &active);
            let mut evaluation = self.evaluation(EvaluationTime::present(now.wall), active);
            evaluation.found = found;
            return Some(evaluation);
        }

        None
    }

    /// Rules were judged: alerts move. Returns the fleet as it was judged, which takes a while to
    /// drop.
    pub fn on_judged(&mut self, now: Now, judged: Judged) -> Fleet {
        self.is_evaluating = false;
        let frozen = self.on_findings(judged);
        self.capture_fired(now, &frozen);
        let (alerting, situation) = self.alerting();
        alerting.end_finished(now.wall, situation);
        alerting.on_tick(now.wall, situation);
        frozen
    }

    fn on_clock_jump(&mut self, now: Now) {
        let jump = self.ingest.on_tick(now);
        self.fleet.on_clock_jump(now.wall, jump);
    }

    fn evaluation(&mut self, time: EvaluationTime, active: Vec<AlertKey>) -> Evaluation {
        let own = SelfCounts {
            undecodable: self.ingest.undecodable.values().sum(),
            undeliverable: self.alerting.undeliverable_count(),
            task_restarts: self.task_restarts,
            has_unsaved: self.has_unsaved(),
            quiet: self.alerting.quiet_nodes(time.at, self.evaluator.rules(), &self.fleet),
        };
        let inputs = Inputs { fleet: &self.fleet, broker: self.ingest.broker_health() };
        self.evaluator.begin(time, inputs, active, own)
    }

    /// Evidence is of the fleet as it was judged.
    fn on_findings(&mut self, mut judged: Judged) -> Fleet {
        let is_current = self.evaluator.on_judged(&mut judged);
        let Judged { time, fleet, broker, found, .. } = judged;
        if is_current {
            let inputs = Inputs { fleet: &fleet, broker };
            let situation = Situation { evaluator: &self.evaluator, inputs, blame: &self.blame };
            self.alerting.on_findings(time, found, situation);
        }
        fleet
    }

    /// Judges by other rules from now on. Alerts of rules that were removed, or are about something
    /// else, end with a notification; all others stay.
    pub fn reload(&mut self, now: Now, rules: Rules) {
        let terms = self.common_terms();
        let before = self.alerting.rule_labels(self.evaluator.rules());
        self.fleet.on_rules(&rules);
        self.blame.on_rules(&rules);
        self.evaluator.replace(Arc::new(rules));
        let (alerting, situation) = self.alerting();
        alerting.on_rules(now.wall, &before, situation);
        if self.common_terms() != terms {
            self.resend_terms();
        }
    }

    /// The rules of alerts that fire and that these rules would end.
    pub fn firing_without(&self, rules: &Rules) -> BTreeSet<RuleName> {
        let firing = self.alerting.firing();
        firing.filter(|key| !rules.watch(key)).map(|key| key.rule.clone()).collect()
    }

    /// Every node that is shown is sent a confirmation with the next checkpoint, even if nothing
    /// else about it has changed: to be called when limits or urgencies have changed.
    pub fn resend_terms(&mut self) {
        self.fleet.touch_shown();
    }

    /// By how much operations have regressed, by rule; `None` of one that could not be judged.
    pub fn on_regressions(&mut self, now: Wall, found: BTreeMap<RuleName, Option<Value>>) {
        self.evaluator.self_monitoring.on_regressions(now, found);
    }

    /// This many tasks and threads of this process had to be started again.
    pub fn on_task_restarts(&mut self, restarts: u64) {
        self.task_restarts = restarts;
    }

    /// Executes a client's command about alerts.
    pub fn on_order(
        &mut self,
        now: Wall,
        command: AlertCommand,
    ) -> Result<CommandResult, CommandError> {
        let (alerting, situation) = self.alerting();
        alerting.on_command(now, command, situation)
    }

    /// From now on silences are shared with other aggregators, as those of `own`.
    pub fn share_silences(&mut self, own: AggregatorName) {
        self.alerting.silences.share_as(own);
    }

    /// What other aggregators should know of silences, and a number that changes with it.
    pub fn shared_silences(&self) -> (u64, Option<SharedSilences>) {
        let silences = &self.alerting.silences;
        (silences.revision, silences.report())
    }

    /// Takes over what another aggregator knows of silences.
    pub fn on_shared_silences(&mut self, now: Wall, shared: SharedSilences) {
        self.alerting.on_shared_silences(now, shared);
    }

    /// Counts a report of another aggregator that is not one.
    pub fn on_shared_silences_refused(&mut self, reason: &'static str) {
        self.alerting.silences.count_refused(reason);
    }

    /// Begins or stops a run for a client.
    pub fn on_run_command(&mut self, now: Wall, command: RunCommand) -> Result<RunRow, RunError> {
        self.runs.on_command(now, command)
    }

    /// Notifications on their way to the bus.
    pub fn notifications(&mut self) -> &mut Notifications {
        &mut self.alerting.notifications
    }

    /// The next post to a receiver, if one is to be made now.
    pub fn next_post(&mut self, now: Now) -> Option<Post> {
        self.alerting.deliveries.next_post(now)
    }

    /// Why the post was not taken that [`Self::on_answer`] is about to end, in one line.
    pub fn on_cause(&mut self, receiver: &str, cause: String) {
        self.alerting.deliveries.on_cause(receiver, cause);
    }

    /// Receivers whose latest post was not taken, with the reason.
    pub fn failing_receivers(&self) -> Vec<(String, String)> {
        let stats = self.alerting.deliveries.stats().into_iter();
        stats.filter_map(|of| Some((of.name, of.failure?))).collect()
    }

    pub fn on_answer(&mut self, now: Now, receiver: &str, answer: Answer) {
        for took in self.alerting.on_answer(now, receiver, answer) {
            self.fleet.record(now.wall, NOTIFICATION_DELIVERY, nanos(took));
        }
    }

    /// The next undeliverable notification that is to be sent to the bus.
    pub fn next_unreported(&mut self) -> Option<Undeliverable> {
        self.alerting.deliveries.next_unreported()
    }

    /// A name that two nodes share and that is to be warned of, and not too often.
    pub fn next_conflict(&mut self, now: Mono) -> Option<NodeName> {
        self.fleet.duplicate_names.next(now)
    }

    /// Budgets that no sample has matched though samples have come for minutes, each once.
    pub fn next_unmatched(&mut self) -> Vec<RuleName> {
        self.evaluator.unmatched.next()
    }

    /// Budgets that for minutes have had too few samples to judge, some of them over the limit;
    /// each once.
    pub fn next_insufficient(&mut self) -> Vec<RuleName> {
        self.evaluator.insufficient.next()
    }

    /// Whether anything has changed since the last checkpoint.
    fn has_unsaved(&self) -> bool {
        self.durable.everything
            || self.ingest.has_changed
            || self.fleet.has_changed()
            || self.alerting.has_changed()
            || self.history.has_changed()
            || self.runs.has_changed
    }

    /// What has changed since this was last called; `None` when nothing has.
    pub fn take_changes(&mut self, now: Wall) -> Option<Changes> {
        if !self.has_unsaved() {
            return None;
        }
        self.evaluator.self_monitoring.on_taken(now);
        let positions = Lane::ALL.map(|lane| (lane, self.ingest.position(lane))).into();
        let history = self.history.take(now, positions);
        let is_owed = self.durable.needs_alerts_record() || self.alerting.has_changed();
        let alerts = is_owed.then(|| self.alerting.record(now));

        let budgets = self.durable.needs_budgets_record(now).then(|| {
            let (budgets, operations) = (&self.evaluator.rules().budgets, self.fleet.operations());
            BudgetsRecord::of(self.mesh.clone(), now, budgets, operations)
        });

        let fleet = self.fleet.checkpoint(self.durable.everything);

        let rest = Rest {
            mesh: self.mesh.clone(),
            at: now,
            evaluator: self.evaluator.checkpoint(),
            ingest: self.ingest.checkpoint(),
            fleet: fleet.rest,
            alerting: self.alerting.checkpoint(self.evaluator.rules()),
            history_generation: self.history.generation(),
            runs: self.runs.checkpoint(),
            shard: self.shard.as_mut().map(|shard| shard.stored(now)),
        };

        Some(self.durable.on_taken(Changes {
            everything: fleet.everything,
            read_up_to: self.ingest.read_up_to(),
            nodes: fleet.nodes,
            pools: Arc::new(fleet.pools),
            pools_before: None,
            rest,
            history,
            alerts,
            budgets,
        }))
    }

    /// The nodes that have changed since this or [`Self::take_changes`] was last called.
    pub fn take_changed_nodes(&mut self) -> BTreeSet<NodeName> {
        self.ingest.checkpoint();
        self.alerting.clear_changes();
        self.runs.clear_changes();
        let changed = self.fleet.take_changed().filter(|_| !self.durable.everything);
        self.durable.clear();
        changed.unwrap_or_else(|| self.fleet.nodes().keys().cloned().collect())
    }

    /// A checkpoint that was taken then was stored, with its part of the history or without; the
    /// next one begins so long after it began.
    pub fn on_stored(&mut self, taken_at: Wall, next_after: Duration, with_history: bool) {
        self.evaluator.self_monitoring.on_stored(taken_at);
        self.fleet.gaps.checkpoints_every = next_after;
        if with_history {
            self.history.on_stored();
        }
    }

    pub fn on_history_series(&mut self, series: usize) {
        self.history.on_series(series);
    }

    /// Changes taken may not have been stored: the next ones are everything.
    pub fn on_changes_lost(&mut self) {
        self.durable.on_changes_lost();
    }
}

#[cfg(test)]
pub(crate) mod tests;
