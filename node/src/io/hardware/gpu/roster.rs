//! Which GPU is which, over losses and returns: by UUID, since a driver numbers those that it
//! lists anew when one is gone. Pure.

use crate::limits::GPUS_MAX;
use plimsoll_schemas::hardware::MissingReading;

use super::one::Gpu;
use super::query::LOST;

/// Every GPU ever seen, [`GPUS_MAX`] at most; a new one replaces a lost one.
#[derive(Default)]
pub(super) struct Roster {
    pub(super) gpus: Vec<Gpu>,
    /// GPUs listed now for which there is no room.
    pub(super) unseated: usize,
    // The position of each GPU in the driver's list when it was last listed.
    positions: Vec<usize>,
}

impl Roster {
    /// Takes the driver's list: the UUID of each GPU, or nothing if it cannot be read. Returns
    /// for each the index of its [`Gpu`], none if there is no room; all others are lost.
    pub(super) fn on_list(&mut self, uuids: &[Option<String>]) -> Vec<Option<usize>> {
        // Each is lost until the list names it.
        self.lose(LOST);
        // All UUIDs first, so that a GPU without one cannot take the place of another further on.
        let mut found: Vec<_> = uuids.iter().map(|uuid| self.known(uuid.as_deref())).collect();

        for (position, uuid) in uuids.iter().enumerate() {
            if found[position].is_none() {
                found[position] =
                    self.nameless(position, uuid, &found).or_else(|| self.admit(position, &found));
            }

            let Some(index) = found[position] else { continue };
            self.positions[index] = position;
            let gpu = &mut self.gpus[index];
            gpu.lost = None;
            gpu.uuid = uuid.clone().or_else(|| gpu.uuid.take());
        }

        self.unseated = found.iter().filter(|index| index.is_none()).count();
        found
    }

    /// No GPU can be queried now.
    pub(super) fn lose(&mut self, why: MissingReading) {
        self.gpus.iter_mut().for_each(|gpu| gpu.lost = Some(why));
    }

    pub(super) fn lost(&self) -> usize {
        self.gpus.iter().filter(|gpu| gpu.lost.is_some()).count()
    }

    fn known(&self, uuid: Option<&str>) -> Option<usize> {
        self.gpus.iter().position(|gpu| uuid.is_some() && gpu.uuid.as_deref() == uuid)
    }

    /// A GPU that reports no UUID now, or never did before, is the one listed at that position.
    fn nameless(
        &self,
        position: usize,
        uuid: &Option<String>,
        found: &[Option<usize>],
    ) -> Option<usize> {
        let mut candidates = 0..self.gpus.len();
        candidates.find(|index| {
            let uncertain = uuid.is_none() || self.gpus[*index].uuid.is_none();
            uncertain && self.positions[*index] == position && !found.contains(&Some(*index))
        })
    }

    fn admit(&mut self, position: usize, found: &[Option<usize>]) -> Option<usize> {
        if self.gpus.len() < GPUS_MAX {
            self.gpus.push(Gpu::new(self.free_number(position), None));
            self.positions.push(position);
            return Some(self.gpus.len() - 1);
        }
        let gone = (0..GPUS_MAX).find(|index| !found.contains(&Some(*index)))?;
        self.gpus[gone] = Gpu::new(self.gpus[gone].number, None);
        Some(gone)
    }

    /// The driver's own number, unless a lost GPU has it.
    fn free_number(&self, position: usize) -> usize {
        let is_free = |number: &usize| self.gpus.iter().all(|gpu| gpu.number != *number);
        std::iter::once(position).chain(0..).find(is_free).unwrap_or(position)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Number, UUID and whether it can be queried, of every GPU.
    fn shown(roster: &Roster) -> Vec<(usize, &str, bool)> {
        let gpu = |gpu: &Gpu| gpu.uuid.clone().unwrap_or_default().leak() as &str;
        roster.gpus.iter().map(|one| (one.number, gpu(one), one.lost.is_none())).collect()
    }

    fn list(roster: &mut Roster, uuids: &[&str]) -> Vec<Option<usize>> {
        let some = |uuid: &&str| (!uuid.is_empty()).then(|| (*uuid).to_owned());
        roster.on_list(&uuids.iter().map(some).collect::<Vec<_>>())
    }

    #[test]
    fn a_gpu_keeps_its_number_when_another_goes_and_comes_back() {
        let mut roster = Roster::default();
        assert_eq!(list(&mut roster, &["a", "b", "c"]), [Some(0), Some(1), Some(2)]);
        assert_eq!(list(&mut roster, &["b", "c"]), [Some(1), Some(2)]);
        assert_eq!(shown(&roster), [(0, "a", false), (1, "b", true), (2, "c", true)]);
        assert_eq!(roster.lost(), 1);
        assert_eq!(list(&mut roster, &["c", "a", "b"]), [Some(2), Some(0), Some(1)]);
        assert_eq!(shown(&roster), [(0, "a", true), (1, "b", true), (2, "c", true)]);
    }

    #[test]
    fn a_gpu_put_in_for_a_lost_one_is_another_gpu() {
        let mut roster = Roster::default();
        list(&mut roster, &["a", "b"]);
        assert_eq!(list(&mut roster, &["b", "new"]), [Some(1), Some(2)]);
        assert_eq!(shown(&roster), [(0, "a", false), (1, "b", true), (2, "new", true)]);
    }

    #[test]
    fn a_gpu_without_a_uuid_is_named_by_place() {
        let mut roster = Roster::default();
        assert_eq!(list(&mut roster, &["a", ""]), [Some(0), Some(1)]);
        assert_eq!(list(&mut roster, &["", "late"]), [Some(0), Some(1)]);
        assert_eq!(shown(&roster), [(0, "a", true), (1, "late", true)]);
    }

    #[test]
    fn gpus_are_bounded_and_a_lost_one_is_replaced() {
        let mut roster = Roster::default();
        let many: Vec<_> = (0..GPUS_MAX + 2).map(|n| Some(n.to_string())).collect();
        let found = roster.on_list(&many);
        assert_eq!(found.iter().flatten().count(), GPUS_MAX);
        assert_eq!(found[GPUS_MAX..], [None, None]);
        assert_eq!(roster.unseated, 2);
        assert_eq!(roster.on_list(&many[2..]).iter().flatten().count(), GPUS_MAX);
        assert_eq!((roster.gpus.len(), roster.lost()), (GPUS_MAX, 0));
    }

    proptest! {
        #[test]
        fn whatever_the_driver_lists_no_two_gpus_share_a_number_or_a_place(
            lists in proptest::collection::vec(
                proptest::collection::vec(proptest::option::of("[a-f]"), 0..20), 1..8),
        ) {
            let mut roster = Roster::default();
            for list in lists {
                let found = roster.on_list(&list);
                let mut numbers: Vec<_> = roster.gpus.iter().map(|gpu| gpu.number).collect();
                numbers.sort_unstable();
                let count = numbers.len();
                numbers.dedup();
                prop_assert_eq!(numbers.len(), count);
                prop_assert!(count <= GPUS_MAX);
                let listed = found.iter().flatten().collect::<std::collections::BTreeSet<_>>();
                prop_assert_eq!(roster.lost(), count - listed.len());
            }
        }
    }
}
