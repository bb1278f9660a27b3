//! A mail server that accepts and stores every message: as much of SMTP as Alertmanager speaks,
//! without TLS.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Result;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufStream};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// A running mail server; it stops when dropped.
pub struct MailReceiver {
    address: SocketAddr,
    mails: Arc<Mutex<Vec<Mail>>>,
    server: JoinHandle<()>,
}

/// A message, and the commands that came before its text.
#[derive(Clone, Debug, Default)]
pub struct Mail {
    pub commands: Vec<String>,
    /// Head and body, without the line breaks and escapes of quoted-printable text.
    pub text: String,
}

impl MailReceiver {
    /// Starts a server.
    ///
    /// # Errors
    /// When no port is free.
    pub async fn start() -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let mails = Arc::<Mutex<Vec<Mail>>>::default();
        let kept = Arc::clone(&mails);
        let server = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let kept = Arc::clone(&kept);
                // Ends with its connection, which the client closes.
                drop(tokio::spawn(async move { serve(stream, &kept).await }));
            }
        });
        Ok(Self { address, mails, server })
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// All messages so far.
    pub fn mails(&self) -> Vec<Mail> {
        self.mails.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for MailReceiver {
    fn drop(&mut self) {
        self.server.abort();
    }
}

async fn serve(stream: TcpStream, kept: &Mutex<Vec<Mail>>) -> Option<()> {
    let mut stream = BufStream::new(stream);
    let mut mail = Mail::default();
    send(&mut stream, "220 test").await?;

    loop {
        let line = line(&mut stream).await?;
        let verb = line.split_whitespace().next().unwrap_or_default().to_ascii_uppercase();
        mail.commands.push(line.trim_end().to_owned());
        let answer = match verb.as_str() {
            "EHLO" => "250-test\r\n250 AUTH PLAIN",
            "AUTH" => "235 accepted",
            "DATA" => {
                send(&mut stream, "354 end with a dot").await?;
                mail.text = text(&mut stream).await?;
                let mail = std::mem::take(&mut mail);
                kept.lock().unwrap_or_else(PoisonError::into_inner).push(mail);
                "250 stored"
            }
            "QUIT" => "221 closed",
            _ => "250 done",
        };
        send(&mut stream, answer).await?;
    }
}

/// The text of a message, up to the line with a dot alone.
async fn text(stream: &mut BufStream<TcpStream>) -> Option<String> {
    let mut text = String::new();
    loop {
        match line(stream).await?.as_str() {
            ".\r\n" => return Some(text.replace("=\r\n", "").replace("=3D", "=")),
            line => text += line,
        }
    }
}

/// The next line; `None` at the end.
async fn line(stream: &mut BufStream<TcpStream>) -> Option<String> {
    let mut line = String::new();
    let read = stream.read_line(&mut line).await.ok()?;
    (read > 0).then_some(line)
}

async fn send(stream: &mut BufStream<TcpStream>, answer: &str) -> Option<()> {
    stream.write_all(format!("{answer}\r\n").as_bytes()).await.ok()?;
    stream.flush().await.ok()
}
