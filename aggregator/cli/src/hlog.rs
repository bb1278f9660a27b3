//! `plimsoll hlog`: writes a baseline or an interval log as an interval log in the buckets of the
//! mesh, for all tools that read HdrHistogram.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::Args;
use plimsoll_runtime::exit::Exit;

use crate::compare::load;
use crate::interval_log::{Unit, write};

/// Write a baseline or an interval log as an interval log for HdrHistogram tools
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:
  plimsoll hlog v1.4.json v1.4.hlog
  plimsoll hlog --unit us wrk2.hlog nanoseconds.hlog")]
pub struct HlogArgs {
    /// A baseline (.json) or an interval log (.hlog)
    from: PathBuf,
    /// The log to write
    to: PathBuf,
    /// Unit of the values in the source: ns, us or ms [default: the one in the log, or ns]
    #[arg(long)]
    unit: Option<Unit>,
}

/// Converts a file.
///
/// # Errors
/// When it cannot be read or written.
pub fn hlog(args: &HlogArgs) -> Result<Exit> {
    let side = load(&args.from, args.unit)?;
    let written = || -> Result<()> {
        let mut to = BufWriter::new(File::create(&args.to)?);
        write(&side, &mut to)?;
        Ok(to.flush()?)
    };
    written().with_context(|| args.to.display().to_string())?;
    Ok(Exit::Success)
}
