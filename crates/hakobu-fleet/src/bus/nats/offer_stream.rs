//! The leader's side of the offers of a group: makes the stream and its consumer, and again if they are gone, and publishes.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_nats::Client;
use async_nats::jetstream::consumer::{AckPolicy, pull};
use async_nats::jetstream::context::{GetStreamByNameErrorKind, PublishAckFuture};
use async_nats::jetstream::message::PublishMessage;
use async_nats::jetstream::stream::{Config, DiscardPolicy, RetentionPolicy, StorageType};
use async_nats::jetstream::{Context, context::ContextBuilder};
use tokio::sync::{mpsc, watch};

use super::frame::OfferPlace;
use super::link::{LinkTroubleKind, NatsLink};
use super::subjects;
use crate::names::GroupName;

/// The time limit of a request to JetStream.
const REQUEST_LIMIT: Duration = Duration::from_secs(5);
/// The time after which an offer is dropped. The leader makes it again long before.
const OFFER_AGE_MAX: Duration = Duration::from_secs(60);
/// The maximum size of a stream in bytes.
const STREAM_BYTES_MAX: i64 = 16 << 20;
/// The maximum number of offers in a stream.
const OFFERS_MAX: i64 = 20_000;
/// The time after which an offer is given to another broker, if its own does not say that it works on it.
const ACK_WAIT: Duration = Duration::from_secs(10);
/// The time between two looks at the consumer.
const CHECK_EVERY: Duration = Duration::from_secs(2);
/// The pause after an attempt to make the stream that failed.
const PAUSE: Duration = Duration::from_secs(2);
/// The maximum number of offers that are published before their acknowledgements are looked at.
const AT_ONCE: usize = 16;

/// The place of the offers, as soon as it is there.
pub(super) type SharedPlace = Arc<Mutex<Option<OfferPlace>>>;

/// The stream of a group.
pub(super) struct OfferStream {
    pub(super) group: GroupName,
    pub(super) link: Arc<NatsLink>,
    /// The number of servers that keep the stream; None: three in a cluster, and one otherwise.
    pub(super) replicas: Option<usize>,
    pub(super) place: SharedPlace,
}

impl OfferStream {
    /// Publishes offers while this control plane leads.
    pub(super) async fn run(self, mut offers: mpsc::Receiver<Vec<u8>>, mut leading: watch::Receiver<bool>) {
        let Some(client) = self.link.first_client().await else { return };
        let context =
            ContextBuilder::new().timeout(REQUEST_LIMIT).ack_timeout(REQUEST_LIMIT).build(client.clone());
        loop {
            if leading.wait_for(|leads| *leads).await.is_err() {
                return;
            }
            match self.make(&context, &client).await {
                Ok(place) => {
                    self.link.trouble_is_over(LinkTroubleKind::NoOffers);
                    let stream = place.stream.clone();
                    self.set_place(Some(place));
                    if self.publish(&context, &stream, &mut offers, &mut leading).await.is_none() {
                        return;
                    }
                    self.set_place(None);
                }
                Err(words) => {
                    if self.link.client().is_some() {
                        let words = format!("offers are not possible, and brokers ask without them: {words}");
                        self.link.has_trouble((LinkTroubleKind::NoOffers, words));
                    }
                    // Offers that wait are old by then.
                    while offers.try_recv().is_ok() {}
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
    }

    fn set_place(&self, place: Option<OfferPlace>) {
        *self.place.lock().unwrap_or_else(PoisonError::into_inner) = place;
    }

    /// Publishes until the stream or the consumer is gone, or this control plane leads no more. Returns None if the bus has
    /// ended.
    async fn publish(
        &self,
        context: &Context,
        stream: &str,
        offers: &mut mpsc::Receiver<Vec<u8>>,
        leading: &mut watch::Receiver<bool>,
    ) -> Option<()> {
        let subject = subjects::offers(&self.group);
        let mut check = tokio::time::interval(CHECK_EVERY);
        check.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                changed = leading.changed() => {
                    changed.ok()?;
                    if !*leading.borrow_and_update() {
                        return Some(());
                    }
                }
                _ = check.tick() => {
                    if self.link.client().is_some() && !self.is_there(context, stream).await {
                        return Some(());
                    }
                }
                offer = offers.recv() => {
                    let mut under_way = vec![send(context, &subject, offer?).await];
                    while under_way.len() < AT_ONCE && let Ok(offer) = offers.try_recv() {
                        under_way.push(send(context, &subject, offer).await);
                    }
                    for sent in under_way {
                        let Some(sent) = sent else { return Some(()) };
                        if sent.await.is_err() {
                            return Some(());
                        }
                    }
                }
            }
        }
    }

    /// Returns false if the consumer is gone, alone or with its stream.
    async fn is_there(&self, context: &Context, stream: &str) -> bool {
        let consumer = subjects::consumer(&self.group);
        context.get_consumer_from_stream::<pull::Config, _, _>(consumer, stream).await.is_ok()
    }

    /// Makes the stream and the consumer, or takes those that are there.
    async fn make(&self, context: &Context, client: &Client) -> std::result::Result<OfferPlace, String> {
        let replicas = self.replicas.unwrap_or(match client.server_info().cluster {
            Some(_) => 3,
            None => 1,
        });
        let subject = subjects::offers(&self.group);
        let there = match context.stream_by_subject(subject.as_str()).await {
            Ok(name) => Some(name),
            Err(error) if error.kind() == GetStreamByNameErrorKind::NotFound => None,
            Err(error) => return Err(error.to_string()),
        };
        let stream = match there {
            Some(name) if subjects::is_stream(&self.group, &name) => name,
            Some(name) => return Err(format!("the stream {name} takes the subject {subject}: delete it")),
            None => {
                // A name that no stream had before.
                let inbox = client.new_inbox();
                let generation = inbox.rsplit('.').next().unwrap_or_default();
                let name = subjects::stream(&self.group, generation);
                let config = |replicas| self.stream_config(&name, replicas);
                match context.create_stream(config(replicas)).await {
                    Ok(_) => {}
                    // A cluster may have fewer servers than that with JetStream.
                    Err(_) if replicas > 1 && self.replicas.is_none() => {
                        context.create_stream(config(1)).await.map_err(|error| error.to_string())?;
                    }
                    Err(error) => return Err(error.to_string()),
                }
                name
            }
        };
        let consumer = subjects::consumer(&self.group);
        let config = pull::Config {
            durable_name: Some(consumer.clone()),
            ack_policy: AckPolicy::Explicit,
            ack_wait: ACK_WAIT,
            max_ack_pending: -1,
            ..pull::Config::default()
        };
        let made = context.create_consumer_on_stream(config, stream.as_str()).await;
        made.map_err(|error| error.to_string())?;
        Ok(OfferPlace { stream, consumer })
    }

    fn stream_config(&self, name: &str, replicas: usize) -> Config {
        Config {
            name: name.to_owned(),
            description: Some(format!("Units that wait for brokers of {}", self.group)),
            subjects: vec![subjects::offers(&self.group)],
            retention: RetentionPolicy::Limits,
            discard: DiscardPolicy::Old,
            storage: StorageType::File,
            max_age: OFFER_AGE_MAX,
            max_bytes: STREAM_BYTES_MAX,
            max_messages: OFFERS_MAX,
            num_replicas: replicas,
            ..Config::default()
        }
    }
}

async fn send(context: &Context, subject: &str, offer: Vec<u8>) -> Option<PublishAckFuture> {
    context.send_publish(subject.to_owned(), PublishMessage::build().payload(offer.into())).await.ok()
}
