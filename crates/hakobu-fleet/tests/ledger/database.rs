//! A server of PostgreSQL for all tests of this program.

use std::sync::LazyLock;
use std::time::{Duration, Instant};

use hakobu_fleet::ledger::leadership::{Leadership, LeadershipState, LeadershipView};
use hakobu_fleet::ledger::postgres::{PostgresLedger, PostgresSettings};
use hakobu_testkit::postgres::PostgresServer;

/// It ends with this process.
static SERVER: LazyLock<PostgresServer> = LazyLock::new(|| PostgresServer::start().unwrap());

/// Returns the URL of a place for a ledger.
pub fn place() -> String {
    SERVER.empty_place().unwrap()
}

pub fn settings(url: &str) -> PostgresSettings {
    PostgresSettings::parse(url).unwrap()
}

/// Opens a ledger as one more control plane.
pub fn open(url: &str, name: &str) -> (PostgresLedger, Leadership) {
    let mut ledger = PostgresLedger::open(&settings(url)).unwrap();
    let leadership = ledger.campaign(name).unwrap();
    (ledger, leadership)
}

/// Opens a ledger that leads.
pub fn leading(url: &str) -> (PostgresLedger, Leadership) {
    let (ledger, leadership) = open(url, "one");
    wait_to_lead(&leadership.view(), Duration::from_secs(30));
    (ledger, leadership)
}

/// Waits until a control plane leads. Returns its term.
pub fn wait_to_lead(view: &LeadershipView, limit: Duration) -> u64 {
    let deadline = Instant::now() + limit;
    loop {
        let state = view.state();
        if let LeadershipState::Leading(term) = state {
            return term;
        }
        let left = deadline.saturating_duration_since(Instant::now());
        assert!(!left.is_zero(), "it does not lead after {limit:?}: {state:?}");
        view.wait_for_change(&state, left);
    }
}
