use proptest::prelude::*;

use super::*;

const KEY: [u8; 32] = [7; 32];

fn header(meta: usize, payload: usize) -> Header {
    Header::new(3, 1, 0x0102_0304, meta, payload, u64::from(payload > 0)).unwrap()
}

fn pair() -> (Sealer, SealChecker) {
    (Sealer::new(SealKey::new(&KEY)), SealChecker::new(SealKey::new(&KEY)))
}

#[test]
fn header_matches_the_documented_vector() {
    let header = Header::new(0x21, 0x80, 0xdead_beef, 5, 262_144, 0x0123_4567_89ab_cdef).unwrap();
    let expected = [
        0x21, 0x80, 0, 0, 5, 0, 0, 0, 0, 0, 4, 0, 0xef, 0xbe, 0xad, 0xde, 0xef, 0xcd, 0xab, 0x89, 0x67, 0x45,
        0x23, 0x01,
    ];
    assert_eq!(header.encode(), expected);
    assert_eq!(Header::decode(&expected).unwrap(), header);
}

/// The MAC of the documented vectors, computed without the code under test.
fn mac_by_hand(sequence: u64, header: &Header, digest: &PayloadDigest, meta: &[u8]) -> [u8; 32] {
    let mut message = sequence.to_le_bytes().to_vec();
    message.extend_from_slice(&header.encode());
    message.extend_from_slice(digest);
    message.extend_from_slice(meta);
    blake3::keyed_hash(&KEY, &message).into()
}

#[test]
fn seal_matches_the_documented_vectors() {
    let payload = [0x5a; 1000];
    let digest: PayloadDigest = blake3::hash(&payload).into();
    let header = Header::new(0x21, 0, 9, 5, payload.len(), 0).unwrap();
    let mut sealer = Sealer::new(SealKey::new(&KEY));
    let first = sealer.seal(&header, &digest, b"hello").unwrap();
    let second = sealer.seal(&header, &digest, b"hello").unwrap();
    assert_eq!(first.mac, mac_by_hand(0, &header, &digest, b"hello"));
    assert_eq!(second.mac, mac_by_hand(1, &header, &digest, b"hello"));
    assert_eq!(Seal::decode(&first.encode()), first);
    assert_eq!(hex(&first.encode()), VECTOR_FIRST);
    assert_eq!(hex(&second.mac), VECTOR_SECOND_MAC);
}

const VECTOR_FIRST: &str = "7105a2f0aef78b12086fdb9405046f92c6f7e3609c805df18d06dfc462ce80f6\
                            cac5a0bebda71d1ab3cb556d6df7d0771ad0c53107ae2c3c2903528b8d48998a";
const VECTOR_SECOND_MAC: &str = "bebfdb8822c89b8ba4902ca6bbee18d6b7d48732672816d008467164cd7bd63d";

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn lengths_beyond_the_limits_are_refused_both_ways() {
    assert!(Header::new(1, 0, 0, META_LIMIT_BYTES, PAYLOAD_LIMIT_BYTES, 1).is_ok());
    assert_eq!(
        Header::new(1, 0, 0, META_LIMIT_BYTES + 1, 0, 0),
        Err(FrameError::MetaTooLong(META_LIMIT_BYTES as u64 + 1))
    );
    let mut bytes = header(1, 1).encode();
    bytes[4..8].copy_from_slice(&(META_LIMIT_BYTES as u32 + 1).to_le_bytes());
    assert!(matches!(Header::decode(&bytes), Err(FrameError::MetaTooLong(_))));
    let mut bytes = header(1, 1).encode();
    bytes[8..12].copy_from_slice(&u32::MAX.to_le_bytes());
    assert_eq!(Header::decode(&bytes), Err(FrameError::PayloadTooLong(u32::MAX.into())));
}

