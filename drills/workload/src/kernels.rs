//! Kernels: tables of noise that each training pass adds to its points. They are written to disk at
//! the start, and read and verified for every epoch.
//!
//! A kernel's content follows from a seed and its number. One that cannot be read or has the wrong
//! checksum is never used; it is made again from the seed, outside the timed fetch. The checksum
//! detects accidental damage only, not tampering.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use crate::limits::{KERNEL_BYTES, KERNELS, KERNELS_CACHED_MAX};
use crate::rng::Generator;
use crate::sample::Outcome;

/// Separates the kernels' random numbers from all others of the same seed.
const PURPOSE: u64 = 0x6b65_726e;

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

    /// The bytes as stored on disk.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    fn is_intact(&self, checksum: u32) -> bool {
        self.0.len() == KERNEL_BYTES && crc32fast::hash(&self.0) == checksum
    }

    /// Uniform noise in `-1.0..1.0`, endless: it begins again at the end of the table.
    pub fn noise(&self, from: usize) -> impl Iterator<Item = f32> {
        let pairs = self.0.chunks_exact(2);
        let table = pairs.map(|pair| f32::from(i16::from_le_bytes([pair[0], pair[1]])) / 32_768.0);
        table.cycle().skip(from % (KERNEL_BYTES / 2))
    }
}

/// Where kernels are fetched from.
#[derive(Debug)]
pub struct Kernels {
    dir: PathBuf,
    seed: u64,
    checksums: Vec<u32>,
    /// Those in memory. Each has one place, which it shares with others: the one fetched last is
    /// there.
    cached: [Option<(KernelNumber, Kernel)>; KERNELS_CACHED_MAX],
}

impl Kernels {
    /// Writes all kernels of `seed` to `dir`, in place of any that are there.
    ///
    /// # Errors
    /// When one cannot be written.
    pub fn create(dir: &Path, seed: u64) -> io::Result<Self> {
        let mut checksums = Vec::with_capacity(KERNELS);
        for number in 0..KERNELS {
            let kernel = Kernel::generate(seed, number);
            replace(&path(dir, number), kernel.bytes())?;
            checksums.push(crc32fast::hash(kernel.bytes()));
        }
        Ok(Self { dir: dir.to_owned(), seed, checksums, cached: Default::default() })
    }

    /// Gets the kernel into memory, verified: the timed operation. After an error it is not
    /// in memory.
    pub fn fetch(&mut self, number: KernelNumber) -> Outcome {
        let checksum = self.checksums[number];
        if let Some(kernel) = self.in_memory(number) {
            if kernel.is_intact(checksum) {
                return Outcome::Hit;
            }
            self.cached[number % KERNELS_CACHED_MAX] = None;
            return Outcome::Error;
        }

        let kernel = read(&path(&self.dir, number)).map(Kernel);
        match kernel.ok().filter(|kernel| kernel.is_intact(checksum)) {
            Some(kernel) => {
                self.cached[number % KERNELS_CACHED_MAX] = Some((number, kernel));
                Outcome::Miss
            }
            None => Outcome::Error,
        }
    }

    /// Makes the kernel again, in memory and on disk, after a fetch that failed.
    ///
    /// # Errors
    /// When it cannot be written; it is in memory nevertheless.
    pub fn recreate(&mut self, number: KernelNumber) -> io::Result<()> {
        let kernel = Kernel::generate(self.seed, number);
        let written = replace(&path(&self.dir, number), kernel.bytes());
        self.cached[number % KERNELS_CACHED_MAX] = Some((number, kernel));
        written
    }

    /// The kernel, if it is in memory.
    pub fn in_memory(&self, number: KernelNumber) -> Option<&Kernel> {
        let (held, kernel) = self.cached[number % KERNELS_CACHED_MAX].as_ref()?;
        (*held == number).then_some(kernel)
    }
}

fn path(dir: &Path, number: KernelNumber) -> PathBuf {
    dir.join(format!("kernel-{number}.bin"))
}

/// Reads no more than it takes to see that a file is too long.
fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(KERNEL_BYTES + 1);
    File::open(path)?.take(KERNEL_BYTES as u64 + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Replaces a file so that a reader finds the old content or the new, never a part. Nothing is
/// forced to the device: what is lost with the machine's power is made again at the next start.
///
/// # Errors
/// When the directory cannot be written to.
pub fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let unfinished = path.with_extension("unfinished");
    fs::write(&unfinished, bytes)?;
    fs::rename(&unfinished, path)
}

#[cfg(test)]
mod tests {
    use super::*;

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

    fn kernels() -> (tempfile::TempDir, Kernels) {
        let dir = tempfile::tempdir().unwrap();
        let kernels = Kernels::create(dir.path(), 5).unwrap();
        (dir, kernels)
    }

    #[test]
    fn a_kernel_is_read_once_and_then_found_in_memory_until_another_takes_its_place() {
        let (_dir, mut kernels) = kernels();
        let fetched = [0, 0, 1, 2, 3, 0, 4, 4, 0].map(|number| kernels.fetch(number));
        use Outcome::{Hit, Miss};
        assert_eq!(fetched, [Miss, Hit, Miss, Miss, Miss, Hit, Miss, Hit, Miss]);
        assert_eq!(kernels.in_memory(0), Some(&Kernel::generate(5, 0)));
        assert_eq!(kernels.in_memory(4), None);
    }

    #[test]
    fn a_flipped_bit_on_disk_is_an_error_and_is_repaired() {
        let (dir, mut kernels) = kernels();
        let file = path(dir.path(), 2);
        let mut bytes = fs::read(&file).unwrap();
        bytes[1_000] ^= 4;
        fs::write(&file, &bytes).unwrap();
        assert_eq!(kernels.fetch(2), Outcome::Error);
        assert_eq!(kernels.in_memory(2), None);
        kernels.recreate(2).unwrap();
        assert_eq!(kernels.in_memory(2), Some(&Kernel::generate(5, 2)));
        assert_eq!(fs::read(&file).unwrap(), Kernel::generate(5, 2).bytes());
        assert_eq!(kernels.fetch(2), Outcome::Hit);
    }

    #[test]
    fn a_missing_file_is_an_error_even_where_it_cannot_be_written_again() {
        let (dir, mut kernels) = kernels();
        dir.close().unwrap();
        assert_eq!(kernels.fetch(1), Outcome::Error);
        assert_eq!(kernels.recreate(1).unwrap_err().kind(), io::ErrorKind::NotFound);
        assert_eq!(kernels.in_memory(1), Some(&Kernel::generate(5, 1)));
    }

    #[test]
    fn a_bit_flipped_in_memory_is_an_error() {
        let (_dir, mut kernels) = kernels();
        kernels.cached[0] = Some((0, Kernel::generate(5, 1)));
        assert_eq!(kernels.fetch(0), Outcome::Error);
        assert_eq!(kernels.fetch(0), Outcome::Miss);
    }
}
