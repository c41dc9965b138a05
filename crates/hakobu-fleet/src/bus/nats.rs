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
mod offer_stream;
mod partial_calls;
pub mod settings;
mod subjects;

use hakobu_core::error::{Error, ErrorKind, Result};
use tokio::runtime::{Builder, Runtime};

/// The operation that errors name.
const CALLING: &str = "asking the control plane";

/// Starts the runtime of one end.
fn runtime() -> Result<Runtime> {
    let runtime = Builder::new_multi_thread().worker_threads(1).thread_name("nats").enable_all().build();
    runtime.map_err(|error| Error::io("starting the threads for NATS", &error))
}

fn lost(words: impl Into<String>) -> Error {
    Error::new(ErrorKind::ConnectionLost, CALLING, words)
}
