//! The broker's side of the offers of its group: pulls when a slot waits, tells the server which ones are worked on, and
//! looks for the stream again when it is gone.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use async_nats::{Client, Message, Subject};
use futures_util::StreamExt as _;
use tokio::sync::mpsc;

use super::frame::{AnswerHeader, CallHeader, OfferPlace, frame, read};
use super::link::NatsLink;
use super::subjects;
use crate::bus::HeldOffer;
use crate::names::{BrokerName, GroupName};

/// The time between two signs that the offers are worked on.
const KEEP_EVERY: Duration = Duration::from_secs(3);
/// The pause between two questions where the offers are.
const FIND_EVERY: Duration = Duration::from_secs(1);
/// The time limit of such a question.
const FIND_LIMIT: Duration = Duration::from_secs(2);
/// The number of pulls without any answer after which the stream is looked for again.
const SILENT_MAX: u32 = 4;
/// The maximum length of an offer in bytes.
const OFFER_BYTES_MAX: usize = 64 << 10;

const DONE: &str = "+ACK";
const UNDER_WAY: &str = "+WPI";
/// Others get it after a second, so that an offer that nobody understands does not keep everybody busy.
const REFUSED: &str = "-NAK {\"delay\": 1000000000}";

/// The offers that have arrived, and the way to ask for more.
pub(super) struct WaitingOffers {
    arrived: Arc<ArrivedOffers>,
    asking: mpsc::UnboundedSender<OfferInput>,
}

#[derive(Default)]
struct ArrivedOffers {
    queue: Mutex<VecDeque<NatsOffer>>,
    signal: Condvar,
}

enum OfferInput {
    /// A slot waits for so long.
    Pull(Duration),
    Keep(Subject),
    End(Subject),
    Drop(Subject),
}

/// An offer that a broker holds.
struct NatsOffer {
    bytes: Vec<u8>,
    /// The place for the acknowledgement.
    place: Option<Subject>,
    telling: mpsc::UnboundedSender<OfferInput>,
}

/// The task that pulls.
pub(super) struct OfferTask {
    group: GroupName,
    broker: BrokerName,
    link: Arc<NatsLink>,
    arrived: Arc<ArrivedOffers>,
    inputs: mpsc::UnboundedReceiver<OfferInput>,
    telling: mpsc::UnboundedSender<OfferInput>,
    place: Option<OfferPlace>,
    found_at: Option<Instant>,
    silent: u32,
    held: HashMap<String, Subject>,
}

impl WaitingOffers {
    /// Returns the offers and the task that gets them.
    pub(super) fn new(group: GroupName, broker: BrokerName, link: Arc<NatsLink>) -> (Self, OfferTask) {
        let (asking, inputs) = mpsc::unbounded_channel();
        let arrived = Arc::<ArrivedOffers>::default();
        let task = OfferTask {
            group,
            broker,
            link,
            arrived: arrived.clone(),
            inputs,
            telling: asking.clone(),
            place: None,
            found_at: None,
            silent: 0,
            held: HashMap::new(),
        };
        (Self { arrived, asking }, task)
    }

