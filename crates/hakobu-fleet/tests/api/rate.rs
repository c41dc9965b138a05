//! The time of calls under load. Run by hand: `cargo test -p hakobu-fleet --test api rate -- --ignored --nocapture`.

use std::time::{Duration, Instant};

use hakobu_fleet::api::ApiSettings;
use hakobu_fleet::token::TokenRole;

use crate::http::Connection;
use crate::lists::fill;
use crate::test_server::TestServer;

const PER_SECOND: u32 = 200;
const SECONDS: u32 = 10;
const CONNECTIONS: u32 = 8;

#[test]
#[ignore = "it measures"]
fn two_hundred_requests_a_second_with_ten_thousand_relationships() {
    let server = TestServer::with(ApiSettings::default(), |plane| fill(plane, 10_000));
    let token = format!("Bearer {}", server.token(TokenRole::Viewer));
    server.until("it is ready", || server.get("/readyz", "").status == 200);
    let lines = [
        "GET /api/v1/relationships?limit=50",
        "GET /api/v1/relationships?limit=50&order=state",
        "GET /api/v1/relationships?limit=50&search=ship%2000",
        "GET /api/v1/relationships/77",
        "GET /api/v1/runs?limit=50",
        "GET /api/v1/brokers",
        "GET /api/v1/groups",
        "GET /api/v1/session",
    ];
    let (address, start) = (server.address, Instant::now());
    let threads: Vec<_> = (0..CONNECTIONS)
        .map(|number| {
            let token = token.clone();
            std::thread::spawn(move || {
                let mut connection = Connection::new(address);
                let mut times = Vec::new();
                for turn in 0..PER_SECOND * SECONDS / CONNECTIONS {
                    let due = start + Duration::from_secs(1) * (turn * CONNECTIONS + number) / PER_SECOND;
                    std::thread::sleep(due.saturating_duration_since(Instant::now()));
                    let line = lines[(turn + number) as usize % lines.len()];
                    connection.request(line, &[("Authorization", &token)], b"");
                    assert_eq!(connection.answer().status, 200, "{line}");
                    // From the moment at which it was due, so that a queue counts.
                    times.push(due.elapsed());
                }
                times
            })
        })
        .collect();
    let mut times: Vec<Duration> = threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect();
    times.sort();
    let of = |share: f64| times[((times.len() - 1) as f64 * share) as usize];
    println!("{} requests: p50 {:?}, p99 {:?}, longest {:?}", times.len(), of(0.5), of(0.99), of(1.0));
}
