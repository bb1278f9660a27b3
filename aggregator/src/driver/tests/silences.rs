//! Silences and acknowledgements over HTTP, up to what a pager and an Alertmanager receive.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use serde_json::Value;
use tokio::net::TcpListener;

use super::alerts::{ACKNOWLEDGE, SECRET, firing_with, send};
use super::*;
use crate::core::tests::{MS, Speaker, deliver};

const PAGER: &str = "pagerduty";

/// A receiver: the bodies that it got, by path.
#[derive(Clone, Default)]
struct PostLog(Arc<Mutex<Vec<(String, Value)>>>);

impl PostLog {
    async fn listen(&self) -> std::net::SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (address, receiver) = (listener.local_addr().unwrap(), self.clone());
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(receiver.clone().serve(stream));
            }
        });
        address
    }

    async fn serve(self, mut stream: TcpStream) {
        let (mut request, mut more) = (Vec::new(), [0; 16 * 1024]);
        let (path, body) = loop {
            let read = stream.read(&mut more).await.unwrap();
            request.extend_from_slice(&more[..read]);
            let text = String::from_utf8_lossy(&request);
            let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
            if let Ok(body) = serde_json::from_str::<Value>(body) {
                break (head.split(' ').nth(1).unwrap().to_owned(), body);
            }
            assert!(read > 0, "no whole request: {text}");
        };
        self.0.lock().unwrap().push((path, body));
        let answer = b"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
        stream.write_all(answer).await.unwrap();
    }

    /// What the pager got about the fleet's or a node's alert, in order.
    fn paged(&self, node: &str) -> Vec<String> {
        let key = format!(
            "epoch_hook/{}/{node}/epoch_hook",
            if node.is_empty() { "fleet" } else { "node" }
        );
        let receiver = self.0.lock().unwrap();
        let of = receiver.iter().filter(|(path, body)| {
            path == "/pager" && body["dedup_key"].as_str().unwrap().ends_with(&key)
        });
        of.map(|(_, body)| body["event_action"].as_str().unwrap().to_owned()).collect()
    }

    /// The nodes whose firing alerts an Alertmanager got, and how often; the fleet is "".
    fn posted(&self) -> BTreeMap<String, usize> {
        let mut nodes = BTreeMap::new();
        for (_, alerts) in self.0.lock().unwrap().iter().filter(|(path, _)| path != "/pager") {
            for alert in alerts.as_array().unwrap() {
                let node = alert["labels"]["node"].as_str().unwrap_or_default();
                *nodes.entry(node.to_owned()).or_default() += 1;
            }
        }
        nodes
    }
}

#[tokio::test]
async fn silences_and_acknowledgements_over_http_reach_receivers() {
    let receiver = PostLog::default();
    let (address, dir) = (receiver.listen().await, tempfile::tempdir().unwrap());
    let (key, config) = (dir.path().join("key"), dir.path().join("aggregator.toml"));
    std::fs::write(&key, "routing").unwrap();
    let settings = format!(
        "[[webhook]]\nname = 'pager'\nurl = 'http://{address}/pager'\ntemplate = '{PAGER}'\n\
         routing_key_file = '{}'\n[[alertmanager]]\nurl = 'http://{address}'\n\
         resend_every = '1s'\n",
        key.display()
    );
    std::fs::write(&config, settings).unwrap();
    let mut driver = firing_with(Some(SECRET), Some(config)).await;
    let bearer = format!("Bearer {SECRET}");
    let paged = |node: &'static str, expected: &'static [&'static str]| {
        let receiver = receiver.clone();
        move |_: &Driver| receiver.paged(node) == expected
    };
    turns_until(&mut driver, paged("a", &["trigger"])).await;
    turns_until(&mut driver, paged("", &["trigger"])).await;

    // The acknowledgement is sent, and its removal too.
    let post = ("POST /api/v1/alerts/acknowledge", bearer.as_str(), ACKNOWLEDGE);
    assert_eq!(send(&mut driver, &[post]).await[0].0, 201);
    turns_until(&mut driver, paged("", &["trigger", "acknowledge"])).await;
    let path = "DELETE /api/v1/alerts/acknowledge?rule=epoch_hook&operation=epoch_hook";
    assert_eq!(send(&mut driver, &[(path, bearer.as_str(), "")]).await[0].0, 204);
    turns_until(&mut driver, paged("", &["trigger", "acknowledge", "trigger"])).await;

    // One alert was sent before the silence; the other begins to fire during it.
    let body = r#"{"match":{"rule":"epoch_*"},"by":"ann","for":"1h"}"#;
    let post = ("POST /api/v1/silences", bearer.as_str(), body);
    assert_eq!(send(&mut driver, &[post]).await[0].0, 201);
    let now = driver.clock.now();
    deliver(&mut driver.core, now, &Speaker::new("b").send(now, 30 * MS, 200));
    let before = receiver.posted()["a"];
    let again = receiver.clone();
    turns_until(&mut driver, |driver| {
        let page = driver.core.alerts_page(driver.clock.now().wall, &Default::default());
        page.alerts.len() == 3 && again.posted()["a"] > before + 1
    })
    .await;
    assert_eq!((receiver.paged("b"), receiver.posted().get("b")), (vec![], None));
    assert_eq!(
        send(&mut driver, &[("DELETE /api/v1/silences/1", bearer.as_str(), "")]).await[0].0,
        204
    );
    turns_until(&mut driver, paged("b", &["trigger"])).await;
    let silenced = receiver.clone();
    turns_until(&mut driver, |_| silenced.posted().contains_key("b")).await;
    assert_eq!(receiver.paged("a"), ["trigger"]);
}
