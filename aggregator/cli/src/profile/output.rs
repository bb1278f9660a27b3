//! How a profile is shown or written: the options that all commands share.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use plimsoll_profile::{ColourBy, Profile, Redaction, Redactor, ThreadState};
use plimsoll_runtime::exit::Exit;
use plimsoll_runtime::stdout::print_line;

use super::captured::Captured;
use super::files::{FORMS, OutputFile};
use super::text::{self, Sort};
use crate::terminal_text::safe;

/// Functions that a table or a summary has, unless the user chooses.
pub(super) const TOP: usize = 10;

/// How a profile is shown.
#[derive(Args, Clone, Debug)]
pub(super) struct OutputArgs {
    /// Threads in this state alone; a pprof file has all of them [default: running; all if the
    /// profile states none]
    #[arg(long, value_parser = ["running", "waiting", "gil", "all"])]
    pub(super) state: Option<String>,
    /// File to write instead of a table: .svg or .html (flame graphs), .pb.gz (pprof),
    /// .speedscope.json, .trace.json (Perfetto), .folded, .json (a summary)
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Print a table, or have a summary, of this many functions [default: 10]
    #[arg(long, value_name = "N")]
    top: Option<usize>,
    /// What ranks the functions of a table; those of a summary are by what they call too
    #[arg(long, value_name = "WHAT", default_value = "self")]
    sort: Sort,
    /// Print the summary as JSON
    #[arg(long, conflicts_with = "output")]
    json: bool,
    /// What the colours of a flame graph show: which function, how much of the whole it has, or
    /// which package, folder or library it is from
    #[arg(long, default_value = "name", value_parser = ["name", "share", "module"])]
    colour: String,
    #[command(flatten)]
    redact: RedactArgs,
}

/// What is hidden.
#[derive(Args, Clone, Debug)]
pub(super) struct RedactArgs {
    /// Replace names of files, machines and threads by pseudonyms such as path-1; with =functions
    /// those of functions too
    #[arg(
        long,
        value_name = "WHAT",
        value_parser = Redaction::ALL.map(Redaction::as_str),
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "names"
    )]
    redact: Option<String>,
}

impl RedactArgs {
    pub(super) fn redactor(&self) -> Option<Redactor> {
        let is_wanted = |what: &Redaction| self.redact.as_deref() == Some(what.as_str());
        Redaction::ALL.into_iter().find(is_wanted).map(Redactor::new)
    }
}

/// Options with the file that they name, which is prepared before a profile is taken: one that
/// cannot be kept is not made.
pub(super) struct Output<'a> {
    args: &'a OutputArgs,
    file: Option<OutputFile>,
}

impl OutputArgs {
    /// The same for threads in this state alone.
    pub(super) fn in_state(&self, state: &str) -> Self {
        Self { state: Some(state.to_owned()), ..self.clone() }
    }

    /// # Errors
    /// When the file has no known ending, or cannot be created.
    pub(super) fn prepare(&self) -> Result<Output<'_>> {
        let file =
            self.output.as_deref().map(|path| OutputFile::create(path, &FORMS)).transpose()?;
        Ok(Output { args: self, file })
    }
}

impl Output<'_> {
    /// Shows or writes what was captured, if anything was.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub(super) fn finish_captured(
        self,
        captured: std::result::Result<Captured, Exit>,
    ) -> Result<Exit> {
        match captured {
            Ok(captured) => {
                // Parts of it come from nodes.
                eprintln!("plimsoll: {}", safe(&captured.facts));
                self.finish(captured)?;
                Ok(Exit::Success)
            }
            Err(exit) => Ok(exit),
        }
    }

    /// Shows or writes a profile.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub(super) fn finish(self, mut captured: Captured) -> Result<()> {
        let Self { args, file } = self;
        if let Some(mut redactor) = args.redact.redactor() {
            let profile = redactor.redacted(&captured.profile);
            // The title names a file or a node, and the id may be looked up.
            captured = Captured { title: "profile".to_owned(), id: None, profile, ..captured };
        }
        let state = state(args.state.as_deref(), &captured.profile);
        let top = args.top.unwrap_or(TOP);

        if args.json {
            print_line(captured.summary(state, top)?);
        } else if file.is_none() || args.top.is_some() {
            print_line(text::functions(&captured.profile, state, args.sort, top));
        }
        match file {
            Some(file) => {
                let colour = match args.colour.as_str() {
                    "share" => ColourBy::Share,
                    "module" => ColourBy::Module,
                    _ => ColourBy::Name,
                };
                let bytes = captured.bytes(file.form, state, top, colour)?;
                file.write(&bytes)
            }
            None => Ok(()),
        }
    }
}

/// The state that is shown: as asked for, else running threads of a profile that states them.
pub(super) fn state(asked: Option<&str>, of: &Profile) -> Option<ThreadState> {
    let is_stated = || of.samples().any(|sample| sample.labels.state.is_some());
    match asked {
        Some(word) => ThreadState::parse(word),
        None => is_stated().then_some(ThreadState::Running),
    }
}
