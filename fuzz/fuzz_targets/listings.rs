//! Listings put together from frames. What is accepted is in order, each name once, and can be sent
//! on and read again.

#![no_main]

use hakobu_core::endpoint::TargetOutcome;
use hakobu_core::error::Error;
use hakobu_core::listing::DirectoryListing;
use hakobu_core::path::check_name;
use hakobu_proto::listings::{Assembler, encode};
use libfuzzer_sys::fuzz_target;

const ENTRIES_MAX: usize = 1000;

fn listed(assembler: Assembler) -> Option<Vec<DirectoryListing>> {
    match assembler.finish() {
        Ok(TargetOutcome::Listed(listed)) => Some(listed),
        _ => None,
    }
}

fuzz_target!(|bytes: &[u8]| {
    // Frames are separated by a length of one byte each, then the rest is one frame.
    let Some((cut, rest)) = bytes.split_first() else { return };
    let (first, second) = rest.split_at(usize::from(*cut).min(rest.len()));
    let mut assembler = Assembler::new(ENTRIES_MAX);
    if assembler.frame(first).is_err() || assembler.frame(second).is_err() {
        return;
    }
    let Some(read) = listed(assembler) else { return };
    let mut entries = 0;
    for listing in read.iter().filter_map(|listing| listing.result.as_ref().ok()) {
        assert!(listing.is_sorted());
        entries += listing.len();
        (0..listing.len()).for_each(|index| check_name(listing.name(index)).unwrap());
    }
    assert!(entries <= ENTRIES_MAX);
    let mut again = Assembler::new(ENTRIES_MAX);
    encode(&read, &mut Vec::new(), |payload, _| again.frame(payload)).unwrap();
    let again = listed(again).unwrap();
    assert_eq!(again.len(), read.len());
    for (one, other) in read.iter().zip(&again) {
        assert_eq!(one.path, other.path);
        match (&one.result, &other.result) {
            (Ok(one), Ok(other)) => {
                let encoded = |listing: &hakobu_core::listing::Listing| {
                    let mut bytes = Vec::new();
                    listing.encode(&mut bytes);
                    bytes
                };
                assert_eq!(encoded(one), encoded(other));
            }
            (one, other) => {
                let error = |result: &Result<_, Error>| result.as_ref().err().cloned();
                assert_eq!(
                    error(&one.as_ref().map(drop).map_err(Clone::clone)),
                    error(&other.as_ref().map(drop).map_err(Clone::clone))
                );
            }
        }
    }
});
