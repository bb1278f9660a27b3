//! A publish that a stream takes only after the message that its sender expects.

use plimsoll_bus::{Bus, ConditionalError, ConditionalMessage, Refusal};
use serde_json::Value;

use crate::broker::Broker;
use crate::streams::request;
use crate::talk::{Talk, soon};

const STREAM: &str = "PLIMSOLL_m_normal";
const SUBJECT: &str = "plimsoll.v1.m.normal.shard-0.shard";

fn message(id: &str) -> ConditionalMessage {
    ConditionalMessage {
        subject: SUBJECT.to_owned(),
        message_id: id.to_owned(),
        headers: vec![("Plimsoll-Test", id.to_owned())],
        payload: format!("payload {id}").into(),
    }
}

async fn publish(bus: &Bus, id: &str, after: u64) -> Result<u64, ConditionalError> {
    soon(bus.messenger().publish_after(message(id), after)).await
}

#[tokio::test]
async fn a_message_is_taken_only_after_the_one_that_its_sender_has_seen() {
    let broker = Broker::with_streams().await;
    let talk = Talk::connected(broker.url()).await;
    let bus = &talk.bus;
    assert_eq!(bus.messenger().newest(STREAM, SUBJECT).await, Ok(None));
    assert_eq!(publish(bus, "a", 1).await, Err(ConditionalError::Overtaken));
    assert_eq!(publish(bus, "a", 0).await, Ok(1));
    assert_eq!(publish(bus, "b", 0).await, Err(ConditionalError::Overtaken));
    // Messages of other subjects count for the stream's numbers and for nothing else.
    let other = ConditionalMessage { subject: SUBJECT.replace('0', "1"), ..message("c") };
    assert_eq!(soon(bus.messenger().publish_after(other, 0)).await, Ok(2));
    assert_eq!(publish(bus, "b", 1).await, Ok(3));
    let newest = bus.messenger().newest(STREAM, SUBJECT).await.unwrap().unwrap();
    assert_eq!((newest.seq, newest.message_id.as_deref()), (3, Some("b")));
    assert_eq!((&newest.payload[..], newest.at.is_some()), (&b"payload b"[..], true));
    let first = async |seq| bus.messenger().first_from(STREAM, SUBJECT, seq).await.unwrap();
    for (seq, id) in [(0, "a"), (1, "a"), (2, "b"), (3, "b")] {
        assert_eq!(first(seq).await.unwrap().message_id.as_deref(), Some(id));
    }
    assert_eq!(first(4).await, None);
    let error = bus.messenger().newest("PLIMSOLL_none", SUBJECT).await.unwrap_err();
    assert!(error.contains("stream not found"), "{error}");
}

/// Some versions of the broker recognise a duplicate only after they have compared the number.
#[tokio::test]
async fn a_message_that_was_taken_is_no_conflict_with_itself() {
    let broker = Broker::with_streams().await;
    let talk = Talk::connected(broker.url()).await;
    assert_eq!(publish(&talk.bus, "a", 0).await, Ok(1));
    assert_eq!(publish(&talk.bus, "a", 0).await, Ok(1));
    assert_eq!(publish(&talk.bus, "b", 1).await, Ok(2));
    assert_eq!(publish(&talk.bus, "b", 1).await, Ok(2));
    // A rejected one is not remembered.
    assert_eq!(publish(&talk.bus, "c", 1).await, Err(ConditionalError::Overtaken));
    assert_eq!(publish(&talk.bus, "c", 2).await, Ok(3));
}

#[tokio::test]
async fn a_subject_whose_messages_are_gone_has_none_to_come_after() {
    let broker = Broker::with_streams().await;
    let talk = Talk::connected(broker.url()).await;
    assert_eq!(publish(&talk.bus, "a", 0).await, Ok(1));
    let config = request(&broker.url(), &format!("STREAM.INFO.{STREAM}"), Value::Null).await;
    let mut config = config["config"].clone();
    let other = ConditionalMessage { subject: SUBJECT.replace('0', "1"), ..message("b") };
    assert_eq!(soon(talk.bus.messenger().publish_after(other, 0)).await, Ok(2));
    config["max_msgs"] = 1.into();
    let updated = request(&broker.url(), &format!("STREAM.UPDATE.{STREAM}"), config).await;
    assert_eq!(updated["error"], Value::Null, "{updated}");
    assert_eq!(talk.bus.messenger().newest(STREAM, SUBJECT).await, Ok(None));
    assert_eq!(publish(&talk.bus, "c", 1).await, Err(ConditionalError::Overtaken));
    assert_eq!(publish(&talk.bus, "c", 0).await, Ok(3));
}

#[tokio::test]
async fn without_an_answer_it_is_not_known_whether_it_was_taken() {
    let mut broker = Broker::with_streams().await;
    let talk = Talk::connected(broker.url()).await;
    broker.pause().await;
    assert_eq!(publish(&talk.bus, "a", 0).await, Err(ConditionalError::Silent));
    broker.kill();
    assert_eq!(publish(&talk.bus, "a", 0).await, Err(ConditionalError::Silent));
    broker.restart();
    let sent_again = async {
        loop {
            match publish(&talk.bus, "a", 0).await {
                // The connection is not up yet.
                Err(ConditionalError::Silent) => {}
                outcome => return outcome,
            }
        }
    };
    assert_eq!(soon(sent_again).await, Ok(1));
    let nowhere = ConditionalMessage { subject: "plimsoll.v1.m.x".to_owned(), ..message("d") };
    let refused = soon(talk.bus.messenger().publish_after(nowhere, 0)).await;
    assert_eq!(refused, Err(ConditionalError::Refused(Refusal::NoResponders)));
}
