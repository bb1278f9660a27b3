//! A file that holds a secret: read whenever it is needed, so that it may be replaced at any time,
//! and refused while others than its owner and group can read it.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use crate::limits::SECRET_BYTES_MAX;

/// Bits of a file's mode by which users outside its group may read or change it.
const OTHERS: u32 = 0o006;

/// The text of the secret in `path`, without blanks around it.
///
/// # Errors
/// When the file cannot be read, is open to others, is empty, or is longer than
/// `limits::SECRET_BYTES_MAX`. The text has the fix and not the secret.
pub fn read_secret(path: &Path) -> io::Result<String> {
    let file = open(path)?;
    let mut text = String::new();
    file.take(SECRET_BYTES_MAX + 1).read_to_string(&mut text)?;
    if text.len() as u64 > SECRET_BYTES_MAX {
        return Err(unfit(format!("it is longer than {SECRET_BYTES_MAX} bytes")));
    }
    let secret = text.trim();
    if secret.is_empty() { Err(unfit("it is empty".to_owned())) } else { Ok(secret.to_owned()) }
}

/// Opens a file that only its owner and group may read.
pub(crate) fn open(path: &Path) -> io::Result<File> {
    let file = File::open(path)?;
    // Of the open file: the path may name another one by now.
    let mode = file.metadata()?.permissions().mode() & 0o777;
    if mode & OTHERS != 0 {
        let fix = format!("chmod 0600 {}", path.display());
        return Err(unfit(format!("everyone can access it (mode {mode:04o}); {fix}")));
    }
    Ok(file)
}

fn unfit(reason: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, reason)
}

#[cfg(test)]
mod tests {
    use std::fs::{Permissions, set_permissions, write};

    use super::*;

    fn read(text: &str, mode: u32) -> Result<String, String> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("secret");
        write(&path, text).unwrap();
        set_permissions(&path, Permissions::from_mode(mode)).unwrap();
        read_secret(&path).map_err(|error| error.to_string().replace(path.to_str().unwrap(), "F"))
    }

    #[test]
    fn a_secret_is_read_without_its_line_end() {
        for mode in [0o600, 0o400, 0o640, 0o440] {
            assert_eq!(read("hush\n", mode), Ok("hush".to_owned()));
        }
    }

    #[test]
    fn a_file_that_everyone_can_read_or_write_is_refused_with_the_mode_to_set() {
        for mode in [0o644, 0o666, 0o602, 0o604] {
            let error = read("hush", mode).unwrap_err();
            assert_eq!(error, format!("everyone can access it (mode 0{mode:o}); chmod 0600 F"));
        }
    }

    #[test]
    fn what_is_no_secret_is_refused() {
        assert_eq!(read(" \n", 0o600).unwrap_err(), "it is empty");
        let long = "x".repeat(usize::try_from(SECRET_BYTES_MAX).unwrap() + 1);
        assert!(read(&long, 0o600).unwrap_err().contains("longer than"));
    }
}
