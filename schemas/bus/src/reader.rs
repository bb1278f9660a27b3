//! The task behind a cursor: opens a consumer at its position, pulls, and opens it again at the
//! message after the last one delivered whenever anything is out of order.
//!
//! DESIGN S24, S33, S71, S72.

use std::future::ready;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::limits::{APART_AHEAD, APART_FOR, LOSSES_MAX, PULL_REST, STREAM_USE_EVERY};
use async_nats::header::HeaderMap;
use async_nats::{Client, Message};
use futures_util::{StreamExt, TryStreamExt, stream};
use plimsoll_clock::Stopwatch;
use plimsoll_schemas::remote_text::one_line;
use plimsoll_schemas::subject::Lane;
use plimsoll_schemas::time::Wall;
use plimsoll_schemas::transport::{Delivered, Delivery};
use plimsoll_schemas::wire::SENT_HEADER;
use tokio::sync::{Notify, mpsc, watch};
use tokio::time::sleep;

use crate::api::{ApiError, code};
use crate::backoff;
use crate::consumer::{self, Consumer, Interruption};
use crate::cursor_event::{CursorEvent, StartPosition};
use crate::direct_get::{self, StoredMessage};
use crate::lag::Lag;
use crate::lanes::Lanes;
use crate::link::Link;
use crate::pull::{PullSize, PullStatus, StreamPosition};
use crate::streams::{self, Extent, StreamInfo};

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// It is used up, and there may be more.
    More,
    /// It brought all that there was.
    Drained,
    /// The next message is larger than the bytes that were requested.
    TooLarge,
}

/// Reports how full a stream is when that changes; a stream just opened counts as empty. One that
/// cannot be looked up is not reported: the reader finds out why. Keeps in `due` the newest message
/// that the stream had at the look before the latest; 0 if it was another stream, or empty.
async fn watch_stream(
    client: Client,
    stream: String,
    due: Arc<AtomicU64>,
    out: mpsc::Sender<CursorEvent>,
) -> std::convert::Infallible {
    let mut reported = 0.0;
    let mut before = None;

    loop {
        sleep(STREAM_USE_EVERY).await;
        let Ok(info) = streams::look(&client, &stream).await else { continue };
        let ratio = info.used_ratio();
        let now = (info.created, info.state.newest());
        let (created, newest) = before.replace(now.clone()).unwrap_or_default();
        due.store(if created == now.0 { newest } else { 0 }, Ordering::Relaxed);

        if ratio.total_cmp(&reported).is_ne() {
            reported = ratio;
            // A reader that is gone ends with the cursor's task.
            let _ = out.send(CursorEvent::Used { ratio }).await;
        }
    }
}

pub(crate) struct StreamReader {
    client: Client,
    lanes: Lanes,
    link: watch::Receiver<Link>,
    missing: Arc<Notify>,
    lane: Lane,
    /// The position: the number of the message to deliver next.
    next_seq: u64,
    /// When the stream was created that the position is about.
    created: Option<String>,
    out: mpsc::Sender<CursorEvent>,
    /// Fruitless attempts in a row.
    attempts: u32,
    /// Connections lost in a row without a request answered to its end meanwhile.
    losses: u32,
    /// Number of a message that the stream has had for some seconds; 0 if none is known.
    due: Arc<AtomicU64>,
    lag: Lag,
    /// Consumers left because their server lacked messages.
    behind: u64,
}

impl StreamReader {
    pub(crate) fn new(
        client: Client,
        lanes: Lanes,
        link: watch::Receiver<Link>,
        missing: Arc<Notify>,
        lane: Lane,
        start: StartPosition,
        out: mpsc::Sender<CursorEvent>,
    ) -> Self {
        let (next_seq, created) = (start.seq.max(1), start.stream_id);
        Self {
            client,
            lanes,
            link,
            missing,
            lane,
            next_seq,
            created,
            out,
            attempts: 0,
            losses: 0,
            due: Arc::default(),
            lag: Lag::default(),
            behind: 0,
        }
    }

    /// Runs until the connection is closed or the cursor is dropped.
    pub(crate) async fn run(mut self) {
        let mut link = self.link.clone();
        loop {
            let Ok(now) = link.wait_for(|link| link.delivery.is_some()).await.map(|now| *now)
            else {
                return;
            };

            let has_streams = now.delivery == Some(Delivery::JetStream);

            let watched = watch_stream(
                self.client.clone(),
                self.lanes.stream(self.lane),
                Arc::clone(&self.due),
                self.out.clone(),
            );

            let interruption = tokio::select! {
                never = watched, if has_streams => match never {},
                changed = link.wait_for(|link| *link != now) => {
                    if changed.is_err() {
                        return;
                    }
                    // A header that the client cannot parse ends the connection each time that it
                    // is read (S27).
                    self.losses = self.losses.saturating_add(1);
                    continue;
                }
                interruption = self.read(now) => interruption,
            };

            if matches!(interruption, Interruption::ReaderGone) {
                return;
            }
            self.on_interruption(&interruption).await;
        }
    }

