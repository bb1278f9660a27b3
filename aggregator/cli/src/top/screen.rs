//! The terminal: entered and left as a whole, and its keys.
//!
//! A key, a signal, an error or a panic that ends the process leaves the terminal as it was:
//! dropping a [`Screen`] restores it, and a panic does before its message is printed.

use std::io::{self, IsTerminal, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;

use anyhow::{Context, Result};
use ratatui::backend::TestBackend;
use ratatui::buffer::{Buffer, Cell};
use ratatui::crossterm::event::{self, DisableBracketedPaste, EnableBracketedPaste};
use ratatui::crossterm::{execute, terminal};
use ratatui::layout::Size;
use ratatui::{DefaultTerminal, Terminal};
use tokio::sync::mpsc;

use super::draw::{Theme, draw};
use super::limits::{INPUT_END, INPUT_POLL, KEYS_MAX, SIZE};
use super::state::{Event, State};

/// The terminal while it shows frames.
pub(super) struct Screen {
    terminal: DefaultTerminal,
    theme: Theme,
    events: mpsc::Receiver<Event>,
    ends: Arc<AtomicBool>,
    /// The thread that reads keys, and what hangs up when it ends.
    input: Option<(JoinHandle<()>, Receiver<()>)>,
}

/// Whether a person looks at the output and can press keys.
pub(crate) fn is_terminal() -> bool {
    io::stdout().is_terminal() && io::stdin().is_terminal()
}

/// The terminal's size, or that of a frame without one.
pub(super) fn size() -> Size {
    let of_terminal = || terminal::size().map_or(SIZE, Size::from);
    if io::stdout().is_terminal() { of_terminal() } else { SIZE }
}

impl Screen {
    /// Enters the alternate screen and begins to read keys.
    pub(super) fn enter() -> Result<Self> {
        let terminal = ratatui::try_init().context("the terminal cannot be prepared")?;
        let (keys, events) = mpsc::channel(KEYS_MAX);
        let ends = Arc::new(AtomicBool::new(false));
        let theme = Theme { has_colour: std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty()) };
        let mut screen = Self { terminal, theme, events, ends: ends.clone(), input: None };
        execute!(io::stdout(), EnableBracketedPaste)?;
        let input = std::thread::Builder::new().name("keys".to_owned());
        // The thread's side of this channel closes however it stops, by a panic too: waiting for
        // that can have a time limit, which waiting for a thread has not.
        let (running, ended) = channel();

        let input = input.spawn(move || {
            let _running: Sender<()> = running;
            read_keys(&ends, &keys);
        });

        screen.input = Some((input?, ended));
        Ok(screen)
    }

    /// The next key or change of size; `None` when the terminal is gone. Cancel safe.
    pub(super) async fn next(&mut self) -> Option<Event> {
        self.events.recv().await
    }

    /// A key that waits already.
    pub(super) fn ready(&mut self) -> Option<Event> {
        self.events.try_recv().ok()
    }

    /// Makes the next frame a whole one.
    pub(super) fn clear(&mut self) -> Result<()> {
        self.terminal.clear().context("the terminal is gone")
    }

    pub(super) fn show(&mut self, state: &State) -> Result<()> {
        let theme = self.theme;
        self.terminal.draw(|frame| draw(frame, state, theme)).context("the terminal is gone")?;
        Ok(())
    }
}

impl Screen {
    /// Ends the thread that reads keys. Of a terminal that is gone its read never returns; then the
    /// thread ends with the process.
    fn end_input(&mut self) {
        let Some((input, ended)) = self.input.take() else { return };
        if ended.recv_timeout(INPUT_END) == Err(RecvTimeoutError::Timeout) {
            return;
        }
        let _panicked = input.join();
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        self.end_input();
        // A terminal that is gone needs none of it.
        let _gone = execute!(io::stdout(), DisableBracketedPaste);
        // After the keys' thread: one that still reads would
        // take the first key that is meant for the shell.
        ratatui::restore();
        let _gone = io::stdout().flush();
    }
}

/// Reads keys until it should end; keys beyond the bound are dropped.
fn read_keys(ends: &AtomicBool, keys: &mpsc::Sender<Event>) {
    while !ends.load(Ordering::Relaxed) {
        let read = match event::poll(INPUT_POLL) {
            Ok(false) => continue,
            Ok(true) => event::read(),
            Err(_) => return,
        };

        let event = match read {
            Ok(event::Event::Key(key)) => Event::Key(key),
            Ok(event::Event::Paste(text)) => Event::Paste(text),
            Ok(event::Event::Resize(..)) => Event::Resize,
            Ok(_) => continue,
            Err(_) => return,
        };

        let _dropped_when_full = keys.try_send(event);
    }
}

/// A frame as text without escape codes: drawn into memory, which ratatui names after tests.
pub(super) fn plain(state: &State, size: Size) -> Result<String> {
    let mut terminal = Terminal::new(TestBackend::new(size.width, size.height))?;
    terminal.draw(|frame| draw(frame, state, Theme { has_colour: false }))?;
    Ok(lines(terminal.backend().buffer()))
}

/// The text of all cells, without blanks at the ends of lines and empty lines at the end.
fn lines(buffer: &Buffer) -> String {
    let width = usize::from(buffer.area.width).max(1);
    let mut text = String::new();
    for row in buffer.content.chunks(width) {
        let line: String = row.iter().map(Cell::symbol).collect();
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text.truncate(text.trim_end().len());
    text.push('\n');
    text
}
