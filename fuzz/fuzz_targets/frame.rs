//! Frame headers and seals. A header that decodes keeps its limits and encodes to the same bytes;
//! no bytes pass for a seal but those that the key's holder made for this place.

#![no_main]

use hakobu_proto::frame::{
    HEADER_BYTES, Header, META_LIMIT_BYTES, PAYLOAD_LIMIT_BYTES, SEAL_BYTES, Seal, SealChecker, SealKey,
    Sealer,
};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Some((header_bytes, rest)) = bytes.split_first_chunk::<HEADER_BYTES>() else { return };
    let Ok(header) = Header::decode(header_bytes) else { return };
    assert!(header.meta_bytes as usize <= META_LIMIT_BYTES);
    assert!(header.payload_bytes as usize <= PAYLOAD_LIMIT_BYTES);
    assert_eq!(&header.encode(), header_bytes);
    let Some((seal_bytes, meta)) = rest.split_first_chunk::<SEAL_BYTES>() else { return };
    let key = || SealKey::new(&[7; 32]);
    let forged = Seal::decode(seal_bytes);
    assert_eq!(&forged.encode(), seal_bytes);
    assert!(SealChecker::new(key()).open(header_bytes, &header, &forged, meta).is_err());

    let digest = if header.payload_bytes == 0 { [0; 32] } else { forged.digest };
    let mut sealer = Sealer::new(key());
    let Ok(seal) = sealer.seal(&header, &digest, meta) else { return };
    let mut opener = SealChecker::new(key());
    opener.open(header_bytes, &header, &seal, meta).unwrap();
    // A replayed frame is rejected: the checker expects the next one.
    assert!(opener.open(header_bytes, &header, &seal, meta).is_err());
    if let Some((last, before)) = meta.split_last() {
        let changed = [before, &[last ^ 1]].concat();
        assert!(SealChecker::new(key()).open(header_bytes, &header, &seal, &changed).is_err());
    }
});
