//! The messages between controller and agent. What decodes encodes to bytes that mean the same.

#![no_main]

use hakobu_proto::control::{Answer, Request, negotiate};
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

fuzz_target!(|bytes: &[u8]| {
    let Some((which, bytes)) = bytes.split_first() else { return };
    if which % 2 == 0 {
        if let Some(Request::Hello { oldest, newest, .. }) = message(bytes) {
            let agreed = negotiate(oldest, newest);
            assert!(agreed.is_err() || (oldest..=newest).contains(&agreed.unwrap()));
        }
    } else if let Some(Answer::Refused(error)) = message(bytes) {
        let _ = error.to_string();
    }
});
