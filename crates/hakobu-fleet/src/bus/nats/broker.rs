//! A broker's end of the bus between machines.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use async_nats::client::RequestErrorKind;
use async_nats::{Client, Request};
use hakobu_core::error::{Error, ErrorKind, Result};
use tokio::runtime::Runtime;

use super::broker_offers::WaitingOffers;
use super::connecting::{LinkForm, connect};
use super::frame::{AnswerHeader, CallHeader, data_bytes, frame, read};
use super::link::{LinkObserver, NatsLink, NatsState};
use super::settings::NatsSettings;
use super::{CALLING, lost, random_number, runtime, subjects};
use crate::bus::{BrokerBus, HeldOffer};
use crate::message_form::MESSAGE_BYTES_MAX;
use crate::names::{BrokerName, GroupName};

/// The maximum number of messages that wait to be read in a subscription.
const MESSAGES_MAX: usize = 1024;
/// The number of times that a request in pieces is begun again.
const AGAIN_MAX: u32 = 3;
/// The time in which messages that are on their way are sent at the end.
const END_LIMIT: Duration = Duration::from_secs(1);

/// A broker's end.
pub struct NatsBrokerBus {
    /// Taken at the end.
    runtime: Option<Runtime>,
    group: GroupName,
    subject: String,
    link: Arc<NatsLink>,
    offers: WaitingOffers,
    last_call: AtomicU64,
    answered: Mutex<Option<Instant>>,
}

impl NatsBrokerBus {
    /// Starts to connect, and returns at once. Trouble is told to the observer.
    ///
    /// # Errors
    /// `Io` if the system gives no threads.
    pub fn start(
        settings: NatsSettings,
        group: GroupName,
        broker: BrokerName,
        observer: LinkObserver,
    ) -> Result<Self> {
        let runtime = runtime()?;
        let link = Arc::new(NatsLink::new(settings.shown(), observer));
        let form = LinkForm {
            name: format!("hakobu broker {broker}"),
            inbox_prefix: subjects::replies(&group, &broker),
            waiting_max: MESSAGES_MAX,
        };
        runtime.spawn(connect(link.clone(), settings, form));
        let subject = subjects::call(&group, &broker);
        let (offers, task) = WaitingOffers::new(group.clone(), broker, link.clone());
        runtime.spawn(task.run());
        let last_call = AtomicU64::new(random_number()?);
        Ok(Self {
            runtime: Some(runtime),
            group,
            subject,
            link,
            offers,
            last_call,
            answered: Mutex::default(),
        })
    }

    /// Returns the state of the connection.
    pub fn state(&self) -> NatsState {
        self.link.state()
    }

    /// Returns the time since the control plane last answered.
    pub fn answered_ago(&self) -> Option<Duration> {
        self.answered.lock().unwrap_or_else(PoisonError::into_inner).map(|at| at.elapsed())
    }

    async fn send(&self, client: &Client, bytes: &[u8], limit: Duration) -> Result<Vec<u8>> {
        let most = data_bytes(client.max_payload());
        if bytes.len() <= most {
            let answer = self.exchange(client, &CallHeader::Whole, bytes, limit).await?;
            return self.whole_answer(client, &answer, limit).await;
        }
        let length = bytes.len() as u64;
        for _attempt in 0..AGAIN_MAX {
            let id = self.last_call.fetch_add(1, Ordering::Relaxed);
            let mut at = 0;
            for piece in bytes.chunks(most) {
                let header = CallHeader::Piece { id, length, at };
                let answer = self.exchange(client, &header, piece, limit).await?;
                at += piece.len() as u64;
                match read::<AnswerHeader>(&answer)?.0 {
                    AnswerHeader::Taken if at < length => {}
                    AnswerHeader::Again | AnswerHeader::Taken => break,
                    _ => return self.whole_answer(client, &answer, limit).await,
                }
            }
        }
        Err(lost("the control plane does not take the pieces of a long request"))
    }

