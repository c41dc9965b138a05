//! The leader's end for one group: takes the requests of its brokers, and sends the answers.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_nats::{Client, Message};
use futures_util::StreamExt as _;
use hakobu_core::error::Error;
use tokio::sync::{mpsc, watch};

use super::frame::{AnswerHeader, CallHeader, data_bytes, frame, read};
use super::kept_answers::KeptAnswers;
use super::link::NatsLink;
use super::offer_stream::SharedPlace;
use super::partial_calls::{PartialCalls, PieceOutcome};
use super::subjects;
use crate::bus::{CallSink, IncomingCall};
use crate::message::LeaderAnswer;
use crate::message_form::{MESSAGE_BYTES_MAX, encode};
use crate::names::{BrokerName, GroupName};

/// The maximum number of requests of a group that wait for the leader.
const WAITING_MAX: usize = 512;
/// The maximum number of bytes of these requests.
const WAITING_BYTES_MAX: usize = MESSAGE_BYTES_MAX * 2;
const SWEEP_EVERY: Duration = Duration::from_secs(1);

/// The leader's end for a group.
pub(super) struct GroupTask {
    pub(super) group: GroupName,
    pub(super) link: Arc<NatsLink>,
    pub(super) sink: Arc<dyn CallSink>,
    pub(super) place: SharedPlace,
    partial: PartialCalls,
    kept: KeptAnswers,
    waiting: Arc<WaitingCalls>,
    last_answer: u64,
}

/// The requests that the leader has, and has not answered.
#[derive(Debug, Default)]
struct WaitingCalls {
    count: AtomicUsize,
    bytes: AtomicUsize,
}

/// One of them.
struct WaitingCall {
    of: Arc<WaitingCalls>,
    bytes: usize,
}

/// The place where an answer goes.
#[derive(Clone)]
struct ReplyPlace {
    broker: BrokerName,
    subject: async_nats::Subject,
}

/// An answer of the leader on its way to the task.
type SentAnswer = (ReplyPlace, Vec<u8>);

impl GroupTask {
    pub(super) fn new(
        group: GroupName,
        link: Arc<NatsLink>,
        sink: Arc<dyn CallSink>,
        place: SharedPlace,
    ) -> Self {
        let (partial, kept, waiting) = (PartialCalls::default(), KeptAnswers::default(), Arc::default());
        Self { group, link, sink, place, partial, kept, waiting, last_answer: 0 }
    }

    /// Answers while this control plane leads, until the bus ends. `seed` is a random number.
    pub(super) async fn run(mut self, seed: u64, mut leading: watch::Receiver<bool>) {
        self.last_answer = seed;
        let Some(client) = self.link.first_client().await else { return };
        loop {
            if leading.wait_for(|leads| *leads).await.is_err() {
                return;
            }
            if self.serve(&client, &mut leading).await.is_none() {
                return;
            }
        }
    }

