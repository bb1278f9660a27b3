//! The job itself: fetch a kernel, train one pass, run the hook, wait for the next epoch's time.
//!
//! Two operations are timed, each with one stopwatch around all its work and only its work;
//! reporting, repairs, complaints and idle waiting lie outside.

use std::fs::{self, File};
use std::hint::black_box;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::limits::{KERNELS, RETRY_EVERY};
use plimsoll_clock::{Deadline, Stopwatch};
use thiserror::Error;

use crate::args::Args;
use crate::commands::{self, Command};
use crate::complaints::Complaints;
use crate::kernels::Kernels;
use crate::model::Model;
use crate::pace::Pace;
use crate::report::Reporter;
use crate::rng::Generator;
use crate::sample::{Outcome, Sample};
use crate::summary::{Ending, Summary};
use crate::tail::Tail;

/// Separates the order of kernels from all other random numbers of the same seed.
const KERNEL_ORDER: u64 = 3;

/// Why a job could not start or continue.
#[derive(Debug, Error)]
pub enum JobError {
    /// No place for kernels.
    #[error("--dir {path:?} must be a directory that can be written to")]
    Dir {
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// The raw file cannot be written, so nothing may be sent.
    #[error("--raw {path:?} must be a file that can be written to")]
    Raw {
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
}

/// A job between two epochs.
#[derive(Debug)]
struct Job {
    model: Model,
    kernels: Kernels,
    order: Generator,
    commands: Option<Tail>,
    extra_work: Duration,
    stopped: bool,
    unknown_commands: u64,
    complaints: Complaints,
    training_loss: Option<f32>,
    accuracy: Option<f32>,
}

/// Runs until the arguments, a command or `stop` end it, after a whole epoch.
///
/// # Errors
/// When the kernels cannot be written at the start, or the raw file at any time.
pub fn run(args: &Args, stop: &AtomicBool) -> Result<Summary, JobError> {
    let (dir, _removed_at_exit) = directory(args)?;
    let raw_path = args.raw.clone().unwrap_or_default();
    let raw_error = |source| JobError::Raw { path: raw_path.clone(), source };
    let raw = args.raw.as_ref().map(File::create).transpose().map_err(raw_error)?;
    let mut job = Job::new(args, &dir)?;
    let mut reporter = Reporter::new(args.statsd.clone(), raw);
    let (epochs, ended_by) = job.epochs(args, stop, &mut reporter).map_err(raw_error)?;
    let (sent, unsent) = reporter.finish().map_err(raw_error)?;

    Ok(Summary {
        epochs,
        ended_by,
        sent,
        unsent,
        training_loss: job.training_loss.filter(|loss| loss.is_finite()),
        validation_accuracy: job.accuracy,
        unknown_commands: job.unknown_commands,
    })
}

fn directory(args: &Args) -> Result<(PathBuf, Option<tempfile::TempDir>), JobError> {
    let Some(path) = args.dir.clone() else {
        let fresh = tempfile::Builder::new().prefix("plimsoll-workload-").tempdir();
        let fresh = fresh.map_err(|source| JobError::Dir { path: std::env::temp_dir(), source })?;
        return Ok((fresh.path().to_owned(), Some(fresh)));
    };
    fs::create_dir_all(&path).map_err(|source| JobError::Dir { path: path.clone(), source })?;
    Ok((path, None))
}

impl Job {
    fn new(args: &Args, dir: &Path) -> Result<Self, JobError> {
        let kernels = Kernels::create(dir, args.seed)
            .map_err(|source| JobError::Dir { path: dir.to_owned(), source })?;
        Ok(Self {
            model: Model::new(args.seed),
            kernels,
            order: Generator::new(args.seed, KERNEL_ORDER),
            commands: args.commands.clone().map(Tail::new),
            extra_work: Duration::ZERO,
            stopped: false,
            unknown_commands: 0,
            complaints: Complaints::default(),
            training_loss: None,
            accuracy: None,
        })
    }

    fn epochs(
        &mut self,
        args: &Args,
        stop: &AtomicBool,
        reporter: &mut Reporter,
    ) -> io::Result<(u64, Ending)> {
        let pace = Pace::per_second(args.epochs_per_second);
        let started = Stopwatch::start();
        let mut done = 0;

        loop {
            let elapsed = started.elapsed();
            if let Some(ending) = self.ending(args, done, elapsed, stop) {
                return Ok((done, ending));
            }
            let due = args.seconds.map_or(pace.due(done), |end| end.min(pace.due(done)));

            if elapsed < due {
                idle(due.saturating_sub(elapsed), reporter)?;
            } else {
                self.epoch(reporter)?;
                done += 1;
            }
        }
    }

    fn ending(
        &self,
        args: &Args,
        done: u64,
        elapsed: Duration,
        stop: &AtomicBool,
    ) -> Option<Ending> {
        if self.stopped {
            Some(Ending::Command)
        } else if stop.load(Ordering::Relaxed) {
            Some(Ending::Signal)
        } else if args.epochs == Some(done) {
            Some(Ending::Epochs)
        } else {
            args.seconds.filter(|end| elapsed >= *end).map(|_| Ending::Seconds)
        }
    }

    fn epoch(&mut self, reporter: &mut Reporter) -> io::Result<()> {
        let number = self.order.below(KERNELS);
        let watch = Stopwatch::start();
        let outcome = self.kernels.fetch(number);
        let took = watch.elapsed();
        reporter.report(Sample::KernelFetch(took, outcome))?;

        self.train(number, outcome);
        let watch = Stopwatch::start();
        self.hook();
        let took = watch.elapsed();
        reporter.report(Sample::EpochHook(took))?;

        reporter.report(Sample::Epoch)?;
        if let Some(loss) = self.training_loss.filter(|loss| loss.is_finite()) {
            reporter.report(Sample::TrainingLoss(loss))?;
        }
        for complaint in self.complaints.drain() {
            eprintln!("plimsoll-workload: {complaint}");
        }
        reporter.tick()
    }

    fn train(&mut self, number: usize, outcome: Outcome) {
        if outcome == Outcome::Error {
            self.complaints.note(&format!("kernel-{number}.bin was broken; recreated"));
            if let Err(error) = self.kernels.recreate(number) {
                self.complaints.note(&format!("kernel-{number}.bin is not written: {error}"));
            }
        }
        let kernel = self.kernels.in_memory(number).expect("it was fetched or made again");
        self.training_loss = Some(self.model.train(kernel));
    }

    /// The timed end of an epoch.
    fn hook(&mut self) {
        self.accuracy = Some(self.model.validate());
        let lines = self.commands.as_mut().map(Tail::read).unwrap_or_default();

        for command in commands::parse(&lines) {
            match command {
                Ok(command) => self.on_command(command),
                Err(error) => {
                    self.unknown_commands += 1;
                    self.complaints.note(&error.to_string());
                }
            }
        }

        let extra = Stopwatch::start();
        while extra.elapsed() < self.extra_work {
            black_box(self.model.validate());
        }
    }

    fn on_command(&mut self, command: Command) {
        match command {
            Command::ExtraWork(work) => self.extra_work = work,
            Command::Stop => self.stopped = true,
        }
    }
}

/// Waits for a step of the time that is left and sends queued samples. The step is short, so that
/// the job reacts to a signal soon.
fn idle(left: Duration, reporter: &mut Reporter) -> io::Result<()> {
    let deadline = Deadline::within(left.min(RETRY_EVERY));
    reporter.tick()?;
    while deadline.pause(RETRY_EVERY) {}
    Ok(())
}
