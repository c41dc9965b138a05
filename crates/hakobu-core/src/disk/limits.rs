//! Limits of facts about devices, and decoding that keeps them.

use std::fmt;
use std::marker::PhantomData;

use serde::Serializer;
use serde::de::{Deserialize, Deserializer, Error, SeqAccess, Visitor};

use crate::path::serde_bytes_vec;

/// The most disks of one machine that are told.
pub const DISKS_MAX: usize = 1024;
/// The most partitions of one disk that are told.
pub const PARTITIONS_MAX: usize = 256;
/// The most signatures that are told of one device or partition.
pub const SIGNATURES_MAX: usize = 32;
/// The most uses of one device that are told.
pub const USES_MAX: usize = 256;
/// The most remarks on one device.
pub const NOTES_MAX: usize = 32;
/// The longest name, label or remark, in bytes.
pub const TEXT_BYTES_MAX: usize = 512;
/// The longest ID of a device, in bytes.
pub const ID_BYTES_MAX: usize = 128;
/// The longest path, in bytes.
pub const PATH_BYTES_MAX: usize = 4095;

/// A text cut to [`TEXT_BYTES_MAX`] bytes, at a character's edge.
pub fn shortened(mut text: String) -> String {
    if text.len() > TEXT_BYTES_MAX {
        text.truncate(text.floor_char_boundary(TEXT_BYTES_MAX));
    }
    text
}

/// Bytes of at most `MAX`, as serde's byte type. For `#[serde(with)]`.
pub struct BoundedBytes<const MAX: usize>;

impl<const MAX: usize> BoundedBytes<MAX> {
    /// Writes bytes as bytes.
    pub fn serialize<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
        serde_bytes_vec::serialize(bytes, serializer)
    }

    /// Reads bytes, but no more than `MAX`.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
        let bytes = serde_bytes_vec::deserialize(deserializer)?;
        if bytes.len() > MAX { Err(D::Error::custom("too many bytes")) } else { Ok(bytes) }
    }
}

/// Reads a text of at most `MAX` bytes.
pub fn bounded_text<'de, D: Deserializer<'de>, const MAX: usize>(
    deserializer: D,
) -> Result<String, D::Error> {
    let text = String::deserialize(deserializer)?;
    if text.len() > MAX { Err(D::Error::custom("too long a text")) } else { Ok(text) }
}

/// Reads a list of at most `MAX`.
pub fn bounded_list<'de, D: Deserializer<'de>, T: Deserialize<'de>, const MAX: usize>(
    deserializer: D,
) -> Result<Vec<T>, D::Error> {
    struct List<T, const MAX: usize>(PhantomData<T>);
    impl<'de, T: Deserialize<'de>, const MAX: usize> Visitor<'de> for List<T, MAX> {
        type Value = Vec<T>;
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "a list of at most {MAX}")
        }
        fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> Result<Vec<T>, A::Error> {
            let mut list = Vec::new();
            while let Some(element) = sequence.next_element()? {
                if list.len() >= MAX {
                    return Err(A::Error::custom("too long a list"));
                }
                list.push(element);
            }
            Ok(list)
        }
    }
    deserializer.deserialize_seq(List::<T, MAX>(PhantomData))
}

/// Reads a list of at most `MAX` short texts.
pub fn bounded_texts<'de, D: Deserializer<'de>, const MAX: usize>(
    deserializer: D,
) -> Result<Vec<String>, D::Error> {
    let texts: Vec<String> = bounded_list::<D, String, MAX>(deserializer)?;
    match texts.iter().any(|text| text.len() > TEXT_BYTES_MAX) {
        true => Err(D::Error::custom("too long a text")),
        false => Ok(texts),
    }
}
