//! Reads parts of a file ahead of their use, several at the same time: what one query needs lies
//! anywhere in the file, and a disk answers several reads about as soon as one.
//!
//! DESIGN A90.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, Builder};

use super::record::ReadError;
use crate::limits::{HISTORY_AHEAD_PARTS, HISTORY_AHEAD_THREADS};

/// Reads each part on one of several threads, and visits what was read in the order of the parts.
///
/// # Errors
/// The first one of `read` in the order of the parts; no part after it is visited.
pub(super) fn each<P: Sync, T: Send>(
    parts: &[P],
    read: impl Fn(&P) -> Result<T, ReadError> + Sync,
    mut visit: impl FnMut(T),
) -> Result<(), ReadError> {
    // For one part a thread would only be waited for.
    if let [] | [_] = parts {
        return parts.iter().try_for_each(|part| read(part).map(&mut visit));
    }
    let lanes = HISTORY_AHEAD_THREADS.min(parts.len());
    let read = &read;

    thread::scope(|scope| {
        let lane = |lane: usize| {
            let (sender, receiver) = sync_channel(HISTORY_AHEAD_PARTS);
            let own = parts.iter().skip(lane).step_by(lanes);
            let reader = Builder::new().name("read-history".to_owned());
            reader.spawn_scoped(scope, move || send_all(own.map(read), &sender))?;
            Ok(receiver)
        };

        let lanes: Vec<Receiver<_>> =
            (0..lanes).map(lane).collect::<Result<_, _>>().map_err(redb::Error::Io)?;

        for lane in lanes.iter().cycle().take(parts.len()) {
            // A thread that ends early has panicked, and so does the scope.
            visit(lane.recv().map_err(|_| ReadError::Closed)??);
        }

        Ok(())
    })
}

/// Sends up to the first error, or until it is received no longer.
fn send_all<T>(
    mut parts: impl Iterator<Item = Result<T, ReadError>>,
    sender: &SyncSender<Result<T, ReadError>>,
) {
    let _ended = parts.try_for_each(|part| {
        let is_read = part.is_ok();
        sender.send(part).ok().filter(|()| is_read)
    });
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn parts_are_visited_in_order_up_to_the_first_error(
            length in 0..60_u32,
            broken in prop::collection::vec(0..80_u32, 0..3),
        ) {
            let parts: Vec<u32> = (0..length).collect();
            let read = |part: &u32| match broken.contains(part) {
                true => Err(ReadError::Damaged(part.to_string())),
                false => Ok(*part),
            };
            let mut visited = Vec::new();
            let error = each(&parts, read, |part| visited.push(part)).err();
            let first = broken.iter().copied().filter(|part| *part < length).min();
            prop_assert_eq!(visited, (0..first.unwrap_or(length)).collect::<Vec<_>>());
            let named = first.map(|part| part.to_string());
            prop_assert_eq!(error.map(|error| error.to_string()), named);
        }
    }
}
