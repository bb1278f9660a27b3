//! The program's own code in memory. Most of what an agent has resident is code, and most of that
//! ran once: settings, help, certificates, the first connection. Once it runs, all of it is let go;
//! what is in use comes back from the page cache by itself, a soft fault for each 64 KiB. Touches
//! nothing that was ever written, and does nothing where the kernel does not tell where code lies.

use std::ffi::c_void;
use std::fs;
use std::ptr::NonNull;

use crate::limits::ROUND_TRIPS_TO_SETTLE;
use nix::sys::mman::{MmapAdvise, madvise};

/// Lets it go once in a process.
#[derive(Debug, Default)]
pub struct OwnText {
    round_trips: u32,
}

impl OwnText {
    /// The broker answered, as it does each second while all goes well: after some of these
    /// everything has run that runs once.
    pub fn on_round_trip(&mut self) {
        self.round_trips = self.round_trips.saturating_add(1);
        if self.round_trips != ROUND_TRIPS_TO_SETTLE {
            return;
        }
        let maps = fs::read_to_string("/proc/self/maps").unwrap_or_default();
        let here = code_around as *const () as usize;
        if let Some((start, length)) = code_around(&maps, here) {
            let_go(start, length);
        }
    }
}

/// Start and length of the code that an address lies in: mapped from a file, never writable.
fn code_around(maps: &str, address: usize) -> Option<(usize, usize)> {
    maps.lines().find_map(|line| {
        let mut words = line.split_ascii_whitespace();
        let (first, last) = words.next()?.split_once('-')?;
        let number = |text| usize::from_str_radix(text, 16).ok();
        let (first, last) = (number(first)?, number(last)?);
        let is_code = words.next()? == "r-xp" && words.nth(2)? != "0";
        (is_code && (first..last).contains(&address)).then_some((first, last - first))
    })
}

#[expect(unsafe_code, reason = "no safe call drops mapped pages")]
fn let_go(start: usize, length: usize) {
    let Some(start) = NonNull::new(std::ptr::without_provenance_mut::<c_void>(start)) else {
        return;
    };
    // SAFETY: the kernel has just said that this is code of a file, mapped privately and not
    // writable, so its pages are those of the file: dropped ones are read again when they are used.
    let told = unsafe { madvise(start, length, MmapAdvise::MADV_DONTNEED) };
    if let Err(error) = told {
        tracing::debug!(%error, "code that ran once stays in memory");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAPS: &str = "\
1000-3000 r--p 00000000 fe:00 77 /usr/bin/plimsoll-node
3000-9000 r-xp 00002000 fe:00 77 /usr/bin/plimsoll-node
9000-a000 rwxp 00008000 fe:00 77 /usr/bin/plimsoll-node
b000-c000 r-xp 00000000 00:00 0 [vdso]
";

    #[test]
    fn code_of_a_file_that_nobody_can_write_is_found_by_an_address_in_it() {
        assert_eq!(code_around(MAPS, 0x3000), Some((0x3000, 0x6000)));
        assert_eq!(code_around(MAPS, 0x8fff), Some((0x3000, 0x6000)));
        for address in [0x2fff, 0x9000, 0xb000, 0xd000] {
            assert_eq!(code_around(MAPS, address), None, "{address:x}");
        }
        assert_eq!(code_around("no map\n-\n1-2\n1-g r-xp 0 0 1\n", 1), None);
    }

    /// KiB of the code around an address that are resident.
    fn resident(address: usize) -> u64 {
        let maps = fs::read_to_string("/proc/self/smaps").unwrap();
        let (start, _) = code_around(&maps, address).unwrap();
        let mut lines = maps.lines().skip_while(|line| !line.starts_with(&format!("{start:x}-")));
        let line = lines.find_map(|line| line.strip_prefix("Rss:")).unwrap();
        line.trim().trim_end_matches(" kB").parse().unwrap()
    }

    #[test]
    fn code_is_let_go_once_the_broker_has_answered_often_enough_and_the_program_goes_on() {
        let here = code_around as *const () as usize;
        let mut text = OwnText::default();
        for _ in 1..ROUND_TRIPS_TO_SETTLE {
            text.on_round_trip();
        }
        // Once for what looking itself needs.
        let (_, before) = (resident(here), resident(here));
        text.on_round_trip();
        let after = resident(here);
        assert!(after < before, "{after} KiB of {before} KiB");
    }
}
