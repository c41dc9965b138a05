//! Servers with the accounts of the book, and the ends of the bus on them.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use hakobu_core::error::Result;
use hakobu_core::event::{Event, Observer};
use hakobu_fleet::bus::nats::broker::NatsBrokerBus;
use hakobu_fleet::bus::nats::leader::{NatsGroup, NatsLeaderBus};
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
        std::fs::write(&path, text).unwrap();
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
    pub fn leader(&self, url: &str, sink: Arc<dyn CallSink>) -> NatsLeaderBus {
        let groups = ["site-a", "site-b"].map(|name| NatsGroup {
            name: site(name),
            settings: self.settings(url, &format!("control-{name}")),
            replicas: None,
        });
        NatsLeaderBus::start(groups.to_vec(), &sink, &notices(), true).unwrap()
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

/// Answers requests by a function, from a thread of its own.
pub struct Answering {
    calls: Mutex<Vec<(GroupName, Option<BrokerName>, usize)>>,
    answer: Box<dyn Fn(&[u8]) -> Vec<u8> + Send + Sync>,
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