    async fn on_interruption(&mut self, interruption: &Interruption) {
        if let Interruption::Api(
            ApiError::Refused { code: code::STREAM_NOT_FOUND, .. }
            | ApiError::Absent
            | ApiError::Silent,
        ) = interruption
        {
            // A reader creates nothing itself: the follower of the connection reads again after a
            // rest, in which an operator may make a stream of their own (S26).
            self.missing.notify_one();
        }
        self.attempts = self.attempts.saturating_add(1);

        let (lane, next_seq) = (self.lane.as_str(), self.next_seq);
        tracing::debug!(lane, next_seq, attempts = self.attempts, %interruption, "reading resumed");
        sleep(backoff::pause(self.attempts)).await;
    }

    async fn read(&mut self, link: Link) -> Interruption {
        let outcome = match link.delivery {
            Some(Delivery::Core) => self.read_subject().await,
            Some(Delivery::JetStream) | None => self.read_stream().await,
        };
        match outcome {
            Ok(never) => match never {},
            Err(interruption) => interruption,
        }
    }

    async fn read_subject(&mut self) -> Result<std::convert::Infallible, Interruption> {
        let mut subscriber =
            consumer::subscribe(&self.client, self.lanes.filter(self.lane)).await?;
        let stream_id = String::new();
        self.send(CursorEvent::Positioned { first_seq: 0, last_seq: 0, stream_id }).await?;
        loop {
            let message = subscriber.next().await.ok_or(Interruption::ReaderGone)?;
            let position =
                StreamPosition { stream_seq: 0, consumer_seq: 0, stored: None, pending: 0 };
            self.send(self.delivered(message, position)).await?;
        }
    }

    async fn read_stream(&mut self) -> Result<std::convert::Infallible, Interruption> {
        let stream = self.lanes.stream(self.lane);
        let info = streams::look(&self.client, &stream).await?;
        self.take_position(info).await?;
        // Before a consumer, which would deliver again what ends the connection (S27).
        if self.losses >= LOSSES_MAX {
            self.read_apart(&stream).await?;
        }

        let mut consumer = Consumer::open(&self.client, &stream, self.next_seq).await?;
        self.confirm_stream(&stream).await?;
        let mut size = PullSize::Many;

        loop {
            consumer.request(&self.client, size).await?;
            let end = self.receive(&mut consumer, size.messages()).await?;
            // A request that was answered to its end shows that nothing before it ends the
            // connection.
            self.losses = 0;

            if end == End::Drained {
                self.compare_with_leader()?;
                sleep(PULL_REST).await;
            }

            size = if end == End::TooLarge { PullSize::One } else { PullSize::Many };
        }
    }

    /// Makes sure that a consumer that has nothing more has delivered what the stream has.
    fn compare_with_leader(&mut self) -> Result<(), Interruption> {
        if !self.lag.is_behind(self.next_seq, self.due.load(Ordering::Relaxed)) {
            return Ok(());
        }
        self.behind += 1;

        if self.behind.is_power_of_two() {
            let (lane, next_seq, count) = (self.lane.as_str(), self.next_seq, self.behind);
            tracing::warn!(
                lane,
                next_seq,
                count,
                "a server of the broker lacks messages of the stream; reading from another server"
            );
        }

        Err(Interruption::Behind)
    }

    /// Reads messages one by one for a while, since the headers of one may be what ends the
    /// connection each time that it is read.
    async fn read_apart(&mut self, stream: &str) -> Result<(), Interruption> {
        let (lane, next_seq) = (self.lane.as_str(), self.next_seq);
        tracing::warn!(lane, next_seq, "connection lost repeatedly; reading messages one by one");
        let begun = Stopwatch::start();

        while begun.elapsed() < APART_FOR {
            let StreamInfo { created, state, .. } = streams::look(&self.client, stream).await?;
            let Extent { first, last, .. } = state;
            // As with a consumer, numbers mean nothing in another stream (S9).
            if self.created != Some(created) || last.saturating_add(1) < self.next_seq {
                return Err(Interruption::Gap);
            }

            let client = self.client.clone();
            let numbers = self.next_seq.max(first)..=last;
            let found = stream::iter(numbers).map(|seq| direct_get::get(&client, stream, seq));
            let mut found =
                pin!(found.buffered(APART_AHEAD).try_filter_map(|found| ready(Ok(found))));
            while let Some(message) = found.try_next().await? {
                self.on_message_apart(message, last).await?;
            }
            // Numbers up to there without a message are of deleted ones.
            self.next_seq = self.next_seq.max(last.saturating_add(1));
            sleep(PULL_REST).await;
        }

        // Back to a consumer: one request for many messages costs the broker less than one for
        // each.
        self.losses = 0;
        Ok(())
    }

