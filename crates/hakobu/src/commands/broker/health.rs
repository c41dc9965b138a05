//! The state of a broker over HTTP, for what watches it: `/healthz` while the process lives, `/readyz` while it reaches the
//! control plane.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use hakobu_core::error::{Error, Result};
use hakobu_fleet::bus::nats::broker::NatsBrokerBus;
use serde::Serialize;

/// The time limit of a request.
const LIMIT: Duration = Duration::from_secs(2);
/// The maximum length of the first line of a request in bytes.
const LINE_BYTES_MAX: u64 = 4096;
/// The time without an answer of the control plane after which a broker is not ready.
const SILENT_MAX: Duration = Duration::from_secs(10);

/// The state that is shown.
#[derive(Serialize)]
struct BrokerHealth<'a> {
    schema: &'static str,
    version: &'static str,
    broker: &'a str,
    group: &'a str,
    ready: bool,
    connected: bool,
    trouble: Option<String>,
    last_answer_seconds: Option<f64>,
}

/// Answers on an address until the process ends.
///
/// # Errors
/// Those of the system.
pub fn listen(address: SocketAddr, bus: Arc<NatsBrokerBus>, names: (String, String)) -> Result<()> {
    let failed = |error: &std::io::Error| Error::io("listening for questions about the state", error);
    let listener = TcpListener::bind(address).map_err(|error| failed(&error).at(address.to_string()))?;
    let answering = move || {
        for stream in listener.incoming().flatten() {
            // One at a time: each has a time limit.
            let _gone = answer(&stream, &bus, &names);
        }
    };
    let thread = std::thread::Builder::new().name("health".to_owned()).spawn(answering);
    thread.map(drop).map_err(|error| failed(&error))
}

fn answer(
    stream: &TcpStream,
    bus: &NatsBrokerBus,
    (broker, group): &(String, String),
) -> std::io::Result<()> {
    stream.set_read_timeout(Some(LIMIT))?;
    stream.set_write_timeout(Some(LIMIT))?;
    let mut line = String::new();
    BufReader::new(stream.take(LINE_BYTES_MAX)).read_line(&mut line)?;
    let path = line.strip_prefix("GET ").and_then(|rest| rest.split(' ').next()).unwrap_or_default();
    let state = bus.state();
    let answered = bus.answered_ago();
    let ready = state.is_connected && answered.is_some_and(|ago| ago <= SILENT_MAX);
    let cause = match state.is_connected {
        true => "the control plane does not answer",
        false => "there is no connection to NATS",
    };
    let health = BrokerHealth {
        schema: "hakobu.broker-health/1",
        version: env!("CARGO_PKG_VERSION"),
        broker,
        group,
        ready,
        connected: state.is_connected,
        trouble: state.trouble.or_else(|| (!ready).then(|| cause.to_owned())),
        last_answer_seconds: answered.map(|ago| ago.as_secs_f64()),
    };
    let status = match path {
        "/healthz" => "200 OK",
        "/readyz" if ready => "200 OK",
        "/readyz" => "503 Service Unavailable",
        _ => "404 Not Found",
    };
    let body = match status.starts_with("404") {
        true => "{}".to_owned(),
        false => serde_json::to_string(&health)?,
    };
    let mut stream = stream;
    write!(
        stream,
        "HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {}\r\nCache-Control: no-store\r\n\
         Connection: close\r\n\r\n{body}",
        body.len()
    )
}
