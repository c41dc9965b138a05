//! Compressed content. What is unpacked is as long as it was said to be, within its limit, and nothing is allocated beyond that.

#![no_main]

use hakobu_core::extent::PIECE_BYTES;
use hakobu_net::compression::Unpacker;
use hakobu_proto::compressed::CompressedHead;
use libfuzzer_sys::fuzz_target;

const CONTENT_MAX: usize = PIECE_BYTES as usize;

fuzz_target!(|bytes: &[u8]| {
    let Some((which, payload)) = bytes.split_first() else { return };
    let is_sealed = which % 2 == 1;
    let (mut unpacker, mut content) = (Unpacker::default(), Vec::new());
    // The second time its context and buffer have been used.
    for _ in 0..2 {
        let unpacked = unpacker.unpack(payload, is_sealed, CONTENT_MAX, &mut content);
        assert!(content.len() <= CONTENT_MAX);
        if let Ok(digest) = unpacked {
            let (head, _) = CompressedHead::decode(payload, is_sealed, CONTENT_MAX).unwrap();
            assert_eq!((content.len(), digest), (head.content_bytes as usize, head.digest));
            assert!(content.len() > payload.len());
        }
    }
});