#[test]
fn reserved_bits_and_stray_checksums_are_refused() {
    for byte in [2, 3] {
        let mut bytes = header(0, 0).encode();
        bytes[byte] = 1;
        assert!(matches!(Header::decode(&bytes), Err(FrameError::ReservedBits(_))));
    }
    let mut bytes = header(0, 0).encode();
    bytes[16] = 1;
    assert_eq!(Header::decode(&bytes), Err(FrameError::ChecksumWithoutPayload));
    let mut sealer = pair().0;
    assert_eq!(sealer.seal(&header(0, 0), &[1; 32], b""), Err(FrameError::ChecksumWithoutPayload));
}

#[test]
fn replayed_reordered_and_dropped_frames_are_found() {
    let header = header(2, 0);
    let bytes = header.encode();
    let (mut sealer, mut opener) = pair();
    let seals: Vec<Seal> = (0..3).map(|_| sealer.seal(&header, &[0; 32], b"ab").unwrap()).collect();
    opener.open(&bytes, &header, &seals[0], b"ab").unwrap();
    assert_eq!(opener.open(&bytes, &header, &seals[0], b"ab"), Err(FrameError::BadMac));
    let (_, mut opener) = pair();
    assert_eq!(opener.open(&bytes, &header, &seals[1], b"ab"), Err(FrameError::BadMac));
}

#[test]
fn sequence_numbers_never_come_round() {
    let mut next = u64::MAX - 1;
    assert_eq!(seal::take(&mut next), Ok(u64::MAX - 1));
    assert_eq!(seal::take(&mut next), Err(FrameError::SequenceExhausted));
    assert_eq!(seal::take(&mut next), Err(FrameError::SequenceExhausted));
}

proptest! {
    #[test]
    fn header_survives_the_wire(
        kind: u8, flags: u8, request: u32, checksum: u64,
        meta in 0..=META_LIMIT_BYTES, payload in 1..=PAYLOAD_LIMIT_BYTES,
    ) {
        let header = Header::new(kind, flags, request, meta, payload, checksum).unwrap();
        prop_assert_eq!(Header::decode(&header.encode()), Ok(header));
    }

    #[test]
    fn arbitrary_headers_never_panic_and_what_is_accepted_is_canonical(bytes: [u8; HEADER_BYTES]) {
        if let Ok(header) = Header::decode(&bytes) {
            prop_assert!(header.meta_bytes as usize <= META_LIMIT_BYTES);
            prop_assert!(header.payload_bytes as usize <= PAYLOAD_LIMIT_BYTES);
            prop_assert_eq!(header.encode(), bytes);
        }
    }

    #[test]
    fn small_headers_are_canonical_too(
        mut bytes: [u8; HEADER_BYTES], meta in 0u32..70_000, payload in 0u32..2, reserved in 0u8..2,
    ) {
        bytes[2] = reserved;
        bytes[3] = 0;
        bytes[4..8].copy_from_slice(&meta.to_le_bytes());
        bytes[8..12].copy_from_slice(&payload.to_le_bytes());
        if let Ok(header) = Header::decode(&bytes) {
            prop_assert_eq!(header.encode(), bytes);
        }
    }

    #[test]
    fn any_flipped_bit_breaks_the_seal(
        meta in proptest::collection::vec(any::<u8>(), 0..200), bit in 0usize..4096,
    ) {
        let header = header(meta.len(), 77);
        let (mut sealer, mut opener) = pair();
        let seal = sealer.seal(&header, &[9; 32], &meta).unwrap();
        let mut bytes = header.encode().to_vec();
        bytes.extend_from_slice(&seal.encode());
        bytes.extend_from_slice(&meta);
        let at = bit % (bytes.len() * 8);
        bytes[at / 8] ^= 1 << (at % 8);
        let (head, rest) = bytes.split_first_chunk::<HEADER_BYTES>().unwrap();
        let (seal, meta) = rest.split_first_chunk::<SEAL_BYTES>().unwrap();
        prop_assert_eq!(
            opener.open(head, &header, &Seal::decode(seal), meta),
            Err(FrameError::BadMac)
        );
    }
}