    async fn on_message_apart(
        &mut self,
        message: StoredMessage,
        last_seq: u64,
    ) -> Result<(), Interruption> {
        let StoredMessage { seq, subject, at, sent, payload, is_malformed, .. } = message;
        if is_malformed {
            tracing::warn!(seq, subject, "malformed headers end the connection that reads them");
        }
        let (lane, pending) = (self.lane, last_seq.saturating_sub(seq));
        let delivered = Delivered { lane, stream_seq: seq, sent, subject, payload, at, pending };
        self.send(CursorEvent::Message(delivered)).await?;
        self.next_seq = seq.saturating_add(1);
        Ok(())
    }

    /// Makes sure that our position means something in the stream that there is.
    async fn take_position(&mut self, info: StreamInfo) -> Result<(), Interruption> {
        let (first_seq, last_seq) = (info.state.first, info.state.last);
        let recreated = self.created.as_ref().is_some_and(|created| *created != info.created);
        // A stream that has less than was read of it has lost its messages, whatever its date.
        if recreated || last_seq.saturating_add(1) < self.next_seq {
            let expected_seq = self.next_seq;
            self.send(CursorEvent::Reset { expected_seq, last_seq }).await?;
            self.next_seq = 1;
        }
        // What was due may have been of another stream.
        self.due.store(0, Ordering::Relaxed);
        let stream_id = info.created;
        self.created = Some(stream_id.clone());
        self.send(CursorEvent::Positioned { first_seq, last_seq, stream_id }).await
    }

    /// Makes sure that the consumer just opened is one of the stream that our position is about. In
    /// a stream recreated meanwhile it would start behind all messages.
    async fn confirm_stream(&self, stream: &str) -> Result<(), Interruption> {
        let info = streams::look(&self.client, stream).await?;
        if self.created.as_ref() == Some(&info.created) { Ok(()) } else { Err(Interruption::Gap) }
    }

    /// Takes in what one request brings, at most this many messages.
    async fn receive(
        &mut self,
        consumer: &mut Consumer,
        messages: usize,
    ) -> Result<End, Interruption> {
        let mut taken = 0;
        while taken < messages {
            let message = consumer.next().await?;
            let Some(status) = message.status else {
                self.on_message(consumer, message).await?;
                taken += 1;
                continue;
            };

            let this_request = consumer.is_latest_request(&message);
            let description = message.description.unwrap_or_default();

            match PullStatus::parse(status.as_u16(), &description) {
                PullStatus::Gone => {
                    let text = one_line(&format!("{description} ({})", status.as_u16()));
                    return Err(Interruption::Gone(text));
                }
                PullStatus::Finished if this_request => return Ok(End::Drained),
                PullStatus::TooLarge if this_request && taken == 0 => return Ok(End::TooLarge),
                PullStatus::TooLarge if this_request => return Ok(End::More),
                PullStatus::Alive | PullStatus::Finished | PullStatus::TooLarge => {
                    self.attempts = 0;
                }
            }
        }

        Ok(End::More)
    }

    async fn on_message(
        &mut self,
        consumer: &mut Consumer,
        message: Message,
    ) -> Result<(), Interruption> {
        let position =
            message.reply.as_deref().and_then(StreamPosition::parse).ok_or(Interruption::Gap)?;
        // The client drops messages silently when its buffer is full: only a missing number shows
        // it.
        if position.consumer_seq != consumer.last_seq + 1 || position.stream_seq < self.next_seq {
            return Err(Interruption::Gap);
        }

        consumer.last_seq = position.consumer_seq;
        let event = self.delivered(message, position);
        // The position moves together with the delivery, so being cancelled here costs nothing.
        self.send(event).await?;
        self.next_seq = position.stream_seq.saturating_add(1);
        self.attempts = 0;
        Ok(())
    }

    fn delivered(&self, message: Message, position: StreamPosition) -> CursorEvent {
        CursorEvent::Message(Delivered {
            lane: self.lane,
            stream_seq: position.stream_seq,
            sent: sent_at(message.headers.as_ref()),
            subject: message.subject.to_string(),
            payload: message.payload,
            at: position.stored,
            pending: position.pending,
        })
    }

    async fn send(&self, event: CursorEvent) -> Result<(), Interruption> {
        self.out.send(event).await.map_err(|_| Interruption::ReaderGone)
    }
}

/// When the sender sent a message, from its header.
fn sent_at(headers: Option<&HeaderMap>) -> Option<Wall> {
    headers?.get(SENT_HEADER)?.as_str().parse().ok().map(Wall)
}
