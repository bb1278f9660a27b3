//! A terminal of its own: a tmux server with one window, killed when dropped.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};
use plimsoll_mesh::child::until;
use plimsoll_tests::capability::{skip, terminal_refusal};

const WAIT: Duration = Duration::from_secs(30);

pub(super) struct Tmux {
    socket: String,
}

impl Tmux {
    /// Runs a shell command in a window of 80 columns and 24 lines; the window stays when the
    /// command has ended. `None` with the reason printed where there is no terminal.
    pub(super) fn run(dir: &Path, command: &str) -> Option<Self> {
        if let Some(refusal) = terminal_refusal() {
            skip(&refusal);
            return None;
        }
        let socket = dir.join("tmux").display().to_string();
        // In a file, so that no command line but the program's own names its arguments. Ctrl-C is
        // for the program.
        let script = dir.join("run.sh");
        let text = format!("trap : INT\n{command}\nexec sleep 1000\n");
        std::fs::write(&script, text).expect("the directory is there");
        let status = Command::new("tmux")
            .args(["-S", &socket, "-f", "/dev/null", "new-session", "-d", "-x", "80", "-y", "24"])
            .arg(format!("sh {}", script.display()))
            .env("TERM", "xterm-256color")
            .env("LANG", "C.UTF-8")
            .status()
            .expect("tmux was run before");
        assert!(status.success(), "tmux ended with {status}");
        Some(Self { socket })
    }

    /// The output of a tmux command.
    pub(super) fn tmux(&self, arguments: &[&str]) -> String {
        let output = Command::new("tmux").args(["-S", &self.socket]).args(arguments).output();
        let output = output.expect("tmux was run before");
        String::from_utf8(output.stdout).expect("tmux writes UTF-8")
    }

    /// Presses keys, named as tmux names them.
    pub(super) fn press(&self, keys: &[&str]) {
        self.tmux(&[&["send-keys"], keys].concat());
    }

    /// The text on the screen.
    pub(super) fn text(&self) -> String {
        self.tmux(&["capture-pane", "-p"])
    }

    /// Waits until the screen's text fits.
    pub(super) async fn await_text(
        &self,
        what: &str,
        fits: impl Fn(&str) -> bool,
    ) -> Result<String> {
        let found = until(what, WAIT, async || Some(self.text()).filter(|text| fits(text))).await;
        found.with_context(|| format!("the screen shows:\n{}", self.text()))
    }
}

impl Drop for Tmux {
    fn drop(&mut self) {
        self.tmux(&["kill-server"]);
    }
}