    /// Waits for an offer for at most so long.
    pub(super) fn next(&self, limit: Duration) -> Option<Box<dyn HeldOffer>> {
        let ends = Instant::now() + limit;
        let mut queue = self.arrived.queue.lock().unwrap_or_else(PoisonError::into_inner);
        if queue.is_empty() {
            let _has_ended = self.asking.send(OfferInput::Pull(limit));
        }
        loop {
            if let Some(offer) = queue.pop_front() {
                return Some(Box::new(offer));
            }
            let left = ends.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return None;
            }
            let waited = self.arrived.signal.wait_timeout(queue, left);
            queue = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl OfferTask {
    /// Pulls until the bus ends.
    pub(super) async fn run(mut self) {
        let Some(client) = self.link.first_client().await else { return };
        let inbox = client.new_inbox();
        let Ok(mut messages) = client.subscribe(inbox.clone()).await else { return };
        let mut keep = tokio::time::interval(KEEP_EVERY);
        loop {
            tokio::select! {
                input = self.inputs.recv() => match input {
                    None => return,
                    Some(OfferInput::Pull(limit)) => self.pull(&client, &inbox, limit).await,
                    Some(OfferInput::Keep(place)) => tell(&client, place, UNDER_WAY).await,
                    Some(OfferInput::End(place)) => {
                        self.held.remove(place.as_str());
                        tell(&client, place, DONE).await;
                    }
                    Some(OfferInput::Drop(place)) => {
                        self.held.remove(place.as_str());
                        tell(&client, place, REFUSED).await;
                    }
                },
                _ = keep.tick() => {
                    if self.link.client().is_some() {
                        for place in self.held.values() {
                            tell(&client, place.clone(), UNDER_WAY).await;
                        }
                    }
                }
                message = messages.next() => match message {
                    None => return,
                    Some(message) => self.take(message),
                },
            }
        }
    }

    async fn pull(&mut self, client: &Client, inbox: &str, limit: Duration) {
        if self.link.client().is_none() {
            return;
        }
        if self.silent >= SILENT_MAX {
            self.place = None;
        }
        if self.place.is_none() && self.found_at.is_none_or(|at| at.elapsed() >= FIND_EVERY) {
            self.found_at = Some(Instant::now());
            self.place = self.find(client).await;
            self.silent = 0;
        }
        let Some(OfferPlace { stream, consumer }) = &self.place else { return };
        let subject = subjects::pull(stream, consumer);
        let request = format!("{{\"batch\":1,\"expires\":{}}}", limit.as_nanos());
        self.silent += 1;
        let _lost = client.publish_with_reply(subject, inbox.to_owned(), request.into()).await;
    }

    /// Asks the leader where the offers are.
    async fn find(&self, client: &Client) -> Option<OfferPlace> {
        let bytes = frame(&CallHeader::FindOffers, &[]).ok()?;
        let request = async_nats::Request::new().payload(bytes.into()).timeout(Some(FIND_LIMIT));
        let answer = client.send_request(subjects::call(&self.group, &self.broker), request).await.ok()?;
        match read::<AnswerHeader>(&answer.payload).ok()? {
            (AnswerHeader::Offers(place), _) => place.filter(OfferPlace::is_plain),
            _ => None,
        }
    }

    fn take(&mut self, message: Message) {
        self.silent = 0;
        if let Some(status) = message.status {
            let code = status.as_u16();
            // Nothing came in time (408), nothing is there (404), a sign of life (100). All else is the end of the consumer.
            if ![100, 404, 408].contains(&code) {
                self.place = None;
            }
            return;
        }
        if message.payload.len() > OFFER_BYTES_MAX {
            return;
        }
        let (bytes, telling) = (message.payload.to_vec(), self.telling.clone());
        if let Some(place) = &message.reply {
            self.held.insert(place.to_string(), place.clone());
        }
        let offer = NatsOffer { bytes, place: message.reply, telling };
        self.arrived.queue.lock().unwrap_or_else(PoisonError::into_inner).push_back(offer);
        self.arrived.signal.notify_one();
    }
}

impl HeldOffer for NatsOffer {
    fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    fn keep(&mut self) {
        if let Some(place) = &self.place {
            let _has_ended = self.telling.send(OfferInput::Keep(place.clone()));
        }
    }

    fn end(mut self: Box<Self>) {
        if let Some(place) = self.place.take() {
            let _has_ended = self.telling.send(OfferInput::End(place));
        }
    }
}

impl Drop for NatsOffer {
    fn drop(&mut self) {
        if let Some(place) = self.place.take() {
            let _has_ended = self.telling.send(OfferInput::Drop(place));
        }
    }
}

async fn tell(client: &Client, place: Subject, words: &'static str) {
    // One that is lost is repeated, or costs another broker a question.
    let _lost = client.publish(place, words.into()).await;
}
