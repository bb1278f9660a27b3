//! The sampler as a whole: switched off, and on recorded machines.

mod trees;

use super::*;
use plimsoll_runtime::supervision::Supervisor;

#[test]
fn switched_off_sampling_has_no_thread_and_an_open_silent_channel() {
    let config = HardwareSettings { enabled: false, ..HardwareSettings::default() };
    let (sampler, mut receiver) = Sampler::start(&config, &Supervisor::default());
    assert_eq!(sampler.lifeline.threads(), 0);
    assert_eq!(receiver.try_recv(), Err(mpsc::error::TryRecvError::Empty));
    sampler.stop();
    assert_eq!(receiver.try_recv(), Err(mpsc::error::TryRecvError::Disconnected));
}
