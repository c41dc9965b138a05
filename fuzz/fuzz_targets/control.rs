//! The messages between controller and agent. What decodes encodes to bytes that mean the same.

#![no_main]

use hakobu_proto::control::{AgentMessage, ProbeAnswer, Request, negotiate};
use libfuzzer_sys::fuzz_target;
use serde::Serialize;
use serde::de::DeserializeOwned;

fn message<T: Serialize + DeserializeOwned>(bytes: &[u8]) -> Option<T> {
    let (message, _): (T, _) = postcard::take_from_bytes(bytes).ok()?;
    let encoded = postcard::to_stdvec(&message).unwrap();
    let again: T = postcard::from_bytes(&encoded).unwrap();
    assert_eq!(postcard::to_stdvec(&again).unwrap(), encoded);
    Some(message)
}

/// Figures give a rate that some machine may have, or none.
fn figures(answer: &ProbeAnswer) {
    let work = match answer {
        ProbeAnswer::Way(way) => way.best().map(|best| best.sent),
        ProbeAnswer::Source(source) => source.content,
        ProbeAnswer::Target(target) => target.content,
        ProbeAnswer::Machine(_) => None,
    };
    let rate = work.and_then(|work| work.bytes_per_second());
    assert!(rate.is_none_or(|rate| rate.is_finite() && rate > 0.0));
}

fuzz_target!(|bytes: &[u8]| {
    let Some((which, bytes)) = bytes.split_first() else { return };
    if which % 2 == 0 {
        if let Some(Request::Hello { oldest, newest, .. }) = message(bytes) {
            let agreed = negotiate(oldest, newest);
            assert!(agreed.is_err() || (oldest..=newest).contains(&agreed.unwrap()));
        }
    } else {
        match message(bytes) {
            Some(AgentMessage::Refused(error)) => drop(error.to_string()),
            Some(AgentMessage::Probe(Ok(answer))) => figures(&answer),
            _ => {}
        }
    }
});
