//! Asks NVML about every GPU, on a thread of its own: any call here may hang.
//!
//! A machine without the library or its driver has one unsupported reading, so that the absence
//! is visible, and is looked at again once a minute.

use std::ffi::OsStr;
use std::path::PathBuf;
use std::sync::Arc;

use nvml_wrapper::enum_wrappers::device::{Clock, TemperatureSensor};
use nvml_wrapper::error::{Bits, NvmlError};
use nvml_wrapper::{Device, Nvml};
use plimsoll_schemas::hardware::{GPU_UTILIZATION_RATIO, Missing, Reading};
use plimsoll_schemas::limits::node::{GPUS_MAX, SENSOR_RELIST_EVERY};
use plimsoll_schemas::time::Mono;

use super::Tally;
use super::gather::Gather;
use super::gpu_fold::{Asked, DOMAINS, Figures, Memory};

/// In the order of [`DOMAINS`].
const CLOCKS: [Clock; DOMAINS.len()] = [Clock::Graphics, Clock::SM, Clock::Memory, Clock::Video];

/// All GPUs of this machine.
pub(super) struct Gpu {
    library: Option<PathBuf>,
    tally: Arc<Tally>,
    driver: Driver,
    // A GPU once seen keeps its readings and labels, even when it can no longer be asked.
    known: usize,
    names: [Option<String>; GPUS_MAX],
}

enum Driver {
    Untried,
    Absent { why: Missing, retry: Mono },
    Loaded(Box<Nvml>),
}

impl Gpu {
    pub(super) fn new(library: Option<PathBuf>, tally: Arc<Tally>) -> Self {
        Self { library, tally, driver: Driver::Untried, known: 0, names: Default::default() }
    }

    /// Every GPU's readings, or one reading that says why there are none.
    pub(super) fn sample(&mut self, now: Mono) -> Vec<Reading> {
        let mut gather = Gather::default();
        self.load_when_due(now);
        let counted = self.count(now, &mut gather);
        if let Ok(count) = counted {
            self.known = self.known.max(count);
        }
        let nvml = if let Driver::Loaded(nvml) = &self.driver { Some(&**nvml) } else { None };
        for (index, name) in (0u32..).zip(&mut self.names).take(self.known) {
            gather_gpu(nvml, index, name, &mut gather);
        }
        if self.known == 0 {
            let why = counted.err().unwrap_or(Missing::unsupported("no_gpu"));
            gather.put(&GPU_UTILIZATION_RATIO, Err(why));
        }
        gather.finish(&self.tally)
    }

    fn load_when_due(&mut self, now: Mono) {
        let before = match self.driver {
            Driver::Untried => None,
            Driver::Absent { why, retry } if now >= retry => Some(why),
            Driver::Absent { .. } | Driver::Loaded(_) => return,
        };
        self.driver = match load(self.library.as_deref().map(AsRef::as_ref)) {
            Ok(nvml) => Driver::Loaded(Box::new(nvml)),
            Err(error) => {
                let why = state_of_load(&error);
                if before != Some(why) {
                    tracing::info!(%error, state = why.state.as_str(), why.reason, "nvml does not load");
                }
                Driver::Absent { why, retry: now.plus(SENSOR_RELIST_EVERY) }
            }
        };
    }

    /// How many GPUs the driver lists. A driver that cannot say has been unloaded or replaced
    /// beneath us; NVML is let go then and loaded anew later.
    fn count(&mut self, now: Mono, gather: &mut Gather) -> Result<usize, Missing> {
        let listed = match &self.driver {
            Driver::Untried => return Err(Missing::failed("not_loaded")),
            Driver::Absent { why, .. } => return Err(*why),
            Driver::Loaded(nvml) => nvml.device_count(),
        };
        let count = listed.map_err(|error| {
            tracing::warn!(%error, "gpus cannot be listed, nvml is let go");
            let (why, retry) = (Missing::failed("not_listed"), now.plus(SENSOR_RELIST_EVERY));
            self.driver = Driver::Absent { why, retry };
            why
        })?;
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        gather.skip(count.saturating_sub(GPUS_MAX));
        Ok(count.min(GPUS_MAX))
    }
}

fn load(library: Option<&OsStr>) -> Result<Nvml, NvmlError> {
    let mut builder = Nvml::builder();
    if let Some(path) = library {
        builder.lib_path(path);
    }
    let nvml = builder.init()?;
    tracing::info!(driver = nvml.sys_driver_version().ok(), "nvml loaded");
    Ok(nvml)
}

/// No library and no driver is a machine without GPUs; anything else is a fault.
fn state_of_load(error: &NvmlError) -> Missing {
    match error {
        NvmlError::LibloadingError(_)
        | NvmlError::LibraryNotFound
        | NvmlError::DriverNotLoaded
        | NvmlError::FailedToLoadSymbol(_) => Missing::unsupported("no_driver"),
        _ => Missing::failed("not_loaded"),
    }
}

fn gather_gpu(nvml: Option<&Nvml>, index: u32, name: &mut Option<String>, gather: &mut Gather) {
    let figures = match nvml.map(|nvml| nvml.device_by_index(index)) {
        Some(Ok(device)) => {
            if name.is_none() {
                *name = device.name().ok();
            }
            ask(&device)
        }
        // There is a GPU under this index, so whatever the error, asking it went wrong.
        Some(Err(_)) | None => Figures::absent(Missing::failed("lost")),
    };
    let index = index.to_string();
    let mut identity = vec![("gpu", index.as_str())];
    identity.extend(name.as_deref().map(|name| ("name", name)));
    figures.fold_into(gather, &identity);
}

fn ask(device: &Device<'_>) -> Figures {
    let memory = device.memory_info();
    Figures {
        utilization_percent: asked(device.utilization_rates().map(|rates| rates.gpu)),
        memory: asked(memory.map(|memory| Memory {
            total: memory.total,
            used: memory.used,
            free: memory.free,
        })),
        temperature_celsius: asked(device.temperature(TemperatureSensor::Gpu)),
        power_milliwatts: asked(device.power_usage()),
        clocks_mhz: CLOCKS.map(|clock| asked(device.clock_info(clock))),
        throttle_bits: asked(throttle_bits(device)),
    }
}

/// The lenient call drops unknown bits without a word; the strict one's error holds them all.
fn throttle_bits(device: &Device<'_>) -> Result<u64, NvmlError> {
    match device.current_throttle_reasons_strict() {
        Ok(reasons) => Ok(reasons.bits()),
        Err(NvmlError::IncorrectBits(Bits::U64(bits))) => Ok(bits),
        Err(error) => Err(error),
    }
}

fn asked<T>(answer: Result<T, NvmlError>) -> Asked<T> {
    answer.map_err(|error| match error {
        NvmlError::NotSupported
        | NvmlError::FunctionNotFound
        | NvmlError::FailedToLoadSymbol(_) => Missing::unsupported("driver"),
        _ => Missing::failed("driver"),
    })
}
