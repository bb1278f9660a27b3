//! What the rules declare urgent, on real processes.

use std::cell::{Cell, RefCell};
use std::time::Duration;

use plimsoll_mesh::child::until;
use plimsoll_mesh::jetstream::JetStreamAdmin;
use plimsoll_tests::single_node::SingleNodeMesh;
use plimsoll_tests::statsd::StatsdSender;

use super::rules_file;

const WAIT: Duration = Duration::from_secs(40);

/// Messages with events in the stream of the emergency lane.
fn urgent_events(admin: &mut JetStreamAdmin) -> usize {
    let messages = admin.messages("PLIMSOLL_local_emergency").unwrap();
    messages.iter().filter(|message| message.subject.ends_with(".event")).count()
}

/// Waits until at least `count` events of this title are merged.
async fn await_events(mesh: &SingleNodeMesh, title: &str, count: usize) {
    let merged = until(title, WAIT, async || {
        let page = mesh.stack.api().get("/api/v1/events").await.ok()?;
        (page.matches(title).count() >= count).then_some(())
    });
    merged.await.unwrap();
}

#[tokio::test]
async fn an_event_that_the_rules_declare_critical_takes_the_emergency_stream_and_no_other_does() {
    let dir = tempfile::tempdir().unwrap();
    let rules = "[[priority]]\nname = 'fencing'\nevent = 'node fenced*'\n";
    let settings = rules_file(dir.path(), rules).unwrap();
    let mut mesh = SingleNodeMesh::start_with(dir.path(), settings).await.unwrap();
    let sender = StatsdSender::unix(mesh.node.socket()).unwrap();
    let admin = JetStreamAdmin::connect(&mesh.stack.broker().url()).unwrap();

    let (admin, sent) = (RefCell::new(admin), Cell::new(0));
    let urgent_events = || urgent_events(&mut admin.borrow_mut());
    let declared = until("a declared event takes the emergency stream", WAIT, async || {
        sender.send("_e{14,2}:node fenced: 7|by").ok()?;
        sent.set(sent.get() + 1);
        (urgent_events() > 0).then_some(())
    });
    declared.await.unwrap();
    await_events(&mesh, "node fenced", sent.get()).await;

    let before = urgent_events();
    sender.send("_e{12,2}:node drained|by").unwrap();
    await_events(&mesh, "node drained", 1).await;
    assert_eq!(urgent_events(), before);
    mesh.stack.end().await.unwrap();
}
