//! Questions that may never return, such as `statvfs` on a file system whose server is gone. One
//! that hangs costs its own answer and delays the others a little, once.
//!
//! One thread answers all questions of a sample in turn. Where it hangs it is left behind, and
//! another goes on with the rest; the one left behind ends when its question returns.
//!
//! DESIGN N35.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::thread;
use std::time::Duration;

use crate::limits::{SENSOR_ANSWER_WAIT, SENSOR_HANGS_AFTER, SENSORS_HANGING_MAX};
use plimsoll_schemas::hardware::{MissingReading, SensorState};
use plimsoll_schemas::time::Mono;

/// It has not answered for seconds.
pub(super) const HANGS: MissingReading =
    MissingReading { state: SensorState::Stale, reason: "hangs" };

/// How a path is asked, on a thread of its own.
type Query<A> = fn(&PathBuf) -> A;

/// Asks the same of many paths, and remembers which hang.
pub(super) struct Asker<A> {
    /// What they are, in the log.
    what: &'static str,
    query: Query<A>,
    worker: Option<Worker<A>>,
    /// Threads that were left behind, by the path at which each hangs.
    left_behind: BTreeMap<PathBuf, Receiver<Answer<A>>>,
    /// How long one answer is waited for.
    wait: Duration,
    /// The latest answer of each path, and when it came.
    latest: BTreeMap<PathBuf, (Mono, A)>,
    /// What had no answer in the latest sample.
    hanging: BTreeSet<PathBuf>,
}

struct Answer<A> {
    path: PathBuf,
    answer: A,
}

struct Worker<A> {
    questions: SyncSender<Vec<PathBuf>>,
    answers: Receiver<Answer<A>>,
    /// Once this is dropped the thread asks nothing more.
    _wanted: Arc<()>,
}

impl<A: Clone + Send + 'static> Asker<A> {
    pub(super) fn new(what: &'static str, query: Query<A>) -> Self {
        Self {
            what,
            query,
            worker: None,
            left_behind: BTreeMap::new(),
            wait: SENSOR_ANSWER_WAIT,
            latest: BTreeMap::new(),
            hanging: BTreeSet::new(),
        }
    }

    /// Waits as long as a busy machine takes, where only what is read matters.
    #[cfg(test)]
    pub(super) fn wait_patiently(&mut self) {
        self.wait = Duration::from_secs(60);
    }

    /// The answer of each path. One that hangs has its latest for a few seconds, then none.
    pub(super) fn ask(&mut self, now: Mono, paths: &[PathBuf]) -> BTreeMap<PathBuf, A> {
        self.take_overdue_answers(now);
        self.latest.retain(|_, (answered, _)| now.since(*answered) <= SENSOR_HANGS_AFTER);

        // One that hangs is not asked again: its thread would only be joined by others.
        let is_free = |path: &&PathBuf| !self.left_behind.contains_key(*path);
        let mut open: Vec<PathBuf> = paths.iter().filter(is_free).cloned().collect();
        let mut answers = BTreeMap::new();

        while !open.is_empty() && self.left_behind.len() < SENSORS_HANGING_MAX {
            let answered = self.ask_in_turn(now, &open, &mut answers);
            // What hangs is left to its thread, and the rest to another.
            open.drain(..(answered + 1).min(open.len()));
        }

        for path in paths {
            if let Some((_, latest)) = self.latest.get(path) {
                answers.entry(path.clone()).or_insert_with(|| latest.clone());
            }
        }

        self.note_hanging(paths.iter().filter(|path| !answers.contains_key(*path)));
        answers
    }

    /// How many had no answer in the latest sample.
    pub(super) fn hanging(&self) -> usize {
        self.hanging.len()
    }

    /// How many of the first paths answered.
    fn ask_in_turn(
        &mut self,
        now: Mono,
        open: &[PathBuf],
        answers: &mut BTreeMap<PathBuf, A>,
    ) -> usize {
        let Some(worker) = self.worker.take().or_else(|| started(self.query)) else {
            return open.len();
        };
        if worker.questions.send(open.to_vec()).is_err() {
            return open.len();
        }

        for (answered, path) in open.iter().enumerate() {
            let Ok(Answer { answer, .. }) = worker.answers.recv_timeout(self.wait) else {
                // What is left of the worker is dropped here, so that its thread asks nothing more
                // when it returns.
                self.left_behind.insert(path.clone(), worker.answers);
                return answered;
            };
            self.latest.insert(path.clone(), (now, answer.clone()));
            answers.insert(path.clone(), answer);
        }

        self.worker = Some(worker);
        open.len()
    }

    /// A path that has answered is asked again with the others from now on.
    fn take_overdue_answers(&mut self, now: Mono) {
        let returned = self.left_behind.extract_if(.., |_, answers| match answers.try_recv() {
            Ok(Answer { path, answer }) => {
                self.latest.insert(path, (now, answer));
                true
            }
            Err(mpsc::TryRecvError::Disconnected) => true,
            Err(mpsc::TryRecvError::Empty) => false,
        });
        returned.for_each(drop);
    }

    fn note_hanging<'p>(&mut self, paths: impl Iterator<Item = &'p PathBuf>) {
        let hanging: BTreeSet<PathBuf> = paths.cloned().collect();
        for path in hanging.difference(&self.hanging) {
            tracing::warn!(path = %path.display(), "{} hangs; others are read", self.what);
        }
        for path in self.hanging.difference(&hanging) {
            tracing::info!(path = %path.display(), "{} no longer hangs", self.what);
        }
        self.hanging = hanging;
    }
}

