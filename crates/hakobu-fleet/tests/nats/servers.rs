//! Servers with the accounts of the book, and the ends of the bus on them.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use hakobu_core::error::Result;
use hakobu_core::event::{Event, Observer};
use hakobu_fleet::bus::nats::broker::NatsBrokerBus;
use hakobu_fleet::bus::nats::leader::{NatsGroup, NatsLeaderBus};
use hakobu_fleet::bus::nats::link::LinkObserver;
use hakobu_fleet::bus::nats::settings::{NatsOptions, NatsSettings};
use hakobu_fleet::bus::{CallSink, IncomingCall};
use hakobu_fleet::names::{BrokerName, GroupName};
use hakobu_testkit::nats::NatsConfiguration;
use tempfile::TempDir;

pub const LIMIT: Duration = Duration::from_secs(60);

pub fn site(name: &str) -> GroupName {
    GroupName::new(name).unwrap()
}

pub fn broker_name(name: &str) -> BrokerName {
    BrokerName::new(name).unwrap()
}

/// The accounts of the book.
pub fn accounts() -> NatsConfiguration {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../contrib/nats/accounts.conf");
    let text = std::fs::read_to_string(file).unwrap();
    let names = ["CONTROL_SITE_A", "BROKER_SITE_A", "CONTROL_SITE_B", "BROKER_SITE_B", "ADMIN"];
    let environment = names.map(|name| (format!("{name}_PASSWORD"), password(name)));
    NatsConfiguration { text, environment: environment.to_vec() }
}

fn password(name: &str) -> String {
    format!("p-{}", name.to_ascii_lowercase().replace('_', "-"))
}

/// Files with passwords.
pub struct Passwords(TempDir);

impl Passwords {
    pub fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn file(&self, text: &str) -> PathBuf {
        let path = self.0.path().join(text);
        if !path.exists() {
            std::fs::write(&path, text).unwrap();
        }
        path
    }

    /// Returns the settings of a user, such as `broker-site-a`.
    pub fn settings(&self, url: &str, user: &str) -> NatsSettings {
        self.with_password(url, user, &password(user))
    }

    pub fn with_password(&self, url: &str, user: &str, password: &str) -> NatsSettings {
        let options = NatsOptions {
            servers: url.to_owned(),
            user: Some(user.to_owned()),
            password_file: Some(self.file(password)),
            ..NatsOptions::default()
        };
        options.check().unwrap()
    }

    /// Starts the control plane's end for both groups.
    #[allow(clippy::needless_pass_by_value, reason = "callers have no other use for it")]
    pub fn leader(&self, url: &str, sink: Arc<dyn CallSink>) -> NatsLeaderBus {
        let groups = ["site-a", "site-b"].map(|name| NatsGroup {
            name: site(name),
            settings: self.settings(url, &format!("control-{name}")),
            replicas: None,
        });
        let told: LinkObserver = notices();
        NatsLeaderBus::start(groups.to_vec(), &sink, &told, true).unwrap()
    }

    /// Starts the end of a broker.
    pub fn broker(&self, url: &str, group: &str, name: &str) -> NatsBrokerBus {
        let settings = self.settings(url, &format!("broker-{group}"));
        NatsBrokerBus::start(settings, site(group), broker_name(name), notices()).unwrap()
    }
}

/// Notices, which are shown if a test fails.
#[derive(Default)]
pub struct Notices(Mutex<Vec<String>>);

pub fn notices() -> Arc<Notices> {
    Arc::default()
}

impl Notices {
    pub fn all(&self) -> Vec<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Observer for Notices {
    fn event(&self, event: Event) {
        if let Event::Notice { words } = event {
            println!("{words}");
            self.0.lock().unwrap_or_else(PoisonError::into_inner).push(words);
        }
    }
}

/// Returns the answer to a request.
type AnswerOf = Box<dyn Fn(&[u8]) -> Vec<u8> + Send + Sync>;

/// Answers requests by a function.
pub struct Answering {
    calls: Mutex<Vec<(GroupName, Option<BrokerName>, usize)>>,
    answer: AnswerOf,
}

impl Answering {
    pub fn new(answer: impl Fn(&[u8]) -> Vec<u8> + Send + Sync + 'static) -> Arc<Self> {
        Arc::new(Self { calls: Mutex::default(), answer: Box::new(answer) })
    }

    /// Returns what has arrived: the group, the broker, and the length.
    pub fn calls(&self) -> Vec<(GroupName, Option<BrokerName>, usize)> {
        self.calls.lock().unwrap().clone()
    }
}

impl CallSink for Answering {
    fn pass_on(&self, call: IncomingCall) -> Result<()> {
        let IncomingCall { group, broker, bytes, reply } = call;
        self.calls.lock().unwrap().push((group, broker, bytes.len()));
        reply((self.answer)(&bytes));
        Ok(())
    }
}

/// Waits until something holds.
pub fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < LIMIT, "not within {LIMIT:?}: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A client of NATS that sends what it likes.
pub struct RawClient {
    runtime: tokio::runtime::Runtime,
    pub client: async_nats::Client,
}

impl RawClient {
    /// Connects as a user, with a beginning of the subjects for answers.
    pub fn connect(url: &str, user: &str, inbox: &str) -> Self {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let password = password(&user.replace('-', "_"));
        let options = async_nats::ConnectOptions::with_user_and_password(user.to_owned(), password)
            .custom_inbox_prefix(inbox)
            .event_callback(|event| async move { println!("{event}") });
        let mut client = None;
        wait_until("a connection", || {
            client = runtime.block_on(options.clone().connect(url)).ok();
            client.is_some()
        });
        Self { runtime, client: client.unwrap() }
    }

    pub fn run<T>(&self, work: impl Future<Output = T>) -> T {
        self.runtime.block_on(work)
    }

    /// Returns the interface of JetStream.
    pub fn jetstream(&self) -> async_nats::jetstream::Context {
        let _within = self.runtime.enter();
        async_nats::jetstream::new(self.client.clone())
    }

    /// Sends a request and returns the answer, if there is one in time.
    pub fn request(&self, subject: &str, payload: Vec<u8>) -> Option<Vec<u8>> {
        let asking = self.client.request(subject.to_owned(), payload.into());
        let answer = self.run(async { tokio::time::timeout(Duration::from_secs(2), asking).await });
        answer.ok()?.ok().map(|message| message.payload.to_vec())
    }

    /// Publishes with a subject for the answer.
    pub fn publish(&self, subject: &str, reply: &str, payload: Vec<u8>) {
        self.run(async {
            self.client
                .publish_with_reply(subject.to_owned(), reply.to_owned(), payload.into())
                .await
                .unwrap();
            self.client.flush().await.unwrap();
        });
    }

    /// Returns the first message at a subject within some time, while something is done.
    pub fn first_at(&self, subject: &str, act: impl FnOnce()) -> Option<async_nats::Message> {
        use futures_util::StreamExt as _;
        let mut messages = self.run(async {
            let messages = self.client.subscribe(subject.to_owned()).await.unwrap();
            self.client.flush().await.unwrap();
            messages
        });
        act();
        self.run(async { tokio::time::timeout(Duration::from_secs(1), messages.next()).await.ok().flatten() })
    }
}
