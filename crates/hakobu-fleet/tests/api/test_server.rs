//! A control plane with its interface, in this process.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hakobu_core::error::{Error, ErrorKind, Result};
use hakobu_core::request::CopyRequest;
use hakobu_fleet::api::{ApiSettings, ApiState, listen, serve};
use hakobu_fleet::api_token::ApiToken;
use hakobu_fleet::change::{LedgerAnswer, LedgerChange};
use hakobu_fleet::control_plane::ControlPlane;
use hakobu_fleet::fleet_clock::{FleetClock, MachineClock};
use hakobu_fleet::ids::Moment;
use hakobu_fleet::leader::LeaderSettings;
use hakobu_fleet::lease_token::LeaseKey;
use hakobu_fleet::ledger::memory::MemoryLedger;
use hakobu_fleet::run_request::{FleetRequest, RequestReader};
use hakobu_fleet::token::{NewToken, TokenRole};
use serde_json::{Value, json};

use crate::http::{Answer, call};

/// Accepts everything but one option.
struct TestReader;

impl RequestReader for TestReader {
    fn read(&self, request: &FleetRequest) -> Result<CopyRequest> {
        match request.arguments.iter().any(|argument| argument == "--refused") {
            true => Err(Error::new(ErrorKind::Usage, "reading the request of a run", "--refused is refused")),
            false => Ok(CopyRequest::default()),
        }
    }
}

/// A control plane with its interface.
pub struct TestServer {
    pub address: SocketAddr,
    pub plane: ControlPlane,
    _runtime: tokio::runtime::Runtime,
}

impl TestServer {
    pub fn start() -> Self {
        Self::with(ApiSettings::default(), |_| {})
    }

    /// Starts one whose ledger has something already.
    pub fn with(settings: ApiSettings, fill: impl FnOnce(&ControlPlane)) -> Self {
        let clock: Arc<dyn FleetClock> = Arc::new(MachineClock);
        let leader = LeaderSettings {
            lease: Duration::from_secs(30),
            split_after: Duration::from_secs(20),
            key: LeaseKey::new(&[7; 32]),
        };
        let plane =
            ControlPlane::start(Box::new(MemoryLedger::default()), clock.clone(), leader, |_| Ok(Vec::new()))
                .unwrap();
        fill(&plane);
        let state = ApiState::new(settings, plane.handle().clone(), clock, Arc::new(TestReader));
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let listener = listen("127.0.0.1:0".parse().unwrap()).unwrap();
        let listener = {
            let _guard = runtime.enter();
            tokio::net::TcpListener::from_std(listener).unwrap()
        };
        let address = listener.local_addr().unwrap();
        runtime.spawn(serve(listener, Arc::new(state), std::future::pending()));
        Self { address, plane, _runtime: runtime }
    }

    /// Makes a token in the ledger.
    pub fn token(&self, role: TokenRole) -> String {
        self.new_token(role, None, false)
    }

    pub fn new_token(&self, role: TokenRole, expires: Option<Moment>, is_single_use: bool) -> String {
        add_token(&self.plane, role, expires, is_single_use)
    }

    /// Sends a request with a token.
    pub fn call(&self, line: &str, token: &str, body: &Value) -> Answer {
        let bearer = format!("Bearer {token}");
        let mut headers = vec![("Authorization", bearer.as_str())];
        let body = match body {
            Value::Null => Vec::new(),
            body => serde_json::to_vec(body).unwrap(),
        };
        if !body.is_empty() {
            headers.push(("Content-Type", "application/json"));
        }
        call(self.address, line, &headers, &body)
    }

    pub fn get(&self, path: &str, token: &str) -> Answer {
        self.call(&format!("GET {path}"), token, &Value::Null)
    }

    /// Waits until something holds.
    pub fn until(&self, what: &str, holds: impl Fn() -> bool) {
        for _ in 0..200 {
            if holds() {
                return;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        panic!("{what}");
    }
}

/// Makes a token in a ledger.
pub fn add_token(
    plane: &ControlPlane,
    role: TokenRole,
    expires: Option<Moment>,
    is_single_use: bool,
) -> String {
    let secret = ApiToken::generate().unwrap();
    let token = NewToken {
        hash: secret.hash(),
        label: format!("test {}", role.name()),
        role,
        created: MachineClock.moment(),
        expires,
        is_single_use,
    };
    let added = plane.handle().apply(LedgerChange::AddToken(token)).unwrap();
    assert!(matches!(added, LedgerAnswer::TokenAdded(_)));
    String::from_utf8(secret.text().expose().to_vec()).unwrap()
}

/// Returns the JSON of a relationship.
pub fn relationship(name: &str) -> Value {
    json!({"name": name, "group": "site-a", "request": {"sources": ["/a"], "target": "/b"}})
}
