//! Reads every GPU through NVML, on a thread of its own: any call may hang. Each GPU is polled
//! ten times a second, and once an interval, of a second at least, the polls become readings:
//! least, mean and greatest.
//!
//! A driver that hangs with one GPU stops the polls of all, and their readings become stale: NVML
//! holds locks of its own, so that a thread for each GPU would hang like this one. On a machine
//! without the library or its driver a few readings report that, and the search repeats once a
//! minute.

mod aside;
mod faults;
mod fold;
mod links;
mod one;
mod query;
mod roster;
mod session;
mod throttle;
mod units;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::limits::{GPU_POLL_EVERY, SENSOR_RELIST_EVERY};
use nvml_wrapper::Nvml;
use nvml_wrapper::error::NvmlError;
use plimsoll_clock::Clock;
use plimsoll_schemas::hardware::{
    GPU_UTILIZATION_RATIO, GPUS_DRIVER_INFO, GPUS_LISTED, GPUS_LOST, MissingReading,
};
use plimsoll_schemas::time::Mono;

use self::roster::Roster;
use self::session::Session;
use super::gather::{Gather, List};
use super::lifeline::{Lifeline, Pace};
use super::sampling::Sampling;
use super::scale::Raw;
use super::slot::ThreadReadings;

/// All GPUs of this machine, and where their readings go.
pub(super) struct Gpus {
    pub(super) clock: Clock,
    /// Time that readings cover.
    pub(super) every: Duration,
    pub(super) library: Option<PathBuf>,
    pub(super) slot: Arc<ThreadReadings>,
    pub(super) sampling: Sampling,
    /// Version of the driver that was loaded last.
    pub(super) driver: Option<String>,
}

/// Why a driver is unloaded.
enum Ended {
    /// The thread shall end.
    Cut,
    /// It must be loaded anew at once.
    Reload,
    /// It cannot be queried any more.
    Gone(MissingReading),
}

impl Gpus {
    pub(super) fn run(mut self, lifeline: &Lifeline) {
        let mut roster = Roster::default();
        let mut got = None;

        loop {
            let why = match self.load() {
                Ok(nvml) => match self.watch(&nvml, &mut roster, lifeline) {
                    Ended::Cut => return,
                    Ended::Reload => continue,
                    Ended::Gone(why) => why,
                },
                Err(error) => {
                    let why = why_not_loaded(&error);
                    if got.replace(why) != Some(why) {
                        let state = why.state.as_str();
                        match why.reason {
                            "no_driver" => {
                                tracing::info!(%error, "no NVIDIA driver; GPUs are not monitored");
                            }
                            reason => tracing::info!(
                                %error, state, reason,
                                "nvml cannot be loaded; GPUs are not monitored"
                            ),
                        }
                    }

                    why
                }
            };
            if !self.go_without(why, &mut roster, lifeline) {
                return;
            }
        }
    }

    fn load(&mut self) -> Result<Nvml, NvmlError> {
        let mut builder = Nvml::builder();
        if let Some(path) = &self.library {
            builder.lib_path(path.as_ref());
        }
        let nvml = builder.init()?;
        self.driver = nvml.sys_driver_version().ok();
        tracing::info!(driver = self.driver, "nvml loaded");
        Ok(nvml)
    }

    /// Polls the GPUs of one loaded driver for as long as it can be queried.
    fn watch(&mut self, nvml: &Nvml, roster: &mut Roster, lifeline: &Lifeline) -> Ended {
        // Before the first beat, so that each tenth beat closes an interval.
        let began = self.clock.now().mono;
        let mut pace = Pace::new(self.clock, GPU_POLL_EVERY);
        let mut session = Session::new(nvml, began);
        let mut close_at = began.plus(self.every);
        let mut listed = session.list(roster);

        loop {
            let now = self.clock.now().mono;
            match &listed {
                Err(error) => {
                    tracing::warn!(%error, "GPUs cannot be listed; nvml unloaded");
                    return Ended::Gone(MissingReading::failed("not_listed"));
                }
                Ok(_) if session.must_reload(roster, now) => return Ended::Reload,
                Ok(count) if now >= close_at => {
                    self.publish(now, roster, Ok(*count));
                    close_at = close_at.plus(self.every);
                    if close_at <= now {
                        close_at = now.plus(self.every);
                    }
                    listed = session.list(roster);
                }
                Ok(_) => {}
            }

            self.sampling.timed(|| session.poll(roster, now));
            if !pace.rest(lifeline) {
                return Ended::Cut;
            }
        }
    }

    /// Reports why there are no readings until the next search; false to end the thread.
    fn go_without(
        &mut self,
        why: MissingReading,
        roster: &mut Roster,
        lifeline: &Lifeline,
    ) -> bool {
        // GPUs that were there once are not unsupported, whatever became of their driver.
        roster.lose(MissingReading::failed(why.reason));
        let mut pace = Pace::new(self.clock, self.every);
        let again = self.clock.now().mono.plus(SENSOR_RELIST_EVERY);

        loop {
            let now = self.clock.now().mono;
            if now >= again {
                return true;
            }
            self.publish(now, roster, Err(why));
            if !pace.rest(lifeline) {
                return false;
            }
        }
    }

    fn publish(&mut self, now: Mono, roster: &mut Roster, listed: Result<u32, MissingReading>) {
        let mut gather = Gather::default();
        let known = !roster.gpus.is_empty();
        let lost: Raw = if known { Ok(0) } else { listed }.map(|_| roster.lost() as f64);
        gather.put(&GPUS_LISTED, listed.and_then(|count| units::count(count.into())));
        gather.put(&GPUS_LOST, lost);
        if let Some(version) = &self.driver {
            gather.put_with(&GPUS_DRIVER_INFO, &[("version", version)], Ok(1.0));
        }
        gather.leave_out(List::Gpus, roster.unseated);
        if !known {
            let why = listed.err().unwrap_or(MissingReading::unsupported("no_gpu"));
            gather.put(&GPU_UTILIZATION_RATIO, Err(why));
        }
        roster.gpus.iter_mut().for_each(|gpu| gpu.close(&mut gather));
        self.sampling.gather(&mut gather);
        self.slot.put(now, gather.finish());
    }
}

/// No library and no driver is a machine without GPUs; anything else is a fault.
fn why_not_loaded(error: &NvmlError) -> MissingReading {
    match query::missing(error) {
        MissingReading { reason: "old_driver" | "no_driver", .. } => {
            MissingReading::unsupported("no_driver")
        }
        missing => missing,
    }
}
