//! The sockets that jobs send samples to: datagrams, frames of Rust clients, OTLP.
//!
//! Owns the sockets and passes what they bring to the core. Reads a bounded amount per turn.
//! Answers to frames and OTLP wait here until the core has noted what they answer.
//!
//! DESIGN N43.

use std::future::poll_fn;
use std::net::SocketAddr;
use std::pin::pin;
use std::task::Poll;

use plimsoll_runtime::http::Protection;
use plimsoll_runtime::supervision::Supervisor;
use plimsoll_schemas::time::Now;

use super::start::StartError;
use crate::config::Config;
use crate::core::Core;
use crate::core::departure::SocketPoll;
use crate::core::intake::RejectedInput;
use crate::io::cost::{Cost, Stage};
use crate::io::frames::{FrameAnswer, Frames, SentFrame};
use crate::io::http::InputStats;
use crate::io::listen::Sockets;
use crate::io::otlp::{OtlpServers, RecordedBody};

pub(super) struct Inputs {
    sockets: Sockets,
    frames: Frames,
    otlp: OtlpServers,
    /// Answers wait for too long, so nothing that is answered is recorded.
    are_answers_overdue: bool,
}

impl Inputs {
    pub(super) async fn open(config: &Config, supervisor: &Supervisor) -> Result<Self, StartError> {
        let listen = &config.listen;
        let access = listen.access().map_err(|error| StartError::configuration(&error))?;
        let sockets = Sockets::open(listen.udp, listen.unix.as_deref(), &access);
        let frames = Frames::listen(listen.stream.as_deref(), &access);
        let hosts = Protection::of_hosts(config.http.hosts.clone());
        let otlp = OtlpServers::open(&config.otlp, &hosts, supervisor).await;
        Ok(Self {
            sockets: sockets.map_err(|error| StartError::listen(&error))?,
            frames: frames.map_err(|error| StartError::listen(&error))?,
            otlp: otlp.map_err(|error| StartError::listen(&error))?,
            are_answers_overdue: false,
        })
    }

    /// Waits until one of the sockets is readable. Cancel safe.
    pub(super) async fn readable(&mut self) {
        let (mut frames, mut sockets) =
            (pin!(self.frames.readable()), pin!(self.sockets.readable()));
        let mut otlp = pin!(self.otlp.readable());
        poll_fn(|context| {
            let is_ready = frames.as_mut().poll(context).is_ready()
                || sockets.as_mut().poll(context).is_ready()
                || otlp.as_mut().poll(context).is_ready();
            if is_ready { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }

    /// Reads all sockets, up to a bound, and returns what they brought. While answers are overdue,
    /// nothing more that is answered is recorded.
    pub(super) fn read(&mut self, core: &mut Core, cost: &mut Cost, now: Now) -> SocketPoll {
        // Before anything is read: a note may have become overdue since the last turn.
        self.check_answers(core, now);
        self.sockets.search_senders(core.is_searching_senders(now.mono));
        // Datagrams first: the kernel drops what their buffers have no room for, while frames and
        // bodies wait at their senders.
        let datagrams = self.sockets.take(cost, |event| core.on_socket_event(now, event));

        for RejectedInput { reason, count, example } in core.take_line_warnings() {
            tracing::warn!(
                reason,
                count,
                example,
                "lines rejected, with the newest; logged at doubling counts of each reason"
            );
        }

        for warning in core.take_unit_warnings() {
            tracing::warn!("unit is suspect (logged once per operation): {warning}");
        }

        let frames = self.frames.take(|read| match read {
            // Recorded first: the note must count what its answer states.
            Ok(SentFrame { frame, process }) => {
                if let Some(sender) = process {
                    core.on_frame_sender(now.mono, &frame, sender);
                }
                let seq = core.on_frame(now, frame);
                Some(FrameAnswer { seq, note: core.wait_for_note(now) })
            }
            Err(error) => {
                core.on_frame_rejected(error.reason());
                None
            }
        });

        self.frames.drain_ended().for_each(|reason| core.on_frame_rejected(reason));
        cost.end(Stage::Frames);

        let bodies =
            self.otlp.take(self.are_answers_overdue, |signal, encoding, body| RecordedBody {
                outcome: core.on_otlp(now, signal, encoding, body),
                note: core.wait_for_note(now),
            });

        for warning in core.take_otlp_warnings() {
            tracing::warn!("OTLP data rejected (logged once per reason): {warning}");
        }
        cost.end(Stage::Otlp);
        datagrams + frames + bodies
    }

    /// Sends the answers that may leave, and stops or resumes reading frames.
    pub(super) fn answer(&mut self, core: &Core, now: Now) {
        let noted = core.noted();
        self.frames.answer(noted);
        self.otlp.answer(noted);
        self.check_answers(core, now);
    }

    fn check_answers(&mut self, core: &Core, now: Now) {
        let are_answers_overdue = core.are_answers_overdue(now);
        match (self.are_answers_overdue, are_answers_overdue) {
            (false, true) => tracing::warn!(
                "the spool needs more than a second to write a note; OTLP is refused and frames \
                 stay unread until it is written: check the disk of spool.path"
            ),
            (true, false) => tracing::info!("spool writes notes in time again"),
            (true, true) | (false, false) => {}
        }
        self.are_answers_overdue = are_answers_overdue;
        self.frames.pause(are_answers_overdue);
    }

    /// Whether the last [`Self::read`] left nothing behind.
    pub(super) fn is_empty(&self) -> bool {
        self.sockets.is_empty() && self.frames.is_empty() && self.otlp.is_empty()
    }

    /// The next [`Self::read`] takes what has come so far, also from a socket that rests.
    pub(super) fn cut_rests_short(&mut self) {
        self.sockets.cut_rests_short();
    }

    /// Refuses new requests and reads the rest without delay.
    pub(super) fn leave(&mut self) {
        self.sockets.end_rests();
        self.otlp.leave();
    }

    /// Whether OTLP requests are in progress, or answers wait.
    pub(super) fn is_awaited(&self) -> bool {
        self.otlp.is_awaited() || self.frames.is_awaited()
    }

    pub(super) fn stats(&self) -> InputStats {
        InputStats {
            dropped: self.sockets.dropped(),
            clients: self.frames.clients(),
            otlp: self.otlp.stats(),
        }
    }

    /// Logs the bound addresses of all inputs, and that of the `http` pages.
    pub(super) fn log_start(&self, http: Option<SocketAddr>) {
        let address = |address: Option<SocketAddr>| {
            address.map_or_else(|| "none".to_owned(), |address| address.to_string())
        };
        tracing::info!(
            udp = address(self.sockets.udp_address()),
            http = address(http),
            otlp_http = address(self.otlp.http_address()),
            otlp_grpc = address(self.otlp.grpc_address()),
            "node started"
        );
    }

    /// Closes the sockets; data that is still in them is lost. Answers that wait are still sent.
    pub(super) fn close(&mut self) {
        self.sockets.close();
        self.frames.close();
        self.otlp.close();
    }

    /// Sends the outstanding answers and closes the OTLP ports.
    pub(super) async fn end(self) {
        self.otlp.end().await;
    }
}
