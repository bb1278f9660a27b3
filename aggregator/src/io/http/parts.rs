//! The page of all nodes, rendered in parts: each part has the rows and the text of some nodes, so
//! that few rows exist at a time, and several threads render parts. The threads give way to
//! everything else on the machine that wants their core.
//!
//! DESIGN A65.

use std::num::NonZero;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use crate::core::view::{Nodes, ReadView, ViewQuery};
use crate::exposition::{Format, PageOptions, join, nodes_part};
use crate::limits::NICENESS;
use crate::limits::exposition::NODES_PART;
use plimsoll_runtime::priority::give_way;

/// Threads that render parts of one page: half as many as there are cores. They give way, and still
/// get a quarter of a core that another thread wants.
pub(super) fn threads() -> usize {
    thread::available_parallelism().map_or(1, NonZero::get).div_ceil(2)
}

/// The page of all nodes, rendered by this many threads. The same whatever their number.
pub(super) fn render(
    view: &ReadView,
    options: PageOptions<'_>,
    format: Format,
    threads: usize,
) -> Vec<u8> {
    let parts = view.nodes.len().div_ceil(NODES_PART).max(1);
    let (next, rendered) = (AtomicUsize::new(0), Mutex::new(Vec::with_capacity(parts)));

    let render = || {
        give_way(NICENESS);
        let mut bytes = 0;

        loop {
            // One after the other and not divided beforehand:
            // a thread that gets less of a core renders fewer.
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= parts {
                return;
            }
            let nodes = Nodes::Part(number * NODES_PART, NODES_PART);
            let native = format == Format::Protobuf;
            let of_part = view.view(ViewQuery { fleet: false, nodes, native });
            let part = nodes_part(&of_part, options, format, bytes);
            // The next one will be about as long.
            bytes = part.size() + part.size() / 16;
            rendered.lock().unwrap_or_else(PoisonError::into_inner).push((number, part));
        }
    };

    thread::scope(|scope| {
        (0..threads.clamp(1, parts)).for_each(|_| {
            scope.spawn(render);
        });
    });

    let mut rendered = rendered.into_inner().unwrap_or_else(PoisonError::into_inner);
    rendered.sort_by_key(|(number, _)| *number);
    join(format, rendered.into_iter().map(|(_, part)| part).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::tests::{MS, SECOND, Speaker, core, deliver, start};

    #[test]
    fn a_page_in_parts_has_the_series_of_the_whole_one_whatever_the_number_of_threads() {
        let mut core = core();
        let names: Vec<String> = (0..NODES_PART * 2 + 3).map(|n| format!("n{n:04}")).collect();
        for name in &names {
            let mut speaker = Speaker::new(name.clone().leak());
            let message = speaker.send_all(start(), (1..20).map(|n| n * 3 * MS));
            deliver(&mut core, start(), &message);
        }
        core.on_deadline(start().after(SECOND));
        let view = core.read_view(start().wall, "jetstream");
        let rules = core.rules().clone();
        let options = PageOptions { budgets: &rules.budgets, aliases: true };
        for format in Format::ALL {
            let native = format == Format::Protobuf;
            let whole = view.view(ViewQuery { fleet: false, nodes: Nodes::All, native });
            let whole = join(format, vec![nodes_part(&whole, options, format, 0)]);
            let one = render(&view, options, format, 1);
            assert_eq!(one, render(&view, options, format, 4), "{format:?}");
            assert_eq!(lines(&one), lines(&whole), "{format:?}");
            assert_eq!(bytes(&one), bytes(&whole), "{format:?}");
            assert_eq!(one.len(), whole.len(), "{format:?}");
        }
    }

    /// The lines of a text in any order: within a family the order of series means nothing.
    fn lines(page: &[u8]) -> Option<Vec<&[u8]>> {
        let _text = std::str::from_utf8(page).ok()?;
        let mut lines: Vec<&[u8]> = page.split(|byte| *byte == b'\n').collect();
        lines.sort_unstable();
        Some(lines)
    }

    /// How often a page has each byte.
    fn bytes(page: &[u8]) -> [usize; 256] {
        let mut counts = [0; 256];
        page.iter().for_each(|byte| counts[usize::from(*byte)] += 1);
        counts
    }
}