    /// Serves until this control plane leads no more. Returns None if the bus or the connection has ended.
    async fn serve(&mut self, client: &Client, leading: &mut watch::Receiver<bool>) -> Option<()> {
        let mut calls = client.subscribe(subjects::calls(&self.group)).await.ok()?;
        // There are never more answers than requests that wait.
        let (put_answer, mut answers) = mpsc::unbounded_channel::<SentAnswer>();
        let mut sweep = tokio::time::interval(SWEEP_EVERY);
        sweep.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                changed = leading.changed() => {
                    changed.ok()?;
                    if !*leading.borrow_and_update() {
                        let _is_gone = calls.unsubscribe().await;
                        return Some(());
                    }
                }
                _ = sweep.tick() => {
                    self.partial.sweep();
                    self.kept.sweep();
                }
                answer = answers.recv() => {
                    let (place, bytes) = answer?;
                    self.answer(client, &place, bytes).await;
                }
                message = calls.next() => {
                    let message = message?;
                    if let Some(place) = self.reply_place(&message) {
                        self.take(client, &message.payload, place, &put_answer).await;
                    }
                }
            }
        }
    }

    /// Returns the place for the answer to a message, if it is one of the broker that asks. The server lets a broker name
    /// any place, and would carry the answer there with the rights of the control plane.
    fn reply_place(&self, message: &Message) -> Option<ReplyPlace> {
        let broker = subjects::caller(&message.subject)?;
        let subject = message.reply.clone()?;
        let own = subjects::replies(&self.group, &broker);
        let rest = subject.strip_prefix(own.as_str())?;
        let is_plain = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_alphanumeric());
        let is_own = rest.strip_prefix('.').is_some_and(|rest| rest.split('.').all(is_plain));
        is_own.then_some(ReplyPlace { broker, subject })
    }

    async fn take(
        &mut self,
        client: &Client,
        payload: &[u8],
        place: ReplyPlace,
        answers: &mpsc::UnboundedSender<SentAnswer>,
    ) {
        let (header, data) = match read::<CallHeader>(payload) {
            Ok(read) => read,
            Err(error) => return self.refuse(client, &place, error.to_string()).await,
        };
        match header {
            CallHeader::Whole => self.pass_on(client, data.to_vec(), place, answers).await,
            CallHeader::Piece { id, length, at } => {
                match self.partial.take(&place.broker, (id, length, at), data) {
                    PieceOutcome::Taken => send(client, &place, &AnswerHeader::Taken, &[]).await,
                    PieceOutcome::Again => send(client, &place, &AnswerHeader::Again, &[]).await,
                    PieceOutcome::Complete(bytes) => self.pass_on(client, bytes, place, answers).await,
                    PieceOutcome::TooMuch => {
                        let words = "too long requests, or too many of them at a time";
                        self.refuse(client, &place, words.to_owned()).await;
                    }
                }
            }
            CallHeader::Fetch { id, at } => {
                let piece = self.kept.piece(id, &place.broker, at, data_bytes(client.max_payload()));
                match piece {
                    Some(piece) => send(client, &place, &AnswerHeader::Piece, &piece).await,
                    None => send(client, &place, &AnswerHeader::Again, &[]).await,
                }
            }
            CallHeader::FindOffers => {
                let there = self.place.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clone();
                send(client, &place, &AnswerHeader::Offers(there), &[]).await;
            }
        }
    }

    /// Gives a request to the leader.
    async fn pass_on(
        &mut self,
        client: &Client,
        bytes: Vec<u8>,
        place: ReplyPlace,
        answers: &mpsc::UnboundedSender<SentAnswer>,
    ) {
        let Some(waiting) = WaitingCalls::add(&self.waiting, bytes.len()) else {
            return self
                .refuse(client, &place, "too many requests wait at the control plane".to_owned())
                .await;
        };
        let (answers, goes_to) = (answers.clone(), place.clone());
        let reply = Box::new(move |bytes| {
            drop(waiting);
            let _has_ended = answers.send((goes_to, bytes));
        });
        let broker = Some(place.broker.clone());
        if let Err(error) =
            self.sink.pass_on(IncomingCall { group: self.group.clone(), broker, bytes, reply })
        {
            self.refuse(client, &place, error.to_string()).await;
        }
    }

    async fn refuse(&mut self, client: &Client, place: &ReplyPlace, words: String) {
        if let Ok(bytes) = encode(&LeaderAnswer::Refused(words)) {
            self.answer(client, place, bytes).await;
        }
    }

    /// Sends an answer: what does not fit is kept, and fetched by the broker.
    async fn answer(&mut self, client: &Client, place: &ReplyPlace, bytes: Vec<u8>) {
        let most = data_bytes(client.max_payload());
        if bytes.len() <= most {
            return send(client, place, &AnswerHeader::Whole, &bytes).await;
        }
        self.last_answer = self.last_answer.wrapping_add(1);
        let (id, length) = (self.last_answer, bytes.len() as u64);
        send(client, place, &AnswerHeader::Begun { id, length }, &bytes[..most]).await;
        self.kept.keep(id, place.broker.clone(), bytes);
    }
}

impl WaitingCalls {
    /// Counts a request, unless too many wait.
    fn add(all: &Arc<Self>, bytes: usize) -> Option<WaitingCall> {
        // One task alone adds.
        let (count, sum) = (all.count.load(Ordering::Acquire), all.bytes.load(Ordering::Acquire));
        if count >= WAITING_MAX || sum.saturating_add(bytes) > WAITING_BYTES_MAX {
            return None;
        }
        all.count.fetch_add(1, Ordering::AcqRel);
        all.bytes.fetch_add(bytes, Ordering::AcqRel);
        Some(WaitingCall { of: all.clone(), bytes })
    }
}

impl Drop for WaitingCall {
    fn drop(&mut self) {
        self.of.count.fetch_sub(1, Ordering::AcqRel);
        self.of.bytes.fetch_sub(self.bytes, Ordering::AcqRel);
    }
}

/// Sends a frame. One that is lost is asked for again.
async fn send(client: &Client, place: &ReplyPlace, header: &AnswerHeader, data: &[u8]) {
    let bytes: Result<Vec<u8>, Error> = frame(header, data);
    if let Ok(bytes) = bytes {
        let _lost = client.publish(place.subject.clone(), bytes.into()).await;
    }
}
