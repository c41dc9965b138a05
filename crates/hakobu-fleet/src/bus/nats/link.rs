//! The state of a connection to NATS, for people and for programs.

use std::sync::{Arc, Mutex, PoisonError};

use async_nats::Client;
use async_nats::connection::State;
use hakobu_core::event::{Event, Observer};
use tokio::sync::watch;

/// Takes notices about a connection.
pub type LinkObserver = Arc<dyn Observer + Send + Sync>;

/// A trouble with its words for people.
pub(super) type LinkTrouble = (LinkTroubleKind, String);

/// The kind of a trouble: those that have a remedy of their own, and others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum LinkTroubleKind {
    WrongLogin,
    NotPermitted,
    NoOffers,
    #[default]
    Other,
}

/// The state of a connection to NATS.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NatsState {
    /// True if there is a connection.
    pub is_connected: bool,
    /// The cause for which there is none, or why something does not work, for people.
    pub trouble: Option<String>,
    pub(super) kind: LinkTroubleKind,
}

/// A connection to NATS that is made again whenever it is lost.
pub struct NatsLink {
    /// The servers, for people.
    place: String,
    state: Mutex<NatsState>,
    client: watch::Sender<Option<Client>>,
    /// The number of times that a connection was lost.
    losses: watch::Sender<u64>,
    observer: LinkObserver,
}

impl NatsLink {
    pub(super) fn new(place: String, observer: LinkObserver) -> Self {
        Self {
            place,
            state: Mutex::default(),
            client: watch::Sender::new(None),
            losses: watch::Sender::new(0),
            observer,
        }
    }

    /// Returns the servers, for people.
    pub(super) fn place(&self) -> &str {
        &self.place
    }

    /// Returns the state.
    pub fn state(&self) -> NatsState {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner).clone();
        state.is_connected = self.client().is_some();
        state
    }

    /// Returns the connection if there is one now.
    pub(super) fn client(&self) -> Option<Client> {
        let client = self.client.borrow().clone();
        client.filter(|client| client.connection_state() == State::Connected)
    }

    /// Waits for the first connection. It may be lost again.
    pub(super) async fn first_client(&self) -> Option<Client> {
        let mut watching = self.client.subscribe();
        let there = watching.wait_for(Option::is_some).await.ok()?;
        there.clone()
    }

    /// Watches the losses of the connection: what is asked then is never answered.
    pub(super) fn losses(&self) -> watch::Receiver<u64> {
        self.losses.subscribe()
    }

    pub(super) fn set_client(&self, client: Client) {
        self.client.send_replace(Some(client));
    }

    /// Notes that there is a connection.
    pub(super) fn is_up(&self) {
        if self.change(NatsState { is_connected: true, ..NatsState::default() }) {
            self.tell(format!("connected to NATS at {}", self.place));
        }
    }

    /// Notes that there is no connection, and why.
    pub(super) fn is_down(&self, (kind, cause): LinkTrouble) {
        self.losses.send_modify(|losses| *losses += 1);
        if self.change(NatsState { is_connected: false, trouble: Some(cause.clone()), kind }) {
            self.tell(format!("no connection to NATS at {}: {cause}; trying again", self.place));
        }
    }

    /// Notes that something does not work although there is a connection.
    pub(super) fn has_trouble(&self, (kind, words): LinkTrouble) {
        if self.change(NatsState { is_connected: true, trouble: Some(words.clone()), kind }) {
            self.tell(words);
        }
    }

    /// Notes that trouble of a kind is over.
    pub(super) fn trouble_is_over(&self, kind: LinkTroubleKind) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.kind == kind {
            (state.trouble, state.kind) = (None, LinkTroubleKind::default());
        }
    }

    /// Changes the state. Returns true if it is another one.
    fn change(&self, new: NatsState) -> bool {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let is_other = *state != new;
        *state = new;
        is_other
    }

    fn tell(&self, words: String) {
        self.observer.event(Event::Notice { words });
    }
}
