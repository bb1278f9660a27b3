//! The screen of a running mesh: its text, its keys, and the terminal it leaves behind.

use std::path::Path;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use plimsoll_mesh::certificates::write_secret;
use plimsoll_mesh::child::free_port;
use plimsoll_mesh::stack::{Stack, bin_dir};
use plimsoll_tests::jobs::with_jobs;
use plimsoll_tests::process::{await_summary, fleet_samples};
use plimsoll_tests::program::{ScratchDir, await_no_processes, processes_naming};

use super::tmux::Tmux;

/// Runs `plimsoll` and then writes how it ended, and whether the terminal echoes and edits lines.
fn plimsoll(arguments: &str) -> String {
    let program = bin_dir().unwrap().join("plimsoll");
    let program = program.display();
    format!("{program} {arguments}; echo ended $?; stty -a | grep -o -w -e '-*icanon' -e '-*echo'")
}

/// The terminal is as it was: the cursor is shown, lines are edited, keys are echoed.
async fn assert_left_in_order(tmux: &Tmux, code: i32) {
    // The modes are the last lines.
    let has_modes = |text: &str| text.lines().any(|line| line.ends_with("echo"));
    let ended = |text: &str| text.contains(&format!("ended {code}")) && has_modes(text);
    let text = tmux.await_text("the terminal is the shell's again", ended).await.unwrap();
    let modes: Vec<&str> = text.lines().filter(|line| line.contains("icanon")).collect();
    assert_eq!(modes, ["icanon"], "{text}");
    assert!(text.lines().any(|line| line == "echo"), "{text}");
    let flags = tmux.tmux(&["display", "-p", "#{alternate_on} #{cursor_flag}"]);
    assert_eq!(flags.trim(), "0 1");
}

fn process_of(argument: &Path) -> Pid {
    let is_top = |line: &str| line.split(' ').next().is_some_and(|it| it.ends_with("/plimsoll"));
    let found = processes_naming(argument).into_iter().find(|(_, line)| is_top(line));
    Pid::from_raw(found.unwrap().0)
}

#[tokio::test]
async fn top_shows_a_mesh_follows_keys_and_survives_its_aggregator() {
    let scratch = ScratchDir::new().unwrap();
    let mut stack = Stack::start(with_jobs(&scratch.path())).await.unwrap();
    let enough = |summary: &_| fleet_samples(summary, "epoch_hook") >= 60;
    await_summary(stack.api(), "60 hooks are merged", enough).await.unwrap();
    let url = stack.api().url().to_owned();
    let command = plimsoll(&format!("top --url {url}"));
    let Some(tmux) = Tmux::run(&scratch.path(), &command) else { return };

    let whole = |text: &str| text.contains("epoch_hook") && text.contains("node-3");
    let text = tmux.await_text("budgets and nodes", whole).await.unwrap();
    assert!(text.lines().count() <= 24 && text.lines().all(|line| line.chars().count() <= 80));
    let title: Vec<&str> = text.lines().next().unwrap().split_whitespace().collect();
    assert_eq!(title, ["plimsoll", "top", "mesh", "local", &url, "broker", "jetstream"]);
    assert!(text.contains("nodes 3 up, 0 silent, 0 left"), "{text}");
    for heading in
        ["BUDGET        SCOPE ", "NODE                  STATE  SEEN", "ALERT            STATE"]
    {
        assert!(text.contains(heading), "{heading:?}: {text}");
    }
    let row = text.lines().find(|line| line.starts_with("epoch_hook")).unwrap();
    let cells: Vec<&str> = row.split_whitespace().collect();
    assert_eq!(cells[..5], ["epoch_hook", "fleet", "p99", "18", "ms"], "{row}");
    assert!(text.trim_end().ends_with("? help  Tab list  s sort  / filter  q quit"), "{text}");

    tmux.press(&["s"]);
    tmux.await_text("the order", |text| text.contains("NODE by name")).await.unwrap();
    tmux.press(&["/", "n", "o", "d", "e", "-", "2", "Enter"]);
    let only = |text: &str| text.contains("node-2") && !text.contains("node-1");
    tmux.await_text("the filter", only).await.unwrap();
    tmux.press(&["Escape"]);
    tmux.await_text("all nodes", |text| text.contains("node-1")).await.unwrap();
    tmux.press(&["?"]);
    tmux.await_text("the help", |text| text.contains("next order")).await.unwrap();
    tmux.press(&["x"]);
    tmux.tmux(&["resize-window", "-x", "120", "-y", "40"]);
    let wide = |text: &str| text.lines().next().is_some_and(|line| line.chars().count() == 120);
    tmux.await_text("the new size", wide).await.unwrap();
    tmux.tmux(&["resize-window", "-x", "20", "-y", "5"]);
    tmux.await_text("a tiny size", |text| text.contains("plimsoll top")).await.unwrap();
    tmux.tmux(&["resize-window", "-x", "80", "-y", "24"]);

    stack.kill_aggregator();
    let lost = |text: &str| text.contains("no answer for") && text.contains("node-1");
    tmux.await_text("the lost connection", lost).await.unwrap();
    stack.restart_aggregator().await.unwrap();
    let back = |text: &str| text.contains("? help") && text.contains("node-1");
    tmux.await_text("the next answer", back).await.unwrap();
    tmux.press(&["q"]);
    assert_left_in_order(&tmux, 0).await;
    stack.end().await.unwrap();
}

