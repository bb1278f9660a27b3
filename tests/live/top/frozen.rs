//! Answers that no aggregator gives: hostile names, and ten thousand nodes.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use plimsoll_clock::Stopwatch;
use plimsoll_mesh::stack::bin_dir;
use plimsoll_tests::program::{ProgramOutput, ScratchDir, program, run};
use serde_json::{Value, json};

use super::tmux::Tmux;

const WAIT: Duration = Duration::from_secs(30);
/// Sets the title, clears the screen, begins a sequence and reverses what follows; as wide as its
/// column.
const HOSTILE: &str = "\u{1b}]0;x\u{7}\u{1b}[2J\u{9b}evil\u{202e}";

/// Serves the same two pages until the process ends; returns its URL.
fn serve(summary: &Value) -> String {
    let alerts = json!({"mesh": "m", "at_seconds": 100.0, "ready": true, "alerts": []});
    let pages = Arc::new([
        ("/metrics/summary", summary.to_string()),
        ("/api/v1/alerts", alerts.to_string()),
    ]);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let pages = pages.clone();
            std::thread::spawn(move || answer(&stream, &pages[..]));
        }
    });
    url
}

/// Answers every request of a connection, until the client closes it.
fn answer(mut stream: &TcpStream, pages: &[(&str, String)]) -> Option<()> {
    let mut lines = BufReader::new(stream).lines().map_while(Result::ok);
    loop {
        let request = lines.next()?;
        // The rest of the head.
        lines.by_ref().find(String::is_empty)?;
        let (_, body) = pages.iter().find(|(path, _)| request.contains(path))?;
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
        stream.write_all(head.as_bytes()).ok()?;
        stream.write_all(body.as_bytes()).ok()?;
    }
}

fn summary(nodes: usize, first: &str) -> Value {
    let name = |n: usize| if n == 0 { first.to_owned() } else { format!("node-{n}") };
    let row = |n: usize| {
        json!({"node": name(n), "presence": "up", "last_seen_seconds": 99.0, "outbox_depth": n,
            "ledger": {"recorded": 9, "merged": 9, "held": 0, "unaccounted": 0, "lost": {}},
            "outbox_depth_max": n, "dropped": 0})
    };
    let budget = |n: usize| {
        json!({"budget": "epoch_hook", "operation": "epoch_hook", "quantile": 0.99,
            "scope": {"node": format!("node-{n}")}, "limit_ns": 18_000_000, "window": "1m",
            "samples": 100, "value_ns": 9_000_000, "lower_ns": null, "verdict": "within",
            "alert": "inactive"})
    };
    json!({"mesh": "m", "version": "0.1.0", "at_seconds": 100.0, "ready": true,
        "broker": "jetstream", "presence": {"up": nodes}, "operations": [], "changes": [],
        "nodes": (0..nodes).map(row).collect::<Vec<_>>(),
        "budgets": (0..nodes).map(budget).collect::<Vec<_>>()})
}

async fn top(url: &str, argument: &str) -> ProgramOutput {
    let mut command = program("plimsoll").unwrap();
    command.args(["top", "--url", url, argument]);
    run(command, WAIT).await.unwrap()
}

#[tokio::test]
async fn one_frame_and_json_are_plain_text_whatever_the_names() {
    let url = serve(&summary(3, HOSTILE));
    let once = top(&url, "--once").await;
    assert_eq!(once.code, Some(0), "{once:?}");
    assert!(!once.stdout.chars().any(|c| c.is_control() && c != '\n'), "{:?}", once.stdout);
    assert!(once.stdout.contains("evil") && once.stdout.contains("node-2"), "{}", once.stdout);
    assert_eq!(once.stdout.lines().count(), 24);
    let page = top(&url, "--json").await;
    assert!(!page.stdout.chars().any(|c| c.is_control() && c != '\n'), "{:?}", page.stdout);
    let page: Value = serde_json::from_str(&page.stdout).unwrap();
    assert_eq!(page["url"], url.as_str());
    assert_eq!(page["nodes"][2]["node"], "node-2");
    assert_eq!(page["nodes"][1]["headroom"], 0.5);
    assert_eq!(page["budgets"][1]["verdict"], "within");
    let absent = top("http://127.0.0.1:1", "--once").await;
    assert_eq!((absent.code, absent.stdout.as_str()), (Some(1), ""));
    assert!(absent.stderr.contains("127.0.0.1:1"), "{absent:?}");
}

#[tokio::test]
async fn hostile_names_do_not_reach_the_terminal() {
    let scratch = ScratchDir::new().unwrap();
    let url = serve(&summary(3, HOSTILE));
    let program = bin_dir().unwrap().join("plimsoll");
    let command = format!("{} top --url {url}", program.display());
    let Some(tmux) = Tmux::run(&scratch.path(), &command) else { return };
    let title = tmux.tmux(&["display", "-p", "#{pane_title}"]);
    let text = tmux.await_text("the name", |text| text.contains("evil")).await.unwrap();
    assert!(text.contains("NODE") && text.contains("node-2"), "the screen was cleared: {text}");
    assert_eq!(tmux.tmux(&["display", "-p", "#{pane_title}"]), title);
}

#[tokio::test]
async fn colours_are_left_out_on_request() {
    let url = serve(&summary(3, "node-0"));
    for (variables, expected) in [("", true), ("NO_COLOR=1 ", false)] {
        let scratch = ScratchDir::new().unwrap();
        let program = bin_dir().unwrap().join("plimsoll");
        let command = format!("{variables}{} top --url {url}", program.display());
        let Some(tmux) = Tmux::run(&scratch.path(), &command) else { return };
        tmux.await_text("the nodes", |text| text.contains("node-2")).await.unwrap();
        let text = tmux.tmux(&["capture-pane", "-p", "-e"]);
        let is_colour = |code: &str| matches!(code.parse(), Ok(30_u8..=38));
        let has_colour = text
            .split("\u{1b}[")
            .skip(1)
            .any(|code| code.split('m').next().is_some_and(|of| of.split(';').any(is_colour)));
        assert_eq!(has_colour, expected, "{text:?}");
    }
}

/// The figures are printed: with --nocapture they are those of the documents.
#[tokio::test]
async fn ten_thousand_nodes_are_sorted_and_filtered_as_keys_are_pressed() {
    let scratch = ScratchDir::new().unwrap();
    let page = summary(10_000, "node-0");
    let url = serve(&page);
    let program = bin_dir().unwrap().join("plimsoll");
    let command = format!("{} top --url {url}", program.display());
    let watch = Stopwatch::start();
    let Some(tmux) = Tmux::run(&scratch.path(), &command) else { return };
    tmux.await_text("the nodes", |text| text.contains("node-3 ")).await.unwrap();
    let first = watch.elapsed();
    let watch = Stopwatch::start();
    // By depth, the deepest first.
    tmux.press(&["s", "s", "s"]);
    tmux.await_text("the order", |text| text.contains("node-9999")).await.unwrap();
    let sorted = watch.elapsed();
    let watch = Stopwatch::start();
    tmux.press(&["/", "7", "7", "7", "7", "Enter"]);
    let only = |text: &str| text.contains("node-7777") && !text.contains("node-9999");
    tmux.await_text("the filter", only).await.unwrap();
    let filtered = watch.elapsed();
    let bytes = page.to_string().len();
    println!("10000 nodes, {bytes} bytes: first {first:?}, sort {sorted:?}, filter {filtered:?}");
}
