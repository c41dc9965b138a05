//! The wire format of paths.

use hakobu_core::path::{self, PATH_BYTES_MAX};
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::bounded::BoundedBytes;
use super::mirror::Mirror;

/// A path below a root, which is checked while it is decoded.
#[derive(Serialize, Deserialize)]
pub(crate) struct EntryPath(
    #[serde(serialize_with = "as_bytes", deserialize_with = "checked")] path::EntryPath,
);

/// A path that only the process that opens it can interpret.
#[derive(Serialize, Deserialize)]
pub(crate) struct PathBytes(BoundedBytes);

fn as_bytes<S: Serializer>(path: &path::EntryPath, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_bytes(path.as_bytes())
}

fn checked<'de, D: Deserializer<'de>>(from: D) -> Result<path::EntryPath, D::Error> {
    let BoundedBytes(path) = BoundedBytes::<PATH_BYTES_MAX>::deserialize(from)?;
    path::EntryPath::new(path).map_err(D::Error::custom)
}

impl Mirror<path::EntryPath> for EntryPath {
    fn of(value: &path::EntryPath) -> Self {
        Self(value.clone())
    }

    fn into_value(self) -> path::EntryPath {
        self.0
    }
}

impl Mirror<Vec<u8>> for PathBytes {
    fn of(value: &Vec<u8>) -> Self {
        Self(BoundedBytes::of(value))
    }

    fn into_value(self) -> Vec<u8> {
        self.0.into_value()
    }
}
