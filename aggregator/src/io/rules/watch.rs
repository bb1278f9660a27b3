//! Looks every second whether a file of rules has changed, on a thread of its own: a file system
//! that hangs holds up nobody.

use std::path::PathBuf;
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use plimsoll_schemas::limits::rules::LOOK_EVERY;
use plimsoll_schemas::rule::Rules;
use tokio::sync::mpsc;

use super::{Loaded, Sources, Stamps, stamp};
use crate::config::Config;

/// Wait for the thread to end; one that hangs in a file system is left behind.
const END_WAIT: Duration = Duration::from_secs(1);

/// What a look at the files has found.
#[derive(Debug)]
pub struct Found {
    /// Whether somebody asked for it.
    pub asked: bool,
    /// The rules, or what is wrong with the files.
    pub rules: Result<Rules, String>,
    /// What should be thought over about them.
    pub advice: Vec<String>,
    /// Sections of the settings that are now other than those of the start.
    pub restart: Vec<&'static str>,
}

/// The thread that looks.
pub struct Watch {
    ask: SyncSender<()>,
    found: mpsc::Receiver<Found>,
    thread: JoinHandle<()>,
}

impl Watch {
    /// Begins to look, from what a start has read.
    ///
    /// # Errors
    /// When there can be no further thread.
    pub fn start(sources: Sources, config: Config, stamps: Stamps) -> std::io::Result<Self> {
        // One that waits is enough: whatever changes before it is heard is seen with it.
        let (ask, asked) = sync_channel(1);
        let (tell, found) = mpsc::channel(1);
        let mut looker = Looker { sources, config, stamps, again: true, last_error: None };
        let look = move || loop {
            let asked = match asked.recv_timeout(LOOK_EVERY) {
                Ok(()) => true,
                Err(RecvTimeoutError::Timeout) => false,
                Err(RecvTimeoutError::Disconnected) => return,
            };
            let Some(found) = looker.look(asked) else { continue };
            if tell.blocking_send(found).is_err() {
                return;
            }
        };
        let thread = std::thread::Builder::new().name("watch-rules".to_owned()).spawn(look)?;
        Ok(Self { ask, found, thread })
    }

    /// Asks for a look now.
    pub fn ask(&self) {
        // Full, one is under way that has not begun to read.
        let _asked = self.ask.try_send(());
    }

    /// What was found next. Cancel safe.
    pub async fn next(&mut self) -> Found {
        match self.found.recv().await {
            Some(found) => found,
            // It ends with this value alone.
            None => std::future::pending().await,
        }
    }

    /// Ends the thread.
    pub async fn end(self) {
        let Self { ask, mut found, thread } = self;
        drop(ask);
        let ended = async { while found.recv().await.is_some() {} };
        if tokio::time::timeout(END_WAIT, ended).await.is_ok() {
            // It has nothing more to say, and is on its last line.
            let _joined = thread.join();
        }
    }
}

struct Looker {
    sources: Sources,
    /// What the process runs on.
    config: Config,
    stamps: Stamps,
    /// Whether the next look reads though nothing seems to have changed: a second write within
    /// the time that a stamp can tell apart is seen by that, and a file that was half written.
    again: bool,
    last_error: Option<String>,
}

impl Looker {
    /// Reads what has changed; `None` when there is nothing to say.
    fn look(&mut self, asked: bool) -> Option<Found> {
        let changed = self.stamps.iter().any(|(path, known)| stamp(path) != *known);
        if !asked && !changed && !self.again {
            return None;
        }
        let (loaded, stamps) = self.sources.load();
        // What was left out because an earlier file is wrong may be what is mended.
        let before: Vec<PathBuf> = self.stamps.keys().cloned().collect();
        self.stamps = stamps;
        let (rules, advice, restart, error) = match loaded {
            Ok(Loaded { rules, resolved }) => {
                let advice = self.config.advice(&rules);
                let restart = self.config.differing(&resolved.value);
                (Ok(rules), advice, restart, None)
            }
            Err(error) => {
                before.into_iter().for_each(|path| {
                    self.stamps.entry(path).or_insert_with_key(|path| stamp(path));
                });
                (Err(error.clone()), Vec::new(), Vec::new(), Some(error))
            }
        };
        self.again = changed || error.is_some();
        let news = asked || changed || error != self.last_error;
        self.last_error = error;
        news.then_some(Found { asked, rules, advice, restart })
    }
}
