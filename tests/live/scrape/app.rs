//! A real application that exports metrics, and targets that misbehave.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::json;

/// A Python process with `prometheus_client`; killed when dropped.
pub(crate) struct App {
    process: Child,
    tasks: ChildStdin,
    lines: BufReader<ChildStdout>,
}

impl App {
    /// Starts one that serves its page on this port.
    pub(crate) fn start(port: u16) -> Self {
        let here = PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").unwrap());
        let mut process = Command::new(here.join(".venv/bin/python"))
            .arg(here.join("python/clients/scraped_app.py"))
            .arg(port.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("deploy/test makes the environment");
        let (tasks, stdout) = (process.stdin.take().unwrap(), process.stdout.take().unwrap());
        let mut app = Self { process, tasks, lines: BufReader::new(stdout) };
        app.await_line("ready");
        app
    }

    fn await_line(&mut self, expected: &str) {
        let mut line = String::new();
        self.lines.read_line(&mut line).unwrap();
        assert_eq!(line.trim(), expected);
    }

    /// Has it observe latencies and count hits, and returns when it has.
    pub(crate) fn count(&mut self, path: &str, seconds: &[f64], hits: u64) {
        let depth = seconds.len();
        let task = json!({ "path": path, "seconds": seconds, "hits": hits, "depth": depth });
        writeln!(self.tasks, "{task}").unwrap();
        self.await_line("counted");
    }
}

impl Drop for App {
    fn drop(&mut self) {
        let _gone = self.process.kill();
        let _status = self.process.wait();
    }
}

/// A target that accepts connections and never responds.
pub(crate) fn hanging() -> (TcpListener, String) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let url = format!("http://{}/metrics", listener.local_addr().unwrap());
    (listener, url)
}

/// A target that repeats this response until the client closes the connection.
pub(crate) fn flooding(answer: &'static [u8]) -> String {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let url = format!("http://{}/metrics", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let mut stream = BufReader::new(stream);
            let mut line = String::new();
            while stream.read_line(&mut line).is_ok_and(|read| read > 2) {
                line.clear();
            }
            let mut stream = stream.into_inner();
            let head = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n";
            let (mut sent, answer) = (stream.write_all(head), answer.repeat(100_000));
            while sent.is_ok() {
                sent = stream.write_all(&answer);
            }
        }
    });
    url
}
