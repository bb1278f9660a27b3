//! The GPUs of one loaded driver: reads its list, polls each GPU, and sends slow queries to one GPU
//! per poll, so that no poll waits for all of them.

use crate::limits::{GPU_POLL_EVERY, GPU_RELOAD_EVERY, GPU_SELDOM_EVERY, GPUS_MAX, SENSOR_EVERY};
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::{Device, EventSet, Nvml};
use plimsoll_schemas::hardware::MissingReading;
use plimsoll_schemas::time::Mono;

use super::aside;
use super::faults;
use super::one::Gpu;
use super::query::{self, LOST, queried};
use super::roster::Roster;

/// One loaded driver, from one load to the next.
pub(super) struct Session<'nvml> {
    nvml: &'nvml Nvml,
    began: Mono,
    polls: u128,
    /// By a GPU's index in the roster.
    seats: [Option<Seat<'nvml>>; GPUS_MAX],
}

struct Seat<'nvml> {
    uuid: Option<String>,
    device: Device<'nvml>,
    // None until the GPU has answered once.
    faults: Option<Result<EventSet<'nvml>, MissingReading>>,
}

impl<'nvml> Session<'nvml> {
    pub(super) fn new(nvml: &'nvml Nvml, began: Mono) -> Self {
        Self { nvml, began, polls: 0, seats: Default::default() }
    }

    /// Lists the GPUs; returns how many the driver lists.
    ///
    /// # Errors
    /// A driver that returns no count has been unloaded or replaced during the session.
    pub(super) fn list(&mut self, roster: &mut Roster) -> Result<u32, NvmlError> {
        let count = self.nvml.device_count()?;
        // A wild count becomes neither a long loop nor GPUs that are not there.
        let listed = (0..count).take(2 * GPUS_MAX).map(|n| self.nvml.device_by_index(n));
        let devices: Vec<_> =
            listed.take_while(|device| !matches!(device, Err(NvmlError::InvalidArg))).collect();
        let uuid = |device: &Result<Device<'_>, NvmlError>| device.as_ref().ok()?.uuid().ok();
        let uuids: Vec<_> = devices.iter().map(uuid).collect();
        let mut before = std::mem::take(&mut self.seats);

        for (index, device) in roster.on_list(&uuids).into_iter().zip(devices) {
            let Some(index) = index else { continue };
            let gpu = &mut roster.gpus[index];

            match queried(device) {
                Ok(device) => {
                    gpu.name = gpu.name.take().or_else(|| device.name().ok());
                    let uuid = gpu.uuid.clone();
                    let seat = before[index].take().filter(|seat| seat.uuid == uuid);
                    let faults = seat.and_then(|seat| seat.faults);
                    self.seats[index] = Some(Seat { uuid, device, faults });
                }
                // There is a GPU, so whatever the error, the query failed.
                Err(missing) => gpu.lost = Some(MissingReading::failed(missing.reason)),
            }
        }

        Ok(count)
    }

    /// Polls every GPU, and queries one of them aside.
    pub(super) fn poll(&mut self, roster: &mut Roster, now: Mono) {
        // One GPU is queried aside at each poll, so that a slow query delays only that poll.
        let turns =
            (SENSOR_EVERY.as_nanos() / GPU_POLL_EVERY.as_nanos()).max(roster.gpus.len() as u128);
        let turn = self.polls % turns;
        self.polls += 1;
        for (index, (gpu, seat)) in roster.gpus.iter_mut().zip(&mut self.seats).enumerate() {
            let Some(seat) = seat.as_mut().filter(|_| gpu.lost.is_none()) else { continue };
            seat.poll(self.nvml, gpu, now);
            if gpu.lost.is_none() && turn == index as u128 {
                seat.query_slow(gpu, now);
            }
        }
    }

    /// A driver lists what it found when it was loaded: a GPU that was lost can come back only
    /// when it is loaded anew. Rarely, since that stops the readings of the others.
    pub(super) fn must_reload(&self, roster: &Roster, now: Mono) -> bool {
        roster.lost() > 0 && now.since(self.began) >= GPU_RELOAD_EVERY
    }
}

impl<'nvml> Seat<'nvml> {
    fn poll(&mut self, nvml: &'nvml Nvml, gpu: &mut Gpu, now: Mono) {
        let poll = query::poll(&self.device);
        if poll.figures.contains(&Err(LOST)) {
            self.faults = None;
            return gpu.lost = Some(LOST);
        }
        gpu.on_poll(now, &poll);
        let device = &self.device;
        gpu.faults.drain(self.faults.get_or_insert_with(|| faults::subscribe(nvml, device)));
    }

    fn query_slow(&self, gpu: &mut Gpu, now: Mono) {
        gpu.each_interval = aside::each_interval(&self.device);
        if now >= gpu.seldom_due {
            gpu.seldom_due = now.plus(GPU_SELDOM_EVERY);
            gpu.seldom = aside::seldom(&self.device);
            gpu.seldom.extend(gpu.links.query(&self.device));
        }
    }
}
