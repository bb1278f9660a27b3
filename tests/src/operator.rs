//! Someone with a console on the broker: asks JetStream in the broker's own plain protocol, with
//! none of the mesh's code in between.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

const WAIT: Duration = Duration::from_secs(10);
const INBOX: &str = "_INBOX.operator";

/// A connection to the broker.
pub struct Operator {
    reader: BufReader<TcpStream>,
    writer: TcpStream,
}

impl Operator {
    /// Connects to `nats://host:port`.
    ///
    /// # Errors
    /// When nobody listens there.
    pub fn connect(url: &str) -> Result<Self> {
        let address = url.strip_prefix("nats://").context("no nats:// address")?;
        let writer = TcpStream::connect(address).with_context(|| address.to_owned())?;
        writer.set_read_timeout(Some(WAIT))?;
        let mut operator = Self { reader: BufReader::new(writer.try_clone()?), writer };
        operator.say(&format!("CONNECT {{\"verbose\":false}}\r\nSUB {INBOX} 1\r\n"))?;
        Ok(operator)
    }

    fn say(&mut self, text: &str) -> Result<()> {
        Ok(self.writer.write_all(text.as_bytes())?)
    }

    /// Asks `$JS.API.<question>` and reads the answer.
    ///
    /// # Errors
    /// When there is no answer, or it is an error.
    pub fn ask(&mut self, question: &str, body: &Value) -> Result<Value> {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let length = body.len();
        self.say(&format!("PUB $JS.API.{question} {INBOX} {length}\r\n{body}\r\n"))?;
        let answer = self.heard()?;
        if !answer["error"].is_null() {
            bail!("{question}: {}", answer["error"]);
        }
        Ok(answer)
    }

    fn heard(&mut self) -> Result<Value> {
        loop {
            let mut line = String::new();
            anyhow::ensure!(self.reader.read_line(&mut line)? > 0, "the broker hung up");
            let words: Vec<&str> = line.split_whitespace().collect();
            match words.as_slice() {
                ["MSG", .., length] => {
                    let mut payload = vec![0; length.parse::<usize>()? + 2];
                    self.reader.read_exact(&mut payload)?;
                    return Ok(serde_json::from_slice(&payload)?);
                }
                ["PING"] => self.say("PONG\r\n")?,
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
        Ok(self.ask(&format!("STREAM.INFO.{stream}"), &Value::Null)?["config"].take())
    }

    /// Bytes that a stream keeps.
    ///
    /// # Errors
    /// When there is none.
    pub fn bytes(&mut self, stream: &str) -> Result<u64> {
        let info = self.ask(&format!("STREAM.INFO.{stream}"), &Value::Null)?;
        info["state"]["bytes"].as_u64().context("no bytes")
    }

    /// Deletes a stream and makes it anew, empty.
    ///
    /// # Errors
    /// When the broker does not.
    pub fn make_anew(&mut self, stream: &str) -> Result<()> {
        let config = self.config(stream)?;
        self.ask(&format!("STREAM.DELETE.{stream}"), &Value::Null)?;
        self.ask(&format!("STREAM.CREATE.{stream}"), &config).map(drop)
    }

    /// Gives a stream other bounds: beyond `bytes_max` it takes nothing new, with `"new"`, or
    /// forgets its oldest, with `"old"`.
    ///
    /// # Errors
    /// When the broker does not.
    pub fn bound(&mut self, stream: &str, bytes_max: u64, discard: &str) -> Result<()> {
        let mut config = self.config(stream)?;
        config["max_bytes"] = json!(bytes_max);
        config["discard"] = json!(discard);
        self.ask(&format!("STREAM.UPDATE.{stream}"), &config).map(drop)
    }
}
