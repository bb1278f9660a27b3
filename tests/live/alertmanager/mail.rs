//! Mail is Alertmanager's: the commented part of the shipped configuration sends it.

use std::net::SocketAddr;
use std::path::Path;

use plimsoll_tests::alertmanager::Alertmanager;
use plimsoll_tests::mail::{Mail, MailReceiver};
use plimsoll_tests::single_node::SingleNodeMesh;
use plimsoll_tests::statsd::StatsdSender;
use plimsoll_tests::webhook::WebhookReceiver;

use super::{BUDGETS, fed_until};

const EXAMPLE: &str = include_str!("../../../deploy/alertmanager/alertmanager.yml");
/// `\0alertmanager\0word`, as base64.
const LOGIN: &str = "AUTH PLAIN AGFsZXJ0bWFuYWdlcgB3b3Jk";

/// The shipped configuration with its comment about mail as a part of it, for this server.
fn with_mail(server: SocketAddr, password_file: &Path, webhook: &WebhookReceiver) -> String {
    let mut is_mail = false;
    let mut text = String::new();
    for line in EXAMPLE.lines() {
        let comment = line.strip_prefix("    # ");
        is_mail = comment.is_some_and(|comment| is_mail || comment == "email_configs:");
        text += &comment.filter(|_| is_mail).map_or(line.to_owned(), |of| format!("    {of}"));
        text.push('\n');
    }

    let replaced = [
        ("mail.example.org:587", format!("{server}\n        require_tls: false")),
        ("/etc/alertmanager/mail.password", password_file.display().to_string()),
        ("http://127.0.0.1:9095/plimsoll", webhook.url()),
        ("group_wait: 10s", "group_wait: 0s".to_owned()),
        ("group_interval: 1m", "group_interval: 1s".to_owned()),
    ];
    for (shipped, here) in replaced {
        assert!(text.contains(shipped), "{shipped} is not in the example");
        text = text.replace(shipped, &here);
    }
    text
}

#[tokio::test]
async fn the_shipped_example_sends_mail_when_an_alert_fires_and_when_it_ends() {
    let dir = tempfile::tempdir().unwrap();
    let password_file = dir.path().join("mail.password");
    std::fs::write(&password_file, "word").unwrap();
    let server = MailReceiver::start().await.unwrap();
    // A receiver that fails would hold up the next notification of its group.
    let webhook = WebhookReceiver::accepting().await.unwrap();
    let configuration = with_mail(server.address(), &password_file, &webhook);
    let alertmanager = Alertmanager::start_with(dir.path(), &configuration).await.unwrap();
    let url = alertmanager.api().url().to_owned();
    // The example sends mail of warnings.
    let budgets = BUDGETS.replacen("fire_after", "severity = 'warning'\nfire_after", 1);
    let settings = format!("{budgets}[[alertmanager]]\nurl = '{url}'\nresend_every = '1s'\n");
    let mut mesh = SingleNodeMesh::start_with(dir.path(), settings).await.unwrap();
    let sender = StatsdSender::unix(mesh.node.socket()).unwrap();

    // The first mail of a group may have one of its two alerts.
    let mail_of = async |status: &str, part: &str| -> Option<Mail> {
        let subject = format!("Subject: {status}: epoch_hook (warning) in local\r\n");
        let fits = |mail: &Mail| mail.text.contains(&subject) && mail.text.contains(part);
        server.mails().into_iter().find(fits)
    };
    let firing = fed_until(&sender, 30, "a mail of the node's alert", async || {
        mail_of("firing", "firing, node fed:\r\n").await
    });
    let firing = firing.await.unwrap();
    for command in ["RCPT TO:<latency@example.org>", LOGIN] {
        assert!(firing.commands.iter().any(|of| of == command), "{firing:?}");
    }
    for part in ["From: alertmanager@example.org", "end-of-epoch hook"] {
        assert!(firing.text.contains(part), "{part}: {}", firing.text);
    }

    let ended = fed_until(&sender, 2, "a mail of its end", async || {
        mail_of("resolved", "resolved, ").await
    });
    assert!(!ended.await.unwrap().text.contains("firing, "));
    mesh.drain_node().await.unwrap();
    mesh.stack.end().await.unwrap();
}
