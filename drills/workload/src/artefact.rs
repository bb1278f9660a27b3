//! Kernels: tables of noise that each training pass adds to its points, and their checksum.
//!
//! A kernel's content follows from a seed and its number, so a broken one can be made again.
//! Nothing here opens a file. The checksum detects accidental damage only, not tampering.

use std::collections::VecDeque;

use crate::limits::{KERNEL_BYTES, KERNELS_CACHED_MAX};

use crate::rng::Generator;

/// Separates the kernels' random numbers from all others of the same seed.
const PURPOSE: u64 = 0x6b65_726e;

/// The 64-bit FNV-1a hash (Fowler, Noll and Vo). Every step is a bijection of the state, so
/// two contents that differ in one byte never share a checksum.
pub fn checksum(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

/// The number of a kernel, below `KERNELS`.
pub type KernelNumber = usize;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kernel(Vec<u8>);

impl Kernel {
    /// The kernel that belongs to this seed and number.
    pub fn generate(seed: u64, number: KernelNumber) -> Self {
        let mut rng = Generator::new(seed, PURPOSE + number as u64);
        Self((0..KERNEL_BYTES / 8).flat_map(|_| rng.bits().to_le_bytes()).collect())
    }

    /// Takes bytes for a kernel if they have the checksum that was written down for it.
    pub fn verified(bytes: Vec<u8>, expected: u64) -> Option<Self> {
        (bytes.len() == KERNEL_BYTES && checksum(&bytes) == expected).then_some(Self(bytes))
    }

    /// The bytes as stored on disk.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// Uniform noise in `-1.0..1.0`, endless: it begins again at the end of the table.
    pub fn noise(&self, from: usize) -> impl Iterator<Item = f32> {
        let pairs = self.0.chunks_exact(2);
        let table = pairs.map(|pair| f32::from(i16::from_le_bytes([pair[0], pair[1]])) / 32_768.0);
        table.cycle().skip(from % (KERNEL_BYTES / 2))
    }
}

/// The kernels used last; a further one takes the place of the one unused for longest.
#[derive(Clone, Debug, Default)]
pub struct Cache {
    /// Most recently used first.
    entries: VecDeque<(KernelNumber, Kernel)>,
}

impl Cache {
    /// The kernel, if it is here; it is now the most recently used.
    pub fn get(&mut self, number: KernelNumber) -> Option<&Kernel> {
        let at = self.entries.iter().position(|(held, _)| *held == number)?;
        let entry = self.entries.remove(at)?;
        self.entries.push_front(entry);
        self.entries.front().map(|(_, kernel)| kernel)
    }

    /// Keeps `kernel` in place of any of the same number.
    pub fn insert(&mut self, number: KernelNumber, kernel: Kernel) {
        self.remove(number);
        self.entries.push_front((number, kernel));
        self.entries.truncate(KERNELS_CACHED_MAX);
    }

    /// Removes the kernel from memory.
    pub fn remove(&mut self, number: KernelNumber) {
        self.entries.retain(|(held, _)| *held != number);
    }

    /// How many kernels are here.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// True when none is here.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn checksums_are_those_of_the_published_test_vectors() {
        assert_eq!(checksum(b""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(checksum(b"a"), 0xaf63_dc4c_8601_ec8c);
        assert_eq!(checksum(b"foobar"), 0x8594_4171_f739_67e8);
    }

    #[test]
    fn a_kernel_follows_from_its_seed_and_number() {
        let kernel = Kernel::generate(7, 3);
        assert_eq!(kernel.bytes().len(), KERNEL_BYTES);
        assert_eq!(kernel, Kernel::generate(7, 3));
        assert_ne!(kernel, Kernel::generate(7, 4));
        assert_ne!(kernel, Kernel::generate(8, 3));
    }

    #[test]
    fn noise_is_centred_and_begins_again_at_the_end() {
        let kernel = Kernel::generate(7, 0);
        let table: Vec<f32> = kernel.noise(0).take(KERNEL_BYTES / 2).collect();
        let mean = table.iter().sum::<f32>() / table.len() as f32;
        assert!(mean.abs() < 0.01, "{mean}");
        assert!(table.iter().all(|x| (-1.0..1.0).contains(x)));
        let wrapped: Vec<f32> = kernel.noise(KERNEL_BYTES / 2 - 1).take(2).collect();
        assert_eq!(wrapped, [table[table.len() - 1], table[0]]);
    }

    proptest! {
        #[test]
        fn one_flipped_bit_changes_the_checksum(
            mut bytes in prop::collection::vec(any::<u8>(), 1..600),
            bit: prop::sample::Index,
        ) {
            let before = checksum(&bytes);
            let bit = bit.index(bytes.len() * 8);
            bytes[bit / 8] ^= 1 << (bit % 8);
            prop_assert_ne!(checksum(&bytes), before);
        }

        #[test]
        fn the_cache_equals_a_naive_list_and_keeps_its_bound(
            uses in prop::collection::vec(0_usize..8, 0..60),
        ) {
            let kernel = |number: usize| Kernel(vec![u8::try_from(number).unwrap()]);
            let mut cache = Cache::default();
            for (n, number) in uses.iter().enumerate() {
                let mut recent: Vec<usize> = Vec::new();
                for used in uses[..n].iter().rev() {
                    if !recent.contains(used) && recent.len() < KERNELS_CACHED_MAX {
                        recent.push(*used);
                    }
                }
                let held = cache.get(*number).cloned();
                prop_assert_eq!(held.is_some(), recent.contains(number));
                prop_assert!(held.is_none_or(|held| held == kernel(*number)));
                cache.insert(*number, kernel(*number));
                prop_assert!(cache.len() <= KERNELS_CACHED_MAX);
            }
        }
    }
}
