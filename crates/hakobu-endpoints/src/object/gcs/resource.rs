//! Objects as the interface in JSON describes them, and checksums as headers have them.

use std::collections::BTreeMap;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use crc_fast::{CrcAlgorithm, Digest};
use hakobu_core::entry::FileTime;
use serde::{Deserialize, Serialize};

use super::bucket::GcsNewObjects;
use crate::object::api::{ListedObject, ObjectHead, ObjectProperties, ObjectVersion, StoredChecksum};
use crate::object::s3::spelling::{crc32c_of, time_of};

/// The fields of an object that are asked for.
pub(super) const FIELDS: &str =
    "name,size,generation,timeCreated,metadata,crc32c,md5Hash,storageClass,contentType";
/// The storage class that is not worth mentioning.
const USUAL_CLASS: &str = "STANDARD";
/// Generations are moments in microseconds since 1970. Other servers may count otherwise.
const GENERATIONS_US: std::ops::Range<u64> = 1_200_000_000_000_000..8_000_000_000_000_000;

/// An object in an answer.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct ObjectResource {
    pub(super) name: String,
    size: String,
    generation: String,
    time_created: String,
    pub(super) metadata: BTreeMap<String, Option<String>>,
    crc32c: String,
    md5_hash: String,
    storage_class: String,
    content_type: Option<String>,
}

/// An object in a request: what it is stored with.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct NewResource<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) name: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) content_type: Option<&'a str>,
    pub(super) metadata: BTreeMap<&'a str, &'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) storage_class: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) crc32c: Option<String>,
}

impl<'a> NewResource<'a> {
    /// Returns the resource of an object that is stored. `usual` has what the user wants for all objects.
    pub(super) fn new(key: &str, properties: &'a ObjectProperties, usual: &'a GcsNewObjects) -> Self {
        Self {
            name: None,
            content_type: content_type(key, properties, usual),
            metadata: properties.metadata.iter().map(|(name, value)| (&**name, &**value)).collect(),
            storage_class: usual.storage_class.as_deref().or(properties.storage_class.as_deref()),
            crc32c: None,
        }
    }

    /// Returns it as JSON.
    pub(super) fn json(&self) -> Vec<u8> {
        // Strings and maps of strings can always be written.
        serde_json::to_vec(self).unwrap_or_default()
    }
}

/// Returns the content type of a new object.
pub(super) fn content_type<'a>(
    key: &str,
    properties: &'a ObjectProperties,
    usual: &'a GcsNewObjects,
) -> Option<&'a str> {
    let wanted = usual.content_type.as_deref().filter(|_| !key.ends_with('/'));
    wanted.or(properties.content_type.as_deref())
}

impl ObjectResource {
    /// Returns its size.
    pub(super) fn size_bytes(&self) -> Option<u64> {
        self.size.parse().ok()
    }

    /// Returns its version.
    pub(super) fn version(&self) -> ObjectVersion {
        ObjectVersion { etag: None, generation: self.generation.parse().ok() }
    }

    /// Returns its CRC-32C.
    pub(super) fn crc32c(&self) -> Option<u32> {
        crc32c_of(&self.crc32c)
    }

    fn md5(&self) -> Option<[u8; 16]> {
        BASE64_STANDARD.decode(&self.md5_hash).ok()?.try_into().ok()
    }

    fn checksum(&self) -> Option<StoredChecksum> {
        let md5 = || self.md5().map(StoredChecksum::Md5);
        self.crc32c().map(StoredChecksum::Crc32c).or_else(md5)
    }

    fn uploaded(&self) -> Option<FileTime> {
        uploaded(self.version().generation, || time_of(&self.time_created))
    }

    fn metadata(&mut self) -> Vec<(String, String)> {
        let pairs = std::mem::take(&mut self.metadata).into_iter();
        pairs.filter_map(|(name, value)| Some((name.to_lowercase(), value?))).collect()
    }

    /// Returns it as an entry of a listing; `None` if it is no object.
    pub(super) fn listed(mut self) -> Option<ListedObject> {
        Some(ListedObject {
            size_bytes: self.size_bytes()?,
            uploaded: self.uploaded()?,
            version: self.version(),
            storage_class: storage_class(&self.storage_class),
            is_archived: false,
            metadata: Some(self.metadata()),
            checksum: self.checksum(),
            md5: self.md5(),
            key: Some(self.name).filter(|name| !name.is_empty())?,
        })
    }

