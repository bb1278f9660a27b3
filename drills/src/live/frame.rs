//! What all live drills share: flags, a directory, signals, the report's outputs, an exit code. It
//! ends the mesh in every case except when it is killed.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use clap::{Args, Command, FromArgMatches};
use plimsoll_runtime::block_on;
use plimsoll_runtime::build::version;
use plimsoll_runtime::exit::{Exit, TABLE, fail};
use plimsoll_runtime::signals::Signals;
use plimsoll_runtime::stdout::print_line;
use tempfile::TempDir;

use super::junit;
use super::report::Report;

/// Flags that every live drill takes.
#[derive(Args, Clone, Debug, Default)]
pub struct FrameArgs {
    /// Print the report as JSON on standard output; all else goes to standard error
    #[arg(long)]
    pub json: bool,
    /// Write the report as JUnit XML to this file
    #[arg(long, value_name = "FILE")]
    pub junit: Option<PathBuf>,
    /// Keep logs, raw samples and streams in this directory, which must be empty or absent
    /// [default: a temporary one, kept only when an expectation is missed]
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
}

/// Where a drill writes.
struct DrillDir {
    path: PathBuf,
    temporary: Option<TempDir>,
}

/// A live drill as a program.
#[derive(Clone, Copy, Debug)]
pub struct Program {
    pub name: &'static str,
    pub about: &'static str,
    /// What `--help` ends with.
    pub examples: &'static str,
}

impl Program {
    /// Reads the flags and runs the drill.
    pub fn main<A: Args>(&self, drill: impl AsyncFnOnce(A, &Path) -> Result<Report>) -> ExitCode {
        let (args, frame) = self.flags();
        self.run(&frame, async |dir| drill(args, dir).await)
    }

    /// The drill's own flags, and those of every drill.
    pub fn flags<A: Args>(&self) -> (A, FrameArgs) {
        let help = format!("{}\n\n{TABLE}", self.examples);
        let command = Command::new(self.name).version(version()).about(self.about).after_help(help);
        let matches = FrameArgs::augment_args(A::augment_args(command)).get_matches();
        let args = A::from_arg_matches(&matches);
        let read = args.and_then(|args| Ok((args, FrameArgs::from_arg_matches(&matches)?)));
        read.unwrap_or_else(|error| error.exit())
    }

    /// Runs a drill to its end, reports, and returns the exit code.
    pub fn run(
        &self,
        args: &FrameArgs,
        drill: impl AsyncFnOnce(&Path) -> Result<Report>,
    ) -> ExitCode {
        let drill_dir = match DrillDir::prepare(args.dir.as_deref()) {
            Ok(drill_dir) => drill_dir,
            Err(error) => return fail(self.name, Exit::Usage, &format!("{error:#}")),
        };
        let ended = block_on(until_signal(drill(&drill_dir.path)));
        match ended.and_then(|report| publish(args, drill_dir, &report)) {
            Ok(exit) => exit.into(),
            Err(error) => fail(self.name, Exit::Failure, &format!("{error:#}")),
        }
    }
}

/// Dropping a drill kills its processes; being killed by a signal would leave them behind.
async fn until_signal(drill: impl Future<Output = Result<Report>>) -> Result<Report> {
    let mut signals = Signals::listen()?;
    tokio::select! {
        report = drill => report,
        _ = signals.next() => bail!("interrupted before the drill was over"),
    }
}

fn publish(args: &FrameArgs, drill_dir: DrillDir, report: &Report) -> Result<Exit> {
    if let Some(file) = &args.junit {
        std::fs::write(file, junit::document(report))
            .with_context(|| format!("--junit {}", file.display()))?;
    }
    if args.json {
        eprintln!("{}", report.words());
        print_line(serde_json::to_string_pretty(report)?);
    } else {
        print_line(report.words());
    }
    drill_dir.leave(report.passed);
    Ok(if report.passed { Exit::Success } else { Exit::Missed })
}

impl DrillDir {
    /// What an earlier drill left in its streams would be merged into this one's ledger.
    fn prepare(dir: Option<&Path>) -> Result<Self> {
        let Some(dir) = dir else {
            let temporary = tempfile::Builder::new().prefix("plimsoll-drill-").tempdir()?;
            return Ok(Self { path: temporary.path().to_owned(), temporary: Some(temporary) });
        };
        // Jobs want the absolute path of their node's socket.
        let path = std::path::absolute(dir)?;
        let context = || format!("--dir {}", dir.display());
        std::fs::create_dir_all(&path).with_context(context)?;
        if std::fs::read_dir(&path).with_context(context)?.next().is_some() {
            bail!("{} is not empty; name a new directory", context());
        }
        Ok(Self { path, temporary: None })
    }

    fn leave(self, passed: bool) {
        let kept = match self.temporary {
            Some(temporary) if passed => return drop(temporary),
            Some(temporary) => temporary.keep(),
            None => self.path,
        };
        eprintln!("logs, raw samples and streams are in {}", kept.display());
    }
}

#[cfg(test)]
mod tests {
    use super::super::expectation::{Drill, Expectation, Look};
    use super::*;

    const PROGRAM: Program = Program { name: "drill-test", about: "", examples: "" };

    fn ended(met: bool, args: &FrameArgs) -> ExitCode {
        PROGRAM.run(args, async |_| {
            let mut drill = Drill::begin("drill-test");
            let since = drill.elapsed();
            drill.judge(Expectation::new("x", "y"), since, Look::new(met, "z"));
            Ok(Report::new(&drill))
        })
    }

    fn code(exit: ExitCode) -> String {
        format!("{exit:?}")
    }

    #[test]
    fn a_miss_sets_the_exit_code_and_is_in_the_junit_file() {
        let dir = tempfile::tempdir().unwrap();
        let junit = dir.path().join("report.xml");
        let args = |sub: &str| FrameArgs {
            junit: Some(junit.clone()),
            dir: Some(dir.path().join(sub)),
            ..FrameArgs::default()
        };
        assert_eq!(code(ended(true, &args("a"))), code(Exit::Success.into()));
        assert!(std::fs::read_to_string(&junit).unwrap().contains("failures=\"0\""));
        assert_eq!(code(ended(false, &args("b"))), code(Exit::Missed.into()));
        assert!(std::fs::read_to_string(&junit).unwrap().contains("failures=\"1\""));
    }

    #[test]
    fn a_directory_in_use_is_wrong_usage_and_the_drill_does_not_run() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("earlier.log"), "x").unwrap();
        let args = FrameArgs { dir: Some(dir.path().to_owned()), ..FrameArgs::default() };
        let exit = PROGRAM.run(&args, async |_| panic!("it ran"));
        assert_eq!(code(exit), code(Exit::Usage.into()));
    }

    #[test]
    fn a_drill_that_cannot_run_has_failed() {
        let exit = PROGRAM.run(&FrameArgs::default(), async |_| bail!("no broker"));
        assert_eq!(code(exit), code(Exit::Failure.into()));
    }
}