    /// Returns the answer that a frame is, or begins.
    async fn whole_answer(&self, client: &Client, answer: &[u8], limit: Duration) -> Result<Vec<u8>> {
        let (id, length, first) = match read::<AnswerHeader>(answer)? {
            (AnswerHeader::Whole, data) => return Ok(data.to_vec()),
            (AnswerHeader::Begun { id, length }, first) => (id, length, first),
            _ => return Err(unexpected()),
        };
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        if length > MESSAGE_BYTES_MAX || first.is_empty() {
            return Err(unexpected());
        }
        let mut data = first.to_vec();
        while data.len() < length {
            let header = CallHeader::Fetch { id, at: data.len() as u64 };
            let answer = self.exchange(client, &header, &[], limit).await?;
            match read::<AnswerHeader>(&answer)? {
                (AnswerHeader::Piece, piece) if !piece.is_empty() && piece.len() <= length - data.len() => {
                    data.extend_from_slice(piece);
                }
                (AnswerHeader::Again, _) => {
                    return Err(lost("the rest of a long answer is no longer there"));
                }
                _ => return Err(unexpected()),
            }
        }
        Ok(data)
    }

    /// Sends a frame, and returns the one that answers it.
    async fn exchange(
        &self,
        client: &Client,
        header: &CallHeader,
        data: &[u8],
        limit: Duration,
    ) -> Result<Vec<u8>> {
        let request = Request::new().payload(frame(header, data)?.into()).timeout(Some(limit));
        let mut losses = self.link.losses();
        let answer = tokio::select! {
            answer = client.send_request(self.subject.clone(), request) => answer,
            // The answer may be lost with the connection.
            _ = losses.changed() => return Err(lost("the connection to NATS was lost")),
            // Sending waits as well.
            () = tokio::time::sleep(limit) => return Err(self.no_answer()),
        };
        answer.map(|message| message.payload.to_vec()).map_err(|error| match error.kind() {
            RequestErrorKind::NoResponders => {
                let words = format!("no control plane answers for the group {}", self.group);
                lost(words).hint("is `hakobu serve` running, and does it name this group?")
            }
            RequestErrorKind::TimedOut => self.no_answer(),
            _ => lost(error.to_string()),
        })
    }

    fn no_answer(&self) -> Error {
        let words = match self.link.state().trouble {
            None => "there is no answer".to_owned(),
            Some(trouble) => format!("there is no answer; {trouble}"),
        };
        Error::new(ErrorKind::TimedOut, CALLING, words)
    }
}

impl BrokerBus for NatsBrokerBus {
    /// The limit holds for each piece of a long request or answer.
    fn call(&self, bytes: Vec<u8>, limit: Duration) -> Result<Vec<u8>> {
        let Some(client) = self.link.client() else {
            let trouble = self.link.state().trouble;
            let words = trouble.unwrap_or_else(|| "there is no connection yet".to_owned());
            return Err(lost(format!("NATS is away: {words}")));
        };
        let runtime = self.runtime.as_ref().ok_or_else(|| lost("the bus has ended"))?;
        let answer = runtime.block_on(self.send(&client, &bytes, limit))?;
        *self.answered.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
        Ok(answer)
    }

    fn next_offer(&self, limit: Duration) -> Result<Option<Box<dyn HeldOffer>>> {
        if self.link.client().is_none() {
            return Err(lost("NATS is away"));
        }
        Ok(self.offers.next(limit))
    }
}

impl Drop for NatsBrokerBus {
    fn drop(&mut self) {
        let Some(runtime) = self.runtime.take() else { return };
        if let Some(client) = self.link.client() {
            let flushing = async { tokio::time::timeout(END_LIMIT, client.flush()).await };
            let _is_late = runtime.block_on(flushing);
        }
        runtime.shutdown_timeout(END_LIMIT);
    }
}

fn unexpected() -> Error {
    Error::new(ErrorKind::Protocol, CALLING, "the frame that came is no answer to this request")
}
