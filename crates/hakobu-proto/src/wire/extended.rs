//! The wire format of extended attributes.

use hakobu_core::extended::{self as attributes, EXTENDED_BYTES_MAX};
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::bounded::BoundedBytes;
use super::mirror::Mirror;

/// A set of classes, as the sum of their numbers.
#[derive(Serialize, Deserialize)]
pub(crate) struct Classes(u8);

/// The extended attributes of one entry, which are checked while they are decoded.
#[derive(Serialize, Deserialize)]
pub(crate) struct Extended(
    #[serde(serialize_with = "as_bytes", deserialize_with = "checked")] attributes::Extended,
);

fn as_bytes<S: Serializer>(extended: &attributes::Extended, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_bytes(extended.as_bytes())
}

fn checked<'de, D: Deserializer<'de>>(from: D) -> Result<attributes::Extended, D::Error> {
    let BoundedBytes(bytes) = BoundedBytes::<EXTENDED_BYTES_MAX>::deserialize(from)?;
    attributes::Extended::decode(bytes).map_err(D::Error::custom)
}

impl Mirror<attributes::Classes> for Classes {
    fn of(value: &attributes::Classes) -> Self {
        Self(value.bits())
    }

    fn into_value(self) -> attributes::Classes {
        attributes::Classes::from_bits(self.0)
    }
}

impl Mirror<attributes::Extended> for Extended {
    fn of(value: &attributes::Extended) -> Self {
        Self(value.clone())
    }

    fn into_value(self) -> attributes::Extended {
        self.0
    }
}
