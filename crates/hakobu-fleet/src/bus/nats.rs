//! The bus between machines: NATS, with JetStream for offers.
//!
//! Requests are core messages of NATS with an answer, and the ledger decides about them, so that NATS can lose none of the
//! fleet's state. Offers are in a stream of the group, from which its brokers pull. A stream or consumer that is gone is made
//! again by the leader under another name; until then brokers ask without offers.
//!
//! Both ends have a small runtime of their own, and block outside of it.

pub mod broker;
mod broker_offers;
mod connecting;
mod frame;
mod group_task;
pub mod groups_file;
mod kept_answers;
pub mod leader;
pub mod link;
mod link_error;
mod offer_stream;
mod partial_calls;
pub mod settings;
mod subjects;

use aws_lc_rs::rand;
use hakobu_core::error::{Error, ErrorKind, Result};
use tokio::runtime::{Builder, Runtime};

/// The operation that errors name.
const CALLING: &str = "asking the control plane";

/// Starts the runtime of one end.
fn runtime() -> Result<Runtime> {
    let runtime = Builder::new_multi_thread().worker_threads(1).thread_name("nats").enable_all().build();
    runtime.map_err(|error| Error::io("starting the threads for NATS", &error))
}

/// Returns a random number, such as that of a broker's process.
///
/// # Errors
/// `Io` if the system has none.
pub fn random_number() -> Result<u64> {
    let mut bytes = [0; 8];
    rand::fill(&mut bytes)
        .map_err(|_| Error::new(ErrorKind::Io, "drawing a random number", "the system has none"))?;
    Ok(u64::from_le_bytes(bytes))
}

fn lost(words: impl Into<String>) -> Error {
    Error::new(ErrorKind::ConnectionLost, CALLING, words)
}