/// `None` if the system has no room for another thread; the next sample tries again.
fn started<A: Send + 'static>(query: Query<A>) -> Option<Worker<A>> {
    let (questions, asked) = mpsc::sync_channel::<Vec<PathBuf>>(1);
    let (answered, answers) = mpsc::channel();
    let wanted = Arc::new(());
    let is_wanted = Arc::downgrade(&wanted);

    let answer_all = move || {
        for path in asked.iter().flatten() {
            if is_wanted.strong_count() == 0 {
                return;
            }
            let answer = query(&path);
            if answered.send(Answer { path, answer }).is_err() {
                return;
            }
        }
    };

    let thread = thread::Builder::new().name("hw-asker".to_owned()).spawn(answer_all);
    thread.ok().map(|_| Worker { questions, answers, _wanted: wanted })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use nix::sys::stat::Mode;
    use nix::unistd::mkfifo;
    use plimsoll_clock::Deadline;

    use super::*;

    fn read(path: &PathBuf) -> Option<String> {
        fs::read_to_string(path).ok()
    }

    /// Three files, of which the second is a pipe: to open it blocks until another process does.
    fn files() -> (tempfile::TempDir, Vec<PathBuf>) {
        let folder = tempfile::tempdir().unwrap();
        let files: Vec<_> = ["a", "b", "c"].map(|name| folder.path().join(name)).into();
        fs::write(&files[0], "1").unwrap();
        mkfifo(&files[1], Mode::S_IRWXU).unwrap();
        fs::write(&files[2], "3").unwrap();
        (folder, files)
    }

    #[test]
    fn a_question_that_hangs_costs_its_own_answer_and_is_asked_again_once_it_returns() {
        let (_folder, files) = files();
        let mut asker = Asker::new("file", read);
        for second in 0..3 {
            let answers = asker.ask(Mono(second), &files);
            assert_eq!(answers.len(), 2, "{answers:?}");
            assert_eq!(answers[&files[2]].as_deref(), Some("3"));
            assert_eq!(asker.hanging(), 1);
            assert_eq!(asker.left_behind.len(), 1, "it is not asked a second time while it hangs");
        }

        fs::write(&files[1], "late").unwrap();
        fs::remove_file(&files[1]).unwrap();
        fs::write(&files[1], "2").unwrap();
        let deadline = Deadline::within(Duration::from_secs(60));
        let mut second = 3;
        while asker.ask(Mono(second), &files).get(&files[1]) != Some(&Some("2".to_owned())) {
            assert!(deadline.pause(Duration::from_millis(5)), "it is not asked again");
            second += 1;
        }
        assert!(asker.left_behind.is_empty());
    }

    #[test]
    fn an_overdue_answer_counts_for_a_while() {
        let (_folder, files) = files();
        let mut asker = Asker::new("file", read);
        asker.ask(Mono(0), &files);
        fs::write(&files[1], "late").unwrap();
        let deadline = Deadline::within(Duration::from_secs(60));
        while asker.ask(Mono(1), &files).len() < 3 {
            assert!(deadline.pause(Duration::from_millis(5)), "its answer does not come");
        }
        // It hangs again.
        let last = Mono(1).plus(SENSOR_HANGS_AFTER);
        assert_eq!(asker.ask(last, &files)[&files[1]].as_deref(), Some("late"));
        assert_eq!(asker.ask(last.plus(Duration::from_nanos(1)), &files).len(), 2);
        fs::write(&files[1], "").unwrap();
    }

    #[test]
    fn so_many_threads_hang_and_no_more() {
        let folder = tempfile::tempdir().unwrap();
        let pipes: Vec<_> = (0..SENSORS_HANGING_MAX + 3)
            .map(|number| folder.path().join(format!("{number:03}")))
            .collect();
        pipes.iter().for_each(|pipe| mkfifo(pipe, Mode::S_IRWXU).unwrap());
        let mut asker = Asker::new("file", read);
        assert_eq!(asker.ask(Mono(0), &pipes), BTreeMap::new());
        assert_eq!(asker.left_behind.len(), SENSORS_HANGING_MAX);
        assert_eq!(asker.ask(Mono(1), &pipes), BTreeMap::new());
        assert_eq!(asker.left_behind.len(), SENSORS_HANGING_MAX);
        pipes.iter().take(SENSORS_HANGING_MAX).for_each(|pipe| fs::write(pipe, "").unwrap());
    }
}
