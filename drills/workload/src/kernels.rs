//! The kernels on disk: written at start, read and verified for every epoch.
//!
//! A kernel that cannot be read or has the wrong checksum is never used; it is made again
//! from the seed, outside the timed fetch.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use crate::limits::{KERNEL_BYTES, KERNELS};

use crate::artefact::{Cache, Kernel, KernelNumber, checksum};
use crate::sample::Outcome;

/// Where kernels are fetched from.
#[derive(Debug)]
pub struct Kernels {
    dir: PathBuf,
    seed: u64,
    expected: Vec<u64>,
    cache: Cache,
}

impl Kernels {
    /// Writes all kernels of `seed` to `dir`, in place of any that are there.
    ///
    /// # Errors
    /// When one cannot be written.
    pub fn create(dir: &Path, seed: u64) -> io::Result<Self> {
        let mut expected = Vec::with_capacity(KERNELS);
        for number in 0..KERNELS {
            let kernel = Kernel::generate(seed, number);
            replace(&path(dir, number), kernel.bytes())?;
            expected.push(checksum(kernel.bytes()));
        }
        Ok(Self { dir: dir.to_owned(), seed, expected, cache: Cache::default() })
    }

    /// Gets the kernel into memory, verified: the timed operation. After an error it is not
    /// in memory.
    pub fn fetch(&mut self, number: KernelNumber) -> Outcome {
        let expected = self.expected[number];
        if let Some(kernel) = self.cache.get(number) {
            if checksum(kernel.bytes()) == expected {
                return Outcome::Hit;
            }
            self.cache.remove(number);
            return Outcome::Error;
        }
        let bytes = read(&path(&self.dir, number)).ok();
        let Some(kernel) = bytes.and_then(|bytes| Kernel::verified(bytes, expected)) else {
            return Outcome::Error;
        };
        self.cache.insert(number, kernel);
        Outcome::Miss
    }

    /// Makes the kernel again, in memory and on disk, after a fetch that failed.
    ///
    /// # Errors
    /// When it cannot be written; it is in memory nevertheless.
    pub fn recreate(&mut self, number: KernelNumber) -> io::Result<()> {
        let kernel = Kernel::generate(self.seed, number);
        let written = replace(&path(&self.dir, number), kernel.bytes());
        self.cache.insert(number, kernel);
        written
    }

    /// The kernel, if it is in memory.
    pub fn in_memory(&mut self, number: KernelNumber) -> Option<&Kernel> {
        self.cache.get(number)
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

    fn kernels() -> (tempfile::TempDir, Kernels) {
        let dir = tempfile::tempdir().unwrap();
        let kernels = Kernels::create(dir.path(), 5).unwrap();
        (dir, kernels)
    }

    #[test]
    fn a_kernel_is_read_once_and_then_found_in_memory_until_four_others_came() {
        let (_dir, mut kernels) = kernels();
        let fetched = [0, 0, 1, 2, 3, 0, 4, 5, 6, 7, 0].map(|number| kernels.fetch(number));
        use Outcome::{Hit, Miss};
        assert_eq!(fetched, [Miss, Hit, Miss, Miss, Miss, Hit, Miss, Miss, Miss, Miss, Miss]);
        assert_eq!(kernels.in_memory(0), Some(&Kernel::generate(5, 0)));
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
        let other = Kernel::generate(5, 1);
        kernels.cache.insert(0, other);
        assert_eq!(kernels.fetch(0), Outcome::Error);
        assert_eq!(kernels.fetch(0), Outcome::Miss);
    }
}
