//! The state of the screen: the newest page, what is selected of it, and the connection.
//!
//! Pure: an [`Event`] and the time since the start change the state and return an [`Effect`].
//!
//! DESIGN A120.

use std::time::Duration;

use plimsoll_schemas::backoff::Backoff;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use super::limits::{FILTER_CHARS_MAX, PAUSE_FACTOR, READ_EVERY, RETRY_MAX, RETRY_MIN};
use super::page::Page;
use super::pane::Panes;
use crate::terminal_text::safe;

#[derive(Debug)]
pub(super) enum Event {
    /// A key was pressed.
    Key(KeyEvent),
    Paste(String),
    /// The terminal has another size.
    Resize,
    /// An aggregator answered, or why not, and how long that took.
    Answer(Result<Box<Page>, String>, Duration),
    Tick,
}

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    None,
    /// Draw what has changed.
    Draw,
    /// Draw everything: another program has written to the terminal.
    Repaint,
    /// Request a page of the aggregator with this number.
    Request(usize),
    Quit,
}

/// Whether the aggregator answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Reachability {
    Connecting,
    /// The last request was answered.
    Answering,
    /// The last requests failed.
    Lost {
        since: Duration,
        failures: u32,
        /// Why the last one did.
        error: String,
    },
}

/// What the keys do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    Browse,
    /// They write the filter.
    Filter,
    /// Any key closes the help.
    Help,
}

/// Everything that a frame shows.
#[derive(Debug)]
pub(super) struct State {
    /// The aggregators' URLs, of which one is read.
    urls: Vec<String>,
    reads: usize,
    page: Page,
    link: Reachability,
    mode: Mode,
    panes: Panes,
    is_paused: bool,
    /// What the operator may try, above the status line.
    hint: Option<String>,
    /// When the next request is due; `None` while one is under way.
    next: Option<Duration>,
    now: Duration,
}

impl State {
    /// Before the first answer.
    pub(super) fn new(urls: Vec<String>) -> Self {
        Self {
            urls,
            reads: 0,
            page: Page::default(),
            link: Reachability::Connecting,
            mode: Mode::Browse,
            panes: Panes::default(),
            is_paused: false,
            hint: None,
            next: Some(Duration::ZERO),
            now: Duration::ZERO,
        }
    }

    /// Shows a line above the status line from now on.
    pub(super) fn set_hint(&mut self, hint: Option<String>) {
        self.hint = hint;
    }

    /// The line above the status line.
    pub(super) fn hint(&self) -> Option<&str> {
        self.hint.as_deref()
    }

    /// Changes by what happened at `now`, which is counted from the start.
    pub(super) fn on_event(&mut self, event: Event, now: Duration) -> Effect {
        self.now = now;
        match event {
            Event::Key(key) if key.kind == KeyEventKind::Release => Effect::None,
            Event::Key(key) => self.on_key(key),
            Event::Paste(text) => self.on_paste(&text),
            Event::Resize => Effect::Draw,
            Event::Answer(Ok(page), took) => self.on_page(*page, took),
            Event::Answer(Err(error), _) => self.on_failure(&error),
            Event::Tick => self.on_tick(),
        }
    }

    fn on_page(&mut self, page: Page, took: Duration) -> Effect {
        self.link = Reachability::Answering;
        // From the answer on, not from the request: one is under way at a time, so a slow
        // aggregator is asked less often (A120).
        self.next = Some(self.now + READ_EVERY.max(took.saturating_mul(PAUSE_FACTOR)));
        // Requests go on, so that the link is shown as it is
        // and the next page is fresh after the pause.
        if !self.is_paused {
            self.page = page;
            self.panes.arrange(&self.page);
        }
        Effect::Draw
    }

    fn on_failure(&mut self, error: &str) -> Effect {
        let (since, failures) = match &self.link {
            Reachability::Lost { since, failures, .. } => (*since, failures.saturating_add(1)),
            Reachability::Connecting | Reachability::Answering => (self.now, 1),
        };
        self.link = Reachability::Lost { since, failures, error: safe(error) };
        // Of a pair the other one may answer.
        self.reads = (self.reads + 1) % self.urls.len().max(1);
        let pause = Backoff::new(RETRY_MIN, RETRY_MAX).span(failures.saturating_sub(1));
        self.next = Some(self.now + pause);
        Effect::Draw
    }