    /// Returns its metadata; `None` if it is no object.
    pub(super) fn head(mut self) -> Option<ObjectHead> {
        Some(ObjectHead {
            size_bytes: self.size_bytes()?,
            uploaded: self.uploaded()?,
            version: self.version(),
            metadata: self.metadata(),
            checksum: self.checksum(),
            md5: self.md5(),
            storage_class: storage_class(&self.storage_class),
            is_archived: false,
            content_type: self.content_type,
        })
    }
}

/// Returns the storage class if it is not the usual one.
pub(super) fn storage_class(name: &str) -> Option<String> {
    (!name.is_empty() && name != USUAL_CLASS).then(|| name.to_owned())
}

/// Returns the time of an upload. It is that of the generation, which answers with content have as well as listings.
pub(super) fn uploaded(
    generation: Option<u64>,
    otherwise: impl FnOnce() -> Option<FileTime>,
) -> Option<FileTime> {
    match generation.filter(|generation| GENERATIONS_US.contains(generation)) {
        Some(us) => {
            Some(FileTime { seconds: (us / 1_000_000) as i64, nanoseconds: (us % 1_000_000) as u32 * 1000 })
        }
        None => otherwise(),
    }
}

/// Returns the CRC-32C of content in pieces.
pub(super) fn crc32c(pieces: &[Bytes]) -> u32 {
    let mut digest = Digest::new(CrcAlgorithm::Crc32Iscsi);
    pieces.iter().for_each(|piece| digest.update(piece));
    digest.finalize() as u32
}

/// Returns the CRC-32C of two pieces of content together, from that of each.
pub(super) fn joined_crc32c(first: u32, second: u32, second_bytes: u64) -> u32 {
    let (first, second) = (u64::from(first), u64::from(second));
    crc_fast::checksum_combine(CrcAlgorithm::Crc32Iscsi, first, second, second_bytes) as u32
}

/// Returns a CRC-32C as requests have it.
pub(super) fn crc32c_text(crc32c: u32) -> String {
    BASE64_STANDARD.encode(crc32c.to_be_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resource(json: &str) -> ObjectResource {
        serde_json::from_str(json).unwrap()
    }

    #[test]
    fn checksums_are_those_of_the_catalogue() {
        let pieces = [Bytes::from_static(b"1234"), Bytes::from_static(b"56789")];
        assert_eq!(crc32c(&pieces), 0xe306_9283);
        assert_eq!(crc32c_text(0xe306_9283), "4waSgw==");
        assert_eq!(joined_crc32c(crc32c(&pieces[..1]), crc32c(&pieces[1..]), 5), 0xe306_9283);
    }

    #[test]
    fn objects_are_read_with_all_that_is_listed() {
        let listed = resource(
            r#"{"name":"a/b","size":"9","generation":"1795788191531093","timeCreated":"2026-11-27T14:03:11.5Z",
            "metadata":{"Mtime":"x","gone":null},"crc32c":"4waSgw==","storageClass":"NEARLINE"}"#,
        );
        let listed = listed.listed().unwrap();
        assert_eq!(listed.metadata.unwrap(), [("mtime".to_owned(), "x".to_owned())]);
        assert_eq!(listed.uploaded, FileTime { seconds: 1_795_788_191, nanoseconds: 531_093_000 });
        assert_eq!(listed.checksum, Some(StoredChecksum::Crc32c(0xe306_9283)));
        assert_eq!(listed.storage_class.as_deref(), Some("NEARLINE"));
        // Other servers count generations from 1.
        let other =
            resource(r#"{"name":"a","size":"0","generation":"1","timeCreated":"1970-01-01T00:00:07Z"}"#);
        assert_eq!(other.head().unwrap().uploaded, FileTime { seconds: 7, nanoseconds: 0 });
        for none in [r#"{"name":"a"}"#, r#"{"name":"a","size":"x","timeCreated":"1970-01-01T00:00:07Z"}"#] {
            assert!(resource(none).listed().is_none(), "{none}");
        }
    }
}
