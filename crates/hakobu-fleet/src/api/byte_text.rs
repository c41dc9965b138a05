//! Names and paths in JSON: a text, or, if they are not UTF-8, an object with their bytes.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use hakobu_core::path::lossy;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use utoipa::ToSchema;

use crate::run_request::LocationText;

/// Bytes that are a text most of the time.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct ByteText(pub Vec<u8>);

/// A name or a path: a string, or an object with the bytes if they are not UTF-8.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(untagged)]
pub enum JsonBytes {
    /// The text.
    Text(String),
    /// Bytes that are not UTF-8.
    Bytes {
        /// The bytes in base64.
        base64: String,
        /// The text to show, with escapes. It is not read.
        #[serde(default)]
        text: String,
    },
}

impl utoipa::PartialSchema for ByteText {
    fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::schema::Schema> {
        JsonBytes::schema()
    }
}

impl ToSchema for ByteText {}

impl From<&[u8]> for ByteText {
    fn from(bytes: &[u8]) -> Self {
        Self(bytes.to_vec())
    }
}

impl From<&LocationText> for ByteText {
    fn from(location: &LocationText) -> Self {
        Self(location.0.clone())
    }
}

impl From<ByteText> for LocationText {
    fn from(text: ByteText) -> Self {
        Self(text.0)
    }
}

impl Serialize for ByteText {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let json = match std::str::from_utf8(&self.0) {
            Ok(text) => JsonBytes::Text(text.to_owned()),
            Err(_) => JsonBytes::Bytes { base64: BASE64_STANDARD.encode(&self.0), text: lossy(&self.0) },
        };
        json.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for ByteText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self(match JsonBytes::deserialize(deserializer)? {
            JsonBytes::Text(text) => text.into_bytes(),
            JsonBytes::Bytes { base64, .. } => {
                BASE64_STANDARD.decode(base64).map_err(serde::de::Error::custom)?
            }
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_come_back_whatever_they_are() {
        for bytes in [&b"a/b"[..], "\u{e9}".as_bytes(), b"a\xff\n", b""] {
            let json = serde_json::to_string(&ByteText::from(bytes)).unwrap();
            assert_eq!(serde_json::from_str::<ByteText>(&json).unwrap().0, bytes, "{json}");
        }
        let json = serde_json::to_string(&ByteText(b"a\xff".to_vec())).unwrap();
        assert_eq!(json, r#"{"base64":"Yf8=","text":"a\\xff"}"#);
        assert!(serde_json::from_str::<ByteText>(r#"{"base64":"!"}"#).is_err());
    }
}
