//! Administration of the broker's streams, as an operator or an attacker does it.
//!
//! In the broker's text protocol by hand: attackers of the tests name subjects and reply subjects
//! that `plimsoll-bus` does not publish to, and what checks the bus must not depend on it.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};

pub(crate) const WAIT: Duration = Duration::from_secs(60);
const INBOX: &str = "_INBOX.operator";

/// A message in a stream.
#[derive(Clone, Debug)]
pub struct StoredMessage {
    pub subject: String,
    pub headers: BTreeMap<String, String>,
    /// Size of its payload.
    pub payload_bytes: usize,
}

/// A connection to the broker.
pub struct JetStreamAdmin {
    reader: BufReader<TcpStream>,
    writer: TcpStream,
}

impl JetStreamAdmin {
    /// Connects to `nats://host:port`, or to `nats://user:password@host:port`.
    ///
    /// # Errors
    /// When no process listens there.
    pub fn connect(url: &str) -> Result<Self> {
        Self::connect_with(url, WAIT)
    }

    /// The same; each answer is awaited for that long.
    ///
    /// # Errors
    /// When no process listens there.
    pub fn connect_with(url: &str, wait: Duration) -> Result<Self> {
        let address = url.strip_prefix("nats://").context("no nats:// address")?;
        let (user, address) = address.rsplit_once('@').unwrap_or(("", address));
        let (user, password) = user.split_once(':').unwrap_or_default();
        let connect = json!({ "verbose": false, "user": user, "pass": password });
        let writer = TcpStream::connect(address).with_context(|| address.to_owned())?;
        writer.set_read_timeout(Some(wait))?;
        let mut operator = Self { reader: BufReader::new(writer.try_clone()?), writer };
        operator.write(&format!("CONNECT {connect}\r\nSUB {INBOX} 1\r\n"))?;
        Ok(operator)
    }

    fn write(&mut self, text: &str) -> Result<()> {
        Ok(self.writer.write_all(text.as_bytes())?)
    }

    /// Publishes a message and names the subject to which the broker is to answer.
    ///
    /// # Errors
    /// When the connection is closed.
    pub fn publish(&mut self, subject: &str, answer_to: &str, payload: &str) -> Result<()> {
        let length = payload.len();
        self.write(&format!("PUB {subject} {answer_to} {length}\r\n{payload}\r\n"))
    }

    /// Messages that a stream stores.
    ///
    /// # Errors
    /// When there is none.
    pub fn message_count(&mut self, stream: &str) -> Result<u64> {
        self.state(stream, "messages")
    }

    fn info(&mut self, stream: &str) -> Result<Value> {
        self.request(&format!("STREAM.INFO.{stream}"), &Value::Null)
    }

    /// A number of a stream's state.
    fn state(&mut self, stream: &str, key: &str) -> Result<u64> {
        self.info(stream)?["state"][key].as_u64().with_context(|| format!("no {key}"))
    }

    /// Sends a request to `$JS.API.<subject>` and reads the response.
    ///
    /// # Errors
    /// When there is no response, or it is an error.
    pub fn request(&mut self, subject: &str, body: &Value) -> Result<Value> {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let length = body.len();
        self.write(&format!("PUB $JS.API.{subject} {INBOX} {length}\r\n{body}\r\n"))?;
        let response = self.read_reply()?;
        if !response["error"].is_null() {
            bail!("{subject}: {}", response["error"]);
        }
        Ok(response)
    }

    fn read_reply(&mut self) -> Result<Value> {
        loop {
            let mut line = String::new();
            anyhow::ensure!(
                self.reader.read_line(&mut line)? > 0,
                "the broker closed the connection"
            );

            let words: Vec<&str> = line.split_whitespace().collect();
            match words.as_slice() {
                ["MSG", .., length] => {
                    let mut payload = vec![0; length.parse::<usize>()? + 2];
                    self.reader.read_exact(&mut payload)?;
                    return Ok(serde_json::from_slice(&payload)?);
                }
                ["PING"] => self.write("PONG\r\n")?,
                ["-ERR", ..] => bail!("{line}"),
                _ => {}
            }
        }
    }

    /// A stream's configuration.
    ///
    /// # Errors
    /// When there is none.
    pub fn config(&mut self, stream: &str) -> Result<Value> {
        Ok(self.info(stream)?["config"].take())
    }

    /// Bytes that a stream stores.
    ///
    /// # Errors
    /// When there is none.
    pub fn bytes(&mut self, stream: &str) -> Result<u64> {
        self.state(stream, "bytes")
    }

    /// Deletes a stream and creates it again, empty.
    ///
    /// # Errors
    /// When the broker rejects it.
    pub fn recreate(&mut self, stream: &str) -> Result<()> {
        let config = self.config(stream)?;
        self.request(&format!("STREAM.DELETE.{stream}"), &Value::Null)?;
        self.request(&format!("STREAM.CREATE.{stream}"), &config).map(drop)
    }

    /// Limits the bytes of a stream. Beyond the limit it rejects new messages if `discard` is
    /// `"new"`, and drops its oldest if it is `"old"`.
    ///
    /// # Errors
    /// When the broker rejects it.
    pub fn set_limit(&mut self, stream: &str, bytes_max: u64, discard: &str) -> Result<()> {
        self.update(stream, &[("max_bytes", json!(bytes_max)), ("discard", json!(discard))])
    }

    /// Changes keys of a stream's configuration.
    ///
    /// # Errors
    /// When the broker rejects it.
    pub fn update(&mut self, stream: &str, changes: &[(&str, Value)]) -> Result<()> {
        let mut config = self.config(stream)?;
        for (key, value) in changes {
            config[*key] = value.clone();
        }
        self.request(&format!("STREAM.UPDATE.{stream}"), &config).map(drop)
    }

    /// Headers and payload size of every message that a stream stores, oldest first.
    ///
    /// # Errors
    /// When the stream cannot be read.
    pub fn messages(&mut self, stream: &str) -> Result<Vec<StoredMessage>> {
        let (first, last) = (self.state(stream, "first_seq")?, self.state(stream, "last_seq")?);
        (first.max(1)..=last).map(|seq| self.message(stream, seq)).collect()
    }

    fn message(&mut self, stream: &str, seq: u64) -> Result<StoredMessage> {
        let body = json!({ "seq": seq });
        let message = self.request(&format!("STREAM.MSG.GET.{stream}"), &body)?["message"].take();
        let text = |key: &str| message[key].as_str().unwrap_or_default();
        let headers = String::from_utf8(BASE64_STANDARD.decode(text("hdrs")).context("hdrs")?)?;
        let pairs = headers.lines().filter_map(|line| line.split_once(": "));
        Ok(StoredMessage {
            subject: text("subject").to_owned(),
            headers: pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect(),
            payload_bytes: BASE64_STANDARD.decode(text("data")).context("data")?.len(),
        })
    }
}
