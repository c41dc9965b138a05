//! The messages on data connections. What decodes can be encoded, and means the same again; no path
//! in it leads out of the root.

#![no_main]

use hakobu_core::endpoint::DraftId;
use hakobu_core::path::EntryPath;
use hakobu_proto::data::{
    ApplyChanges, BeginDraft, FailedReply, Finish, Hello, ListRequest, SetLength, StatReply, StatRequest,
    StoredReply, WritePiece, bounded, decode, encode,
};
use libfuzzer_sys::fuzz_target;
use serde::Serialize;
use serde::de::DeserializeOwned;

fn message<T: Serialize + DeserializeOwned + PartialEq + std::fmt::Debug>(bytes: &[u8]) -> Option<T> {
    let message: T = decode(bytes).ok()?;
    let mut encoded = Vec::new();
    encode(&message, &mut encoded).unwrap();
    assert_eq!(decode::<T>(&encoded).unwrap(), message);
    Some(message)
}

fn check(path: &EntryPath) {
    assert_eq!(&EntryPath::new(path.as_bytes()).unwrap(), path);
}

fuzz_target!(|bytes: &[u8]| {
    let Some((which, bytes)) = bytes.split_first() else { return };
    match which % 13 {
        0 => drop(message::<Hello>(bytes)),
        1 => message::<StatRequest>(bytes).iter().for_each(|inspect| check(&inspect.path)),
        2 => message::<BeginDraft>(bytes).iter().for_each(|begin| check(&begin.begin.path)),
        3 => drop(message::<WritePiece>(bytes)),
        4 => drop(message::<Finish>(bytes)),
        5 => drop(message::<DraftId>(bytes)),
        6 => message::<ApplyChanges>(bytes)
            .iter()
            .flat_map(|changes| &changes.0)
            .for_each(|change| check(change.path())),
        7 => message::<ListRequest>(bytes).iter().flat_map(|paths| &paths.0).for_each(check),
        8 => drop(message::<StatReply>(bytes)),
        9 => {
            if let Some(stored) = message::<StoredReply>(bytes) {
                let mut encoded = Vec::new();
                if stored.clone().encode_bounded(&mut encoded).is_ok() {
                    let read: StoredReply = decode(&encoded).unwrap();
                    assert_eq!(read.failures.len(), stored.failures.len());
                }
            }
        }
        10 => {
            if let Some(FailedReply(error)) = message::<FailedReply>(bytes) {
                let once = bounded(error);
                assert_eq!(bounded(once.clone()), once);
                let _ = once.to_string();
            }
        }
        11 => drop(message::<SetLength>(bytes)),
        _ => drop(message::<u32>(bytes)),
    }
});
