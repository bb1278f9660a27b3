//! A receiver of webhooks that stores every posted JSON body and sends a fixed response.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Result;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// Ends the head of a request.
const HEAD_END: &[u8] = b"\r\n\r\n";

/// A running receiver; it stops when dropped.
pub struct WebhookReceiver {
    address: SocketAddr,
    bodies: Arc<Mutex<Vec<Value>>>,
    server: JoinHandle<()>,
}

impl WebhookReceiver {
    /// Starts a receiver that responds to every post with these bytes. It never responds if there
    /// are none.
    ///
    /// # Errors
    /// When no port is free.
    pub async fn start(answer: &'static str) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let bodies = Arc::<Mutex<Vec<Value>>>::default();
        let kept = Arc::clone(&bodies);
        let server = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let kept = Arc::clone(&kept);
                // Ends with its connection, which the client closes.
                drop(tokio::spawn(async move { serve(stream, answer, &kept).await }));
            }
        });
        Ok(Self { address, bodies, server })
    }

    /// Starts a receiver that accepts every post.
    ///
    /// # Errors
    /// When no port is free.
    pub async fn accepting() -> Result<Self> {
        Self::start("HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n").await
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// All bodies so far.
    pub fn bodies(&self) -> Vec<Value> {
        self.bodies.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for WebhookReceiver {
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
        // Until the client closes the connection.
        while stream.read_buf(&mut request).await.ok()? > 0 {}
    }
    stream.write_all(answer.as_bytes()).await.ok()?;
    stream.shutdown().await.ok()
}

/// The body, when all of it has arrived.
fn body_of(request: &[u8]) -> Option<Value> {
    let end = request.windows(HEAD_END.len()).position(|bytes| bytes == HEAD_END)?;
    serde_json::from_slice(&request[end + HEAD_END.len()..]).ok()
}
