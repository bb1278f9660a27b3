//! `plimsoll profile show` and `diff`: pprof files of any tool.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::Args;
use plimsoll_profile::flame::of_difference;
use plimsoll_profile::limits::ENCODED_BYTES_MAX;
use plimsoll_profile::{Profile, html, pprof, subtract, summary, svg};
use plimsoll_runtime::stdout::print_line;

use super::captured::Captured;
use super::files::{Form, OF_DIFFERENCE, OutputFile};
use super::output::{OutputArgs, RedactArgs, TOP, state};
use super::text;

#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:
  plimsoll profile show cpu.pb.gz                              # a table of functions
  plimsoll profile show cpu.pb.gz -o cpu.speedscope.json       # for another viewer
  plimsoll profile show cpu.pb.gz --redact -o to-share.html")]
pub(super) struct ShowArgs {
    /// A pprof file, compressed or not, of this program or any other
    file: PathBuf,
    #[command(flatten)]
    output: OutputArgs,
}

#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:
  plimsoll profile diff slow.pb.gz healthy.pb.gz
  plimsoll profile diff after.pb.gz before.pb.gz -o more.html
  plimsoll profile diff after.pb.gz before.pb.gz --json --top 3    # for a program
  plimsoll profile diff after.pb.gz before.pb.gz -o more.pb.gz     # for go tool pprof

Values are per second of each profile, so that their lengths may differ.")]
pub(super) struct DiffArgs {
    /// A pprof file: the culprit
    culprit: PathBuf,
    /// The one that it is compared with
    peer: PathBuf,
    /// Threads in this state alone [default: running; all if the profiles state none]
    #[arg(long, value_parser = ["running", "waiting", "gil", "all"])]
    state: Option<String>,
    /// File to write instead of a table: .svg or .html (flame graphs), .json (as --json),
    /// .pb.gz (pprof, below zero where the peer has more)
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Functions in the table and in JSON
    #[arg(long, value_name = "N", default_value_t = TOP)]
    top: usize,
    /// Print them as JSON, with both sides
    #[arg(long, conflicts_with = "output")]
    json: bool,
    #[command(flatten)]
    redact: RedactArgs,
}

/// Shows a file, or converts it.
///
/// # Errors
/// When a file cannot be read or written.
pub(super) fn show(args: &ShowArgs) -> Result<()> {
    let output = args.output.prepare()?;
    let profile = read(&args.file)?;
    output.finish(Captured { title: title(&args.file), id: None, facts: String::new(), profile })
}

/// Shows what one file has more than another, or less.
///
/// # Errors
/// When a file cannot be read or written, or the profiles measure different things.
pub(super) fn diff(args: &DiffArgs) -> Result<()> {
    let path = args.output.as_deref();
    let output = path.map(|path| OutputFile::create(path, &OF_DIFFERENCE)).transpose()?;
    let mut sides = [read(&args.culprit)?, read(&args.peer)?];
    let mut title = format!("{} beside {}", title(&args.culprit), title(&args.peer));
    if let Some(mut redactor) = args.redact.redactor() {
        sides = sides.map(|side| redactor.redacted(&side));
        title = "difference of two profiles".to_owned();
    }

    let [culprit, peer] = &sides;
    let state = state(args.state.as_deref(), culprit);
    let difference = subtract(culprit, peer, state).with_context(|| title.clone())?;
    let json = || format!("{:#}", summary::of_difference(&difference, args.top));
    let Some(output) = output else {
        let table = || text::differences(&difference, args.top);
        print_line(if args.json { json() } else { table() });
        return Ok(());
    };
    let written = match output.form {
        Form::Html => html::of_difference(&title, &difference).into_bytes(),
        Form::Json => (json() + "\n").into_bytes(),
        Form::Pprof => pprof::encode_difference(&difference)?,
        _ => svg::render(&title, &of_difference(&difference)).into_bytes(),
    };
    output.write(&written)
}

fn title(path: &Path) -> String {
    path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
}

fn read(path: &Path) -> Result<Profile> {
    let name = || path.display().to_string();
    let mut bytes = Vec::new();
    // One byte more shows that there are more.
    let file = File::open(path).with_context(name)?;
    file.take(ENCODED_BYTES_MAX as u64 + 1).read_to_end(&mut bytes).with_context(name)?;
    let decoded = pprof::decode(&bytes);
    decoded.with_context(|| {
        let is_json = bytes.trim_ascii_start().starts_with(b"{");
        let hint =
            if is_json { "; ui.perfetto.dev opens a trace, speedscope.app its own" } else { "" };
        format!("{} is no pprof file that can be read{hint}", path.display())
    })
}
