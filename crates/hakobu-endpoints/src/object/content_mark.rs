//! Marks of content from what a store shows of it: checksums, and MD5s of the MD5s of parts.
//!
//! The lowest bits say of which kind a mark is, so that unequal marks of one kind are those of different contents
//! ([`ContentMark`]).

use hakobu_core::entry::ContentMark;

use super::api::{ListedObject, ObjectHead, StoredChecksum};
use super::metadata::MetadataConvention;

/// Returns the mark of what a listing shows.
///
/// S3's entity tag is the MD5 of the content of an object that was stored in one request, and for one in parts the MD5 of
/// their MD5s with their number. Where it is neither, as with keys of KMS, it is that of no other content either.
pub(super) fn listed_mark(convention: MetadataConvention, object: &ListedObject) -> ContentMark {
    let md5 = match object.checksum {
        Some(StoredChecksum::Md5(md5)) => Some(md5),
        _ => object.md5,
    };
    match md5 {
        Some(md5) => ContentMark::of_md5(&md5),
        None => tag_mark(convention, object.version.etag.as_deref()),
    }
}

/// Returns the mark of what an answer about one object shows.
pub(super) fn head_mark(convention: MetadataConvention, head: &ObjectHead) -> ContentMark {
    match (head.checksum, head.md5) {
        (Some(StoredChecksum::Crc64(sum)), _) => ContentMark::of_crc64(sum),
        (Some(StoredChecksum::Md5(md5)), _) | (_, Some(md5)) => ContentMark::of_md5(&md5),
        _ => tag_mark(convention, head.version.etag.as_deref()),
    }
}

fn tag_mark(convention: MetadataConvention, etag: Option<&str>) -> ContentMark {
    let etag = etag.filter(|_| convention == MetadataConvention::S3).and_then(of_etag);
    etag.map_or(ContentMark::default(), |(md5, parts)| ContentMark::of_tag(&md5, parts))
}

/// Returns the MD5 that an entity tag is, if it is one.
pub(super) fn md5_of(etag: &str) -> Option<[u8; 16]> {
    of_etag(etag).filter(|(_, parts)| *parts == 0).map(|(md5, _)| md5)
}

/// Returns the MD5 in an entity tag, and the number of parts, 0 if it is that of the content itself.
fn of_etag(etag: &str) -> Option<([u8; 16], u32)> {
    let tag = etag.trim_matches('"');
    let (md5, parts) = match tag.split_once('-') {
        Some((md5, parts)) => (md5, parts.parse().ok().filter(|parts| *parts > 0)?),
        None => (tag, 0),
    };
    let (digits, rest) = md5.as_bytes().as_chunks::<2>();
    if !rest.is_empty() || !md5.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return None;
    }
    let bytes: Option<Vec<u8>> =
        digits.iter().map(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()).collect();
    Some((bytes?.try_into().ok()?, parts))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::api::ObjectVersion;

    const HELLO: &str = "5d41402abc4b2a76b9719d911017c592";
    const HELLO_MD5: [u8; 16] =
        [0x5d, 0x41, 0x40, 0x2a, 0xbc, 0x4b, 0x2a, 0x76, 0xb9, 0x71, 0x9d, 0x91, 0x10, 0x17, 0xc5, 0x92];

    fn of_s3(etag: &str) -> ContentMark {
        let version = ObjectVersion { etag: Some(etag.to_owned()), generation: None };
        listed_mark(MetadataConvention::S3, &ListedObject { version, ..ListedObject::default() })
    }

    #[test]
    fn one_content_has_one_mark_in_all_stores() {
        let mark = of_s3(&format!("\"{HELLO}\""));
        let checksum = Some(StoredChecksum::Md5(HELLO_MD5));
        let azure = ListedObject { checksum, ..ListedObject::default() };
        let checksum = Some(StoredChecksum::Crc32c(7));
        let gcs = ListedObject { checksum, md5: Some(HELLO_MD5), ..ListedObject::default() };
        let azure = listed_mark(MetadataConvention::Azure, &azure);
        let gcs = listed_mark(MetadataConvention::Gcs, &gcs);
        let upper = of_s3(&HELLO.to_uppercase());
        for other in [mark, azure, gcs, upper] {
            assert!(mark.is_same(other) && other.is_same(mark) && !mark.is_other(other), "{other:?}");
        }
    }

    #[test]
    fn parts_have_marks_of_their_own_and_other_tags_none() {
        let marks = ["", "-2", "-3"].map(|parts| of_s3(&format!("\"{HELLO}{parts}\"")));
        for (one, other) in [(0, 1), (1, 2), (0, 2)] {
            // Neither may be of what it seems to be, so nothing is proven.
            assert!(!marks[one].is_same(marks[other]) && !marks[one].is_other(marks[other]));
        }
        let none = ["", "\"\"", "\"5d41\"", "\"x\"", "W/\"1\"", "+d41402abc4b2a76b9719d911017c592"];
        let long = [format!("{HELLO}00"), format!("{HELLO}-x"), format!("{HELLO}-0")];
        for etag in none.into_iter().chain(long.iter().map(String::as_str)) {
            assert_eq!(of_s3(etag), ContentMark::default(), "{etag}");
        }
        assert_eq!(listed_mark(MetadataConvention::Gcs, &ListedObject::default()), ContentMark::default());
        assert_eq!((md5_of(HELLO), md5_of(&format!("{HELLO}-2"))), (Some(HELLO_MD5), None));
    }
}
