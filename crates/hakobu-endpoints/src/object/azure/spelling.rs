//! Checksums, tags and block IDs as Azure spells them.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;

/// Returns a CRC-64 as headers have it: the least significant byte first.
pub(super) fn crc64_text(crc64: u64) -> String {
    BASE64_STANDARD.encode(crc64.to_le_bytes())
}

/// Returns the CRC-64 of a header; `None` unless it has eight bytes.
pub(super) fn crc64_of(text: &str) -> Option<u64> {
    Some(u64::from_le_bytes(BASE64_STANDARD.decode(text.trim()).ok()?.try_into().ok()?))
}

/// Returns the MD5 of a header; `None` unless it has sixteen bytes.
pub(super) fn md5_of(text: &str) -> Option<[u8; 16]> {
    BASE64_STANDARD.decode(text.trim()).ok()?.try_into().ok()
}

/// Returns an entity tag with its quotes, which listings leave out.
pub(super) fn etag_of(text: &str) -> Option<String> {
    let text = text.trim();
    match text.is_empty() {
        true => None,
        false if text.ends_with('"') => Some(text.to_owned()),
        false => Some(format!("\"{text}\"")),
    }
}

/// The beginning of the IDs of blocks that hakobu sends. All IDs of a blob have the same length.
const BLOCK_MARK: [u8; 4] = *b"hkb1";

/// Returns the ID of a block: with its content's checksum in it, a block of that name has that content.
pub(super) fn block_id(number: u32, crc64: u64) -> String {
    let mut bytes = [0; 16];
    bytes[..4].copy_from_slice(&BLOCK_MARK);
    bytes[4..8].copy_from_slice(&number.to_be_bytes());
    bytes[8..].copy_from_slice(&crc64.to_be_bytes());
    BASE64_STANDARD.encode(bytes)
}

/// Returns the number and the checksum in the ID of a block; `None` if another program has sent it.
pub(super) fn of_block_id(id: &str) -> Option<(u32, u64)> {
    let bytes: [u8; 16] = BASE64_STANDARD.decode(id.trim()).ok()?.try_into().ok()?;
    let (mark, rest) = bytes.split_first_chunk()?;
    let (number, crc64) = rest.split_first_chunk()?;
    let crc64 = u64::from_be_bytes(crc64.try_into().ok()?);
    (*mark == BLOCK_MARK).then(|| (u32::from_be_bytes(*number), crc64))
}

#[cfg(test)]
mod tests {
    use hakobu_core::checksum::crc64;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn blocks_are_known_by_their_ids(number in any::<u32>(), crc64 in any::<u64>()) {
            prop_assert_eq!(of_block_id(&block_id(number, crc64)), Some((number, crc64)));
            prop_assert_eq!(block_id(number, crc64).len(), block_id(1, 0).len());
        }

        #[test]
        fn any_text_is_read_without_a_panic(text in "[-A-Za-z0-9+/=\" ]{0,30}") {
            let _ = (of_block_id(&text), crc64_of(&text), md5_of(&text), etag_of(&text));
        }
    }

    #[test]
    fn texts_are_spelt_as_azure_spells_them() {
        // The bytes of the check value in the catalogue, the least significant first.
        assert_eq!(crc64_text(crc64(b"123456789")), "iJh5CoYUi64=");
        assert_eq!(crc64_of("iJh5CoYUi64="), Some(crc64(b"123456789")));
        assert_eq!(crc64_of("4waSgw=="), None);
        assert_eq!(etag_of("0x8DC").as_deref(), Some("\"0x8DC\""));
        assert_eq!(etag_of("\"0x8DC\"").as_deref(), Some("\"0x8DC\""));
        assert_eq!(etag_of(""), None);
        assert_eq!(of_block_id("AAAAAA=="), None);
    }
}