#[tokio::test]
async fn signals_and_ctrl_c_leave_the_terminal_in_order() {
    for signal in [Some(Signal::SIGTERM), Some(Signal::SIGINT), None] {
        let scratch = ScratchDir::new().unwrap();
        let token = scratch.path().join("token");
        write_secret(&token, "0123456789abcdef").unwrap();
        // No aggregator is needed to show a screen.
        let port = free_port().unwrap();
        let arguments =
            format!("top --token-file {} --url http://127.0.0.1:{port}", token.display());
        let Some(tmux) = Tmux::run(&scratch.path(), &plimsoll(&arguments)) else { return };
        let text =
            tmux.await_text("no answer", |text| text.contains("no answer for")).await.unwrap();
        assert!(text.contains("Connection refused"), "{text}");
        match signal {
            Some(signal) => kill(process_of(&token), signal).unwrap(),
            None => tmux.press(&["C-c"]),
        }
        assert_left_in_order(&tmux, 0).await;
    }
}

#[tokio::test]
async fn top_ends_with_its_terminal() {
    let scratch = ScratchDir::new().unwrap();
    let token = scratch.path().join("token");
    write_secret(&token, "0123456789abcdef").unwrap();
    let port = free_port().unwrap();
    let arguments = format!("top --token-file {} --url http://127.0.0.1:{port}", token.display());
    let Some(tmux) = Tmux::run(&scratch.path(), &plimsoll(&arguments)) else { return };
    tmux.await_text("no answer", |text| text.contains("no answer for")).await.unwrap();
    drop(tmux);
    await_no_processes(&token).await.unwrap();
}

#[tokio::test]
async fn up_in_a_terminal_shows_top_and_drains_when_the_operator_quits() {
    let scratch = ScratchDir::new().unwrap();
    let mesh = scratch.path().join("mesh");
    let port = free_port().unwrap();
    let dir = mesh.display();
    let arguments = format!("up --nodes 1 --http 127.0.0.1:{port} --dir {dir}");
    let Some(tmux) = Tmux::run(&scratch.path(), &plimsoll(&arguments)) else { return };
    let shown = |text: &str| text.contains("epoch_hook") && text.contains("node-1");
    let text = tmux.await_text("the mesh", shown).await.unwrap();
    assert!(text.starts_with("plimsoll top  mesh local") && !text.contains("starting"), "{text}");
    tmux.press(&["q"]);
    assert_left_in_order(&tmux, 0).await;
    let text = tmux.text();
    let words: String = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        words.contains("draining") && words.contains("every sample is accounted for"),
        "{text}"
    );
    await_no_processes(&mesh).await.unwrap();
}
