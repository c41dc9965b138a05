//! Connects to NATS, and says in words why that does not work.

use std::sync::Arc;
use std::time::Duration;

use async_nats::{ClientError, ConnectError, ConnectErrorKind, Event, ServerError};

use super::link::{LinkTrouble, LinkTroubleKind, NatsLink};
use super::settings::NatsSettings;

/// The pause after the first attempt that failed. Each further one doubles it.
const PAUSE_FIRST: Duration = Duration::from_millis(250);
/// The longest pause between attempts.
const PAUSE_MAX: Duration = Duration::from_secs(5);
/// The time limit of an attempt.
const CONNECT_LIMIT: Duration = Duration::from_secs(10);
/// The time after which a server that is silent is asked for a sign of life. The connection ends after two without one.
const PING_EVERY: Duration = Duration::from_secs(5);

/// The form of a connection.
#[derive(Clone, Debug)]
pub(super) struct LinkForm {
    /// The name under which the server lists it.
    pub(super) name: String,
    /// The beginning of the subjects for answers.
    pub(super) inbox_prefix: String,
    /// The number of messages that may wait in a subscription.
    pub(super) waiting_max: usize,
}

/// Connects, however long that takes. Afterwards the connection keeps itself up.
pub(super) async fn connect(link: Arc<NatsLink>, settings: NatsSettings, form: LinkForm) {
    let mut pause = PAUSE_FIRST;
    loop {
        match try_connect(&link, &settings, &form).await {
            Ok(()) => return,
            Err(trouble) => link.is_down(trouble),
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(PAUSE_MAX);
    }
}

async fn try_connect(
    link: &Arc<NatsLink>,
    settings: &NatsSettings,
    form: &LinkForm,
) -> Result<(), LinkTrouble> {
    let options = settings.connect_options().map_err(|error| other(&error.to_string()))?;
    let told = Arc::downgrade(link);
    let options = options
        .name(&form.name)
        .custom_inbox_prefix(&form.inbox_prefix)
        .subscription_capacity(form.waiting_max)
        .connection_timeout(CONNECT_LIMIT)
        .ping_interval(PING_EVERY)
        .max_reconnects(None)
        .event_callback(move |event| {
            if let Some(link) = told.upgrade() {
                take_event(&link, &event);
            }
            async {}
        });
    let client = options.connect(settings.servers()).await.map_err(|error| connect_trouble(&error))?;
    link.set_client(client);
    link.is_up();
    Ok(())
}

fn take_event(link: &NatsLink, event: &Event) {
    match event {
        Event::Connected => link.is_up(),
        Event::Disconnected => link.is_down(other("the connection is lost")),
        Event::ServerError(ServerError::AuthorizationViolation) => link.is_down(wrong_login()),
        Event::ServerError(ServerError::Other(words)) => link.has_trouble(server_trouble(words)),
        Event::ClientError(ClientError::Other(words)) => link.is_down(trouble_of_kind(words)),
        Event::SlowConsumer(_) => {
            link.has_trouble(other("messages of NATS arrive faster than they are handled"));
        }
        _ => {}
    }
}

fn other(words: &str) -> LinkTrouble {
    (LinkTroubleKind::Other, words.to_owned())
}

fn wrong_login() -> LinkTrouble {
    (LinkTroubleKind::WrongLogin, "the server refuses the user or the password".to_owned())
}

fn connect_trouble(error: &ConnectError) -> LinkTrouble {
    let (kind, mut words) = trouble_of_kind(&error.kind().to_string());
    let mut cause = std::error::Error::source(error).filter(|_| kind != LinkTroubleKind::WrongLogin);
    while let Some(inner) = cause {
        let more = inner.to_string();
        if !words.contains(&more) {
            words = format!("{words}: {more}");
        }
        cause = inner.source();
    }
    (kind, words)
}

/// Returns the trouble that a kind of error means, as the library names it: some errors have only that name.
fn trouble_of_kind(kind: &str) -> LinkTrouble {
    let is = |other: ConnectErrorKind| kind.starts_with(&other.to_string());
    match () {
        () if is(ConnectErrorKind::AuthorizationViolation) => wrong_login(),
        () if is(ConnectErrorKind::Authentication) => other("the password file cannot be read"),
        () if is(ConnectErrorKind::Io) => other("no server answers"),
        () if is(ConnectErrorKind::Dns) => other("the name of the server is not known"),
        () if is(ConnectErrorKind::TimedOut) => other("the server does not answer in time"),
        () if is(ConnectErrorKind::Tls) => other("no encrypted connection is possible"),
        () => other(kind),
    }
}

/// Returns the trouble that an error of the server means. The library has its text alone.
fn server_trouble(words: &str) -> LinkTrouble {
    match words.to_ascii_lowercase().starts_with("permissions violation") {
        true => (LinkTroubleKind::NotPermitted, format!("the user of NATS lacks a permission: {words}")),
        false => other(&format!("the server of NATS reports: {words}")),
    }
}
