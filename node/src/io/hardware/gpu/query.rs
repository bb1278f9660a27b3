//! The calls that every poll makes, and what NVML's errors mean. Nothing here takes long on a
//! driver that is well: what does is in `aside.rs`.

use nvml_wrapper::Device;
use nvml_wrapper::enum_wrappers::device::{Clock, TemperatureSensor};
use nvml_wrapper::error::{Bits, NvmlError};
use nvml_wrapper::struct_wrappers::device::MemoryInfo;
use plimsoll_schemas::hardware::MissingReading;

use super::super::scale::{self, Raw};
use super::fold::{DOMAINS, Poll};

/// In the order of [`DOMAINS`].
pub(super) const CLOCKS: [Clock; DOMAINS.len()] =
    [Clock::Graphics, Clock::SM, Clock::Memory, Clock::Video];

/// The GPU fell off the bus, or is not listed any more.
pub(super) const LOST: MissingReading = MissingReading::failed("lost");

/// NVML's answer, or in one word why there is none.
pub(super) fn queried<T>(answer: Result<T, NvmlError>) -> Result<T, MissingReading> {
    answer.map_err(|error| missing(&error))
}

/// What an error of NVML makes of a reading.
pub(super) fn missing(error: &NvmlError) -> MissingReading {
    match error {
        NvmlError::NotSupported | NvmlError::VgpuEccNotSupported => {
            MissingReading::unsupported("not_supported")
        }
        NvmlError::FunctionNotFound | NvmlError::FailedToLoadSymbol(_) => {
            MissingReading::unsupported("old_driver")
        }
        NvmlError::LibloadingError(_) | NvmlError::LibraryNotFound | NvmlError::DriverNotLoaded => {
            MissingReading::unsupported("no_driver")
        }
        NvmlError::GpuLost => LOST,
        NvmlError::NoPermission | NvmlError::OperatingSystem => {
            MissingReading::failed("no_permission")
        }
        NvmlError::Timeout => MissingReading::failed("timeout"),
        NvmlError::ResetRequired => MissingReading::failed("reset_required"),
        NvmlError::LibRmVersionMismatch => MissingReading::failed("driver_replaced"),
        NvmlError::Uninitialized => MissingReading::failed("not_loaded"),
        NvmlError::NoData => MissingReading::failed("no_data"),
        NvmlError::InsufficientPower => MissingReading::failed("no_power_cable"),
        NvmlError::IrqIssue => MissingReading::failed("no_interrupts"),
        NvmlError::UnexpectedVariant(_) | NvmlError::IncorrectBits(_) | NvmlError::Utf8Error(_) => {
            MissingReading::failed("not_understood")
        }
        _ => MissingReading::failed("driver"),
    }
}

/// What changes between polls.
pub(super) fn poll(device: &Device<'_>) -> Poll {
    let utilization = queried(device.utilization_rates());
    let percent = |percent: Result<u32, MissingReading>| {
        percent.map(f64::from).and_then(scale::ratio_from_percent)
    };
    let memory = queried(device.memory_info());
    let bytes = |part: fn(&MemoryInfo) -> u64| {
        memory.as_ref().map(part).map_err(|missing| *missing).and_then(scale::bytes)
    };
    let celsius = queried(device.temperature(TemperatureSensor::Gpu)).map(f64::from);
    let [graphics, sm, clock_of_memory, video] =
        CLOCKS.map(|clock| hertz(device.clock_info(clock)));

    Poll {
        figures: [
            percent(utilization.as_ref().map(|rates| rates.gpu).map_err(|missing| *missing)),
            percent(utilization.map(|rates| rates.memory)),
            bytes(|memory| memory.total),
            bytes(|memory| memory.used),
            bytes(|memory| memory.free),
            celsius.and_then(scale::celsius),
            watts(device.power_usage()),
            graphics,
            sm,
            clock_of_memory,
            video,
        ],
        throttle_bits: queried(throttle_bits(device)),
    }
}

pub(super) fn hertz(mhz: Result<u32, NvmlError>) -> Raw {
    queried(mhz).and_then(|mhz| scale::hertz_from_mhz(f64::from(mhz)))
}

pub(super) fn watts(milliwatts: Result<u32, NvmlError>) -> Raw {
    queried(milliwatts).and_then(scale::watts_from_milliwatts)
}

/// The lenient call drops unknown bits without a word; the strict one's error holds them all.
fn throttle_bits(device: &Device<'_>) -> Result<u64, NvmlError> {
    match device.current_throttle_reasons_strict() {
        Ok(reasons) => Ok(reasons.bits()),
        Err(NvmlError::IncorrectBits(Bits::U64(bits))) => Ok(bits),
        Err(error) => Err(error),
    }
}
