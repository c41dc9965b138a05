//! Recognition of the content of a disk. For any input, lists and texts keep their limits and can be sent.

#![no_main]

use hakobu_core::disk::{DeviceFacts, DiskList, PARTITIONS_MAX, SIGNATURES_MAX};
use hakobu_endpoints::block::inspect::{ReadableMedium, of_contents};
use hakobu_proto::control::AgentMessage;
use libfuzzer_sys::fuzz_target;

/// A disk that is large and mostly zeros: pieces of up to 255 bytes, each behind its place in
/// units of 16 bytes and its length.
struct Sparse<'a> {
    size_bytes: u64,
    pieces: Vec<(u64, &'a [u8])>,
}

impl<'a> Sparse<'a> {
    fn new(size_bytes: u64, mut bytes: &'a [u8]) -> Self {
        let mut pieces = Vec::new();
        while let Some(([low, middle, high, length], rest)) = bytes.split_first_chunk() {
            let (piece, rest) = rest.split_at(rest.len().min(usize::from(*length)));
            pieces.push((u64::from(u32::from_le_bytes([*low, *middle, *high, 0])) * 16, piece));
            bytes = rest;
        }
        Self { size_bytes, pieces }
    }
}

impl ReadableMedium for Sparse<'_> {
    fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    fn read(&self, offset_bytes: u64, into: &mut [u8]) -> bool {
        let end_bytes = offset_bytes + into.len() as u64;
        into.fill(0);
        for (at, piece) in &self.pieces {
            let from = offset_bytes.max(*at);
            let to = end_bytes.min(at + piece.len() as u64);
            if from < to {
                let target = (from - offset_bytes) as usize..(to - offset_bytes) as usize;
                into[target].copy_from_slice(&piece[(from - at) as usize..(to - at) as usize]);
            }
        }
        end_bytes <= self.size_bytes
    }
}

fuzz_target!(|bytes: &[u8]| {
    let Some(([shift, size @ .., sector], rest)) = bytes.split_first_chunk::<6>() else { return };
    let size_bytes = u64::from(u32::from_le_bytes(*size)) << (shift % 31);
    let logical_sector_bytes = 1_u32 << (sector % 32);
    let mut facts = DeviceFacts { size_bytes, logical_sector_bytes, ..DeviceFacts::default() };
    of_contents(&Sparse::new(size_bytes, rest), &mut facts);
    assert!(facts.partitions.len() <= PARTITIONS_MAX && facts.contents.len() <= SIGNATURES_MAX);
    assert!(facts.all_contents().count() <= SIGNATURES_MAX * (1 + PARTITIONS_MAX));
    let encoded = postcard::to_stdvec(&AgentMessage::Disks(Ok(DiskList(vec![facts.clone()])))).unwrap();
    let AgentMessage::Disks(Ok(DiskList(decoded))) = postcard::from_bytes(&encoded).unwrap() else {
        panic!()
    };
    assert_eq!(decoded, [facts]);
});
