//! Connects to NATS, and says in words why that does not work.

use std::sync::Arc;
use std::time::Duration;

use async_nats::{ClientError, ConnectError, ConnectErrorKind, Event, ServerError};

use super::link::NatsLink;
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
            Err(words) => link.is_down(&words),
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(PAUSE_MAX);
    }
}

async fn try_connect(link: &Arc<NatsLink>, settings: &NatsSettings, form: &LinkForm) -> Result<(), String> {
    let options = settings.connect_options().map_err(|error| error.to_string())?;
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
    let client = options.connect(settings.servers()).await.map_err(|error| connect_words(&error))?;
    link.set_client(client);
    link.is_up();
    Ok(())
}

fn take_event(link: &NatsLink, event: &Event) {
    match event {
        Event::Connected => link.is_up(),
        Event::Disconnected => link.is_down("the connection is lost"),
        Event::ServerError(ServerError::AuthorizationViolation) => link.is_down(&login_words()),
        Event::ServerError(ServerError::Other(words)) => link.has_trouble(&server_words(words)),
        Event::ClientError(ClientError::Other(words)) => link.is_down(&kind_words(words)),
        Event::SlowConsumer(_) => link.has_trouble("messages of NATS arrive faster than they are handled"),
        _ => {}
    }
}

fn connect_words(error: &ConnectError) -> String {
    match error.kind() {
        ConnectErrorKind::AuthorizationViolation => login_words(),
        _ => {
            let mut words = kind_words(&error.kind().to_string());
            let mut cause = std::error::Error::source(error);
            while let Some(inner) = cause {
                let more = inner.to_string();
                if !words.contains(&more) {
                    words = format!("{words}: {more}");
                }
                cause = inner.source();
            }
            words
        }
    }
}

/// Returns words for a kind of error, as the library names it.
fn kind_words(kind: &str) -> String {
    let is = |other: ConnectErrorKind| kind.starts_with(&other.to_string());
    match () {
        () if is(ConnectErrorKind::AuthorizationViolation) => login_words(),
        () if is(ConnectErrorKind::Authentication) => "the password file cannot be read".to_owned(),
        () if is(ConnectErrorKind::Io) => "no server answers".to_owned(),
        () if is(ConnectErrorKind::Dns) => "the name of the server is not known".to_owned(),
        () if is(ConnectErrorKind::TimedOut) => "the server does not answer in time".to_owned(),
        () if is(ConnectErrorKind::Tls) => "no encrypted connection is possible".to_owned(),
        () => kind.to_owned(),
    }
}

pub(super) fn login_words() -> String {
    "the server refuses the user or the password".to_owned()
}

/// The beginning of the words for a permission that is missing.
pub(super) const NOT_PERMITTED: &str = "the user of NATS lacks a permission";

fn server_words(words: &str) -> String {
    match words.to_ascii_lowercase().starts_with("permissions violation") {
        true => format!("{NOT_PERMITTED}: {words}"),
        false => format!("the server of NATS reports: {words}"),
    }
}
