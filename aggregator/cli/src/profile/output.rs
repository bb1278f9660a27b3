//! How a profile is shown or written: the options that all commands share, and the bytes of each
//! form.

use std::path::PathBuf;

use anyhow::Result;
use clap::{Args, ValueEnum};
use plimsoll_profile::flame::{Detail, detailed};
use plimsoll_profile::{
    ColourBy, Profile, ThreadState, folded, html, pprof, speedscope, summary, svg, trace_events,
};
use plimsoll_runtime::stdout::print_line;

use super::files::{FORMS, Form, OutputFile};
use super::redact::{Redaction, Redactor};
use super::{Captured, text};

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
    /// Print the summary as JSON
    #[arg(long, conflicts_with = "output")]
    json: bool,
    /// What the colours of a flame graph show
    #[arg(long, value_enum, default_value_t = Colour::Name)]
    colour: Colour,
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
        value_enum,
        value_name = "WHAT",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "names"
    )]
    pub(super) redact: Option<Redaction>,
}

/// The colours of a flame graph.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Colour {
    /// Which function it is
    Name,
    /// How much of the whole it has
    Share,
    /// Which package, folder or library it is from
    Module,
}

impl From<Colour> for ColourBy {
    fn from(colour: Colour) -> Self {
        match colour {
            Colour::Name => Self::Name,
            Colour::Share => Self::Share,
            Colour::Module => Self::Module,
        }
    }
}

/// Options with the file that they name, which is prepared before a profile is taken: one that
/// cannot be kept is not made.
pub(super) struct Output<'a> {
    args: &'a OutputArgs,
    file: Option<OutputFile>,
}

impl OutputArgs {
    /// # Errors
    /// When the file has no known ending, or cannot be created.
    pub(super) fn prepare(&self) -> Result<Output<'_>> {
        let file =
            self.output.as_deref().map(|path| OutputFile::create(path, &FORMS)).transpose()?;
        Ok(Output { args: self, file })
    }
}

impl Output<'_> {
    /// Shows or writes a profile.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub(super) fn finish(self, mut captured: Captured) -> Result<()> {
        let Self { args, file } = self;
        if let Some(what) = args.redact.redact {
            captured = redacted(captured, what);
        }
        let state = state(args.state.as_deref(), &captured.profile);
        let top = args.top.unwrap_or(TOP);

        if args.json {
            print_line(captured.summary(state, top)?);
        } else if file.is_none() || args.top.is_some() {
            print_line(text::functions(&captured.profile, state, top));
        }
        match file {
            Some(file) => {
                let bytes = captured.bytes(file.form, state, top, args.colour.into())?;
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

fn redacted(captured: Captured, what: Redaction) -> Captured {
    let mut redactor = Redactor::new(what);
    redactor.know(&captured.profile);
    let profile = redactor.redacted(&captured.profile);
    // The title names a file or a node, and the id may be looked up.
    Captured { title: "profile".to_owned(), id: None, profile, ..captured }
}

impl Captured {
    fn bytes(
        &self,
        form: Form,
        state: Option<ThreadState>,
        top: usize,
        colour: ColourBy,
    ) -> Result<Vec<u8>> {
        let (title, profile) = (&self.title, &self.profile);
        let text = match form {
            Form::Pprof => return Ok(pprof::encode(profile)?),
            Form::Svg => {
                svg::render_coloured(title, &detailed(profile, state, Detail::PICTURE), colour)
            }
            Form::Html => html::of_profile(title, profile, state, colour),
            Form::Speedscope => speedscope::write(title, profile, state),
            Form::Trace => trace_events::write(title, profile, state),
            Form::Folded => folded::write(profile, state),
            Form::Json => self.summary(state, top)? + "\n",
        };
        Ok(text.into_bytes())
    }

    fn summary(&self, state: Option<ThreadState>, top: usize) -> Result<String> {
        let id = match &self.id {
            Some(id) => id.clone(),
            None => content_id(&pprof::encode(&self.profile)?),
        };
        let summary = summary::of_profile(&id, &self.profile, state, top);
        Ok(serde_json::to_string_pretty(&summary)?)
    }
}

/// The name of a profile that no aggregator keeps: FNV-1a of its pprof file, so that equal profiles
/// have the same.
fn content_id(bytes: &[u8]) -> String {
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    format!("{:016x}", bytes.iter().fold(0xcbf2_9ce4_8422_2325, step))
}