    fn on_tick(&mut self) -> Effect {
        match self.next {
            Some(next) if next <= self.now => {
                self.next = None;
                Effect::Request(self.reads)
            }
            // Ages of a lost connection advance.
            _ if matches!(self.link, Reachability::Lost { .. }) => Effect::Draw,
            _ => Effect::None,
        }
    }

    fn on_key(&mut self, key: KeyEvent) -> Effect {
        if key.modifiers.contains(KeyModifiers::CONTROL) {
            return self.on_control(key.code);
        }
        match self.mode {
            Mode::Help => self.mode = Mode::Browse,
            Mode::Filter => self.on_filter_key(key.code),
            Mode::Browse => return self.on_browse_key(key.code),
        }
        Effect::Draw
    }

    fn on_control(&mut self, code: KeyCode) -> Effect {
        match code {
            KeyCode::Char('c' | 'd') => Effect::Quit,
            KeyCode::Char('l') => Effect::Repaint,
            KeyCode::Char('u') if self.mode == Mode::Filter => {
                self.panes.edit_filter(&self.page, String::clear);
                Effect::Draw
            }
            _ => Effect::None,
        }
    }

    fn on_filter_key(&mut self, code: KeyCode) {
        match code {
            KeyCode::Enter => self.mode = Mode::Browse,
            KeyCode::Esc => {
                self.panes.edit_filter(&self.page, String::clear);
                self.mode = Mode::Browse;
            }
            KeyCode::Backspace => self.panes.edit_filter(&self.page, |filter| {
                filter.pop();
            }),
            KeyCode::Char(c) => self.type_filter(&c.to_string()),
            _ => {}
        }
    }

    fn on_paste(&mut self, text: &str) -> Effect {
        if self.mode != Mode::Filter {
            return Effect::None;
        }
        self.type_filter(text);
        Effect::Draw
    }

    fn type_filter(&mut self, typed: &str) {
        self.panes.edit_filter(&self.page, |filter| {
            let room = FILTER_CHARS_MAX.saturating_sub(filter.chars().count());
            // What is pasted may have escape codes, and the filter is drawn like any text.
            filter.extend(safe(typed).chars().take(room));
        });
    }

    fn on_browse_key(&mut self, code: KeyCode) -> Effect {
        match code {
            KeyCode::Char('q') => return Effect::Quit,
            KeyCode::Char('?' | 'h') => self.mode = Mode::Help,
            KeyCode::Char('/') => self.mode = Mode::Filter,
            KeyCode::Esc => self.panes.edit_filter(&self.page, String::clear),
            KeyCode::Char('p' | ' ') => self.is_paused = !self.is_paused,
            code if self.panes.on_key(&self.page, code) => {}
            _ => return Effect::None,
        }
        Effect::Draw
    }

    /// The aggregator that is read.
    pub(super) fn url(&self) -> &str {
        self.urls.get(self.reads).map_or("", String::as_str)
    }

    /// The newest page, or the one at which it was paused.
    pub(super) fn page(&self) -> &Page {
        &self.page
    }

    /// Whether there was an answer.
    pub(super) fn has_page(&self) -> bool {
        !self.page.mesh.is_empty()
    }

    pub(super) fn link(&self) -> &Reachability {
        &self.link
    }

    /// For how long the page on the screen has been out of date; zero while requests are answered.
    pub(super) fn lost_for(&self) -> Duration {
        match self.link {
            Reachability::Lost { since, .. } => self.now.saturating_sub(since),
            Reachability::Connecting | Reachability::Answering => Duration::ZERO,
        }
    }

    pub(super) fn mode(&self) -> Mode {
        self.mode
    }

    /// What is selected of the page.
    pub(super) fn panes(&self) -> &Panes {
        &self.panes
    }

    /// Whether new pages are not shown.
    pub(super) fn is_paused(&self) -> bool {
        self.is_paused
    }

    /// Time since the start.
    pub(super) fn now(&self) -> Duration {
        self.now
    }

    /// Time until the next request.
    pub(super) fn next_in(&self) -> Duration {
        self.next.unwrap_or_default().saturating_sub(self.now)
    }
}
