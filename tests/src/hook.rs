//! A little receiver of webhooks: keeps every JSON body that is posted to it, and answers as it
//! was told to.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Result;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// What it takes for granted about the head of a request.
const HEAD_END: &[u8] = b"\r\n\r\n";

/// Ended when dropped.
pub struct Hook {
    address: SocketAddr,
    bodies: Arc<Mutex<Vec<Value>>>,
    server: JoinHandle<()>,
}

impl Hook {
    /// One that answers every post with these bytes; with none it never answers.
    ///
    /// # Errors
    /// When the system has no port.
    pub async fn start(answer: &'static str) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let bodies = Arc::<Mutex<Vec<Value>>>::default();
        let kept = Arc::clone(&bodies);
        let server = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let kept = Arc::clone(&kept);
                // Ends with its connection, and that with whoever posts.
                drop(tokio::spawn(async move { serve(stream, answer, &kept).await }));
            }
        });
        Ok(Self { address, bodies, server })
    }

    /// One that takes everything.
    ///
    /// # Errors
    /// When the system has no port.
    pub async fn taking() -> Result<Self> {
        Self::start("HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n").await
    }

    /// Where it is.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// All bodies so far.
    #[must_use]
    pub fn bodies(&self) -> Vec<Value> {
        self.bodies.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for Hook {
    fn drop(&mut self) {
        self.server.abort();
    }
}

async fn serve(mut stream: TcpStream, answer: &str, kept: &Mutex<Vec<Value>>) -> Option<()> {
    let mut request = Vec::new();
    let body = loop {
        if stream.read_buf(&mut request).await.ok()? == 0 {
            return None;
        }
        if let Some(body) = body_of(&request) {
            break body;
        }
    };
    kept.lock().unwrap_or_else(PoisonError::into_inner).push(body);
    if answer.is_empty() {
        // Until the other side has had enough.
        while stream.read_buf(&mut request).await.ok()? > 0 {}
    }
    stream.write_all(answer.as_bytes()).await.ok()?;
    stream.shutdown().await.ok()
}

/// The body, once it is there as a whole.
fn body_of(request: &[u8]) -> Option<Value> {
    let end = request.windows(HEAD_END.len()).position(|bytes| bytes == HEAD_END)?;
    serde_json::from_slice(&request[end + HEAD_END.len()..]).ok()
}
