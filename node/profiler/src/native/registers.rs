//! The registers that unwinding starts from, which differ between processors. Their numbers are
//! those of the kernel's `perf_regs.h`; values come with the lowest number first.

use framehop::UnwindRegsNative;
#[cfg(target_arch = "aarch64")]
use framehop::aarch64::PtrAuthMask;

/// Where a thread stood.
#[derive(Clone, Copy, Debug)]
pub(super) struct Start {
    pub(super) pc: u64,
    pub(super) stack_top: u64,
    pub(super) registers: UnwindRegsNative,
}

/// BP, SP and IP.
#[cfg(target_arch = "x86_64")]
pub(super) const MASK: u64 = 1 << 6 | 1 << 7 | 1 << 8;
/// X29 (the frame pointer), LR, SP and PC.
#[cfg(target_arch = "aarch64")]
pub(super) const MASK: u64 = 1 << 29 | 1 << 30 | 1 << 31 | 1 << 32;

/// From the values of [`MASK`].
#[cfg(target_arch = "x86_64")]
pub(super) fn start(values: &[u64]) -> Option<Start> {
    let &[bp, stack_top, pc] = values else { return None };
    Some(Start { pc, stack_top, registers: UnwindRegsNative::new(pc, stack_top, bp) })
}

/// From the values of [`MASK`].
#[cfg(target_arch = "aarch64")]
pub(super) fn start(values: &[u64]) -> Option<Start> {
    let &[fp, lr, stack_top, pc] = values else { return None };
    // User addresses of Linux have up to 48 bits; what lies above may sign a return address.
    let mask = PtrAuthMask::from_max_known_address((1 << 48) - 1);
    let registers = UnwindRegsNative::new_with_ptr_auth_mask(mask, lr, stack_top, fp);
    Some(Start { pc, stack_top, registers })
}
