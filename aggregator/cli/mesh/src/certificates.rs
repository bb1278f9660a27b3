//! Secrets of a local mesh: files that only their owner reads, and certificates that `openssl`
//! makes.

use std::fs::{OpenOptions, Permissions};
use std::io::Write;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

/// A file that only its owner may read.
///
/// # Errors
/// When it cannot be written.
pub fn write_secret(path: &Path, text: &str) -> Result<()> {
    let mut options = OpenOptions::new();
    let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(path)?;
    // One that was there keeps its mode otherwise.
    file.set_permissions(Permissions::from_mode(0o600))?;
    Ok(file.write_all(text.as_bytes())?)
}

/// An authority and the certificate of a server on 127.0.0.1, in one directory.
#[derive(Clone, Debug)]
pub struct Certificates {
    pub ca_file: PathBuf,
    pub certificate_file: PathBuf,
    pub key_file: PathBuf,
}

impl Certificates {
    /// Makes new ones in place of those that are there.
    ///
    /// # Errors
    /// When `openssl` is not installed or fails.
    pub fn make(dir: &Path) -> Result<Self> {
        let script = "set -e
            new() { openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes \"$@\"; }
            new -x509 -days 2 -subj /CN=authority -keyout ca.key -out ca.pem
            new -subj /CN=server -keyout server.key -out server.csr
            echo 'subjectAltName=IP:127.0.0.1' > server.ext
            openssl x509 -req -in server.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 \
                -extfile server.ext -out server.pem";

        let made = Command::new("bash").args(["-c", script]).current_dir(dir).output();
        let made = made.context("bash and openssl")?;
        ensure!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));

        Ok(Self {
            ca_file: dir.join("ca.pem"),
            certificate_file: dir.join("server.pem"),
            key_file: dir.join("server.key"),
        })
    }
}
