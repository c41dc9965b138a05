//! Defines byte strings, texts and lists with a limit, which is enforced while they are decoded.

use std::fmt;
use std::marker::PhantomData;

use hakobu_core::host::{self, NAME_BYTES_MAX};
use serde::de::{Error, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::mirror::Mirror;

/// At most `MAX` bytes; by default only limited by the message.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct BoundedBytes<const MAX: usize = { usize::MAX }>(pub(crate) Vec<u8>);

/// A text of at most `MAX` bytes.
#[derive(Debug, Serialize)]
#[serde(transparent)]
pub(crate) struct BoundedText<const MAX: usize>(String);

/// A list of at most `MAX` items.
#[derive(Debug, Serialize)]
#[serde(transparent)]
pub(crate) struct BoundedList<T, const MAX: usize>(Vec<T>);

/// The name of a device or of a setting.
pub(crate) type BoundedName = BoundedBytes<NAME_BYTES_MAX>;

impl<const MAX: usize> Serialize for BoundedBytes<MAX> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_bytes(&self.0)
    }
}

impl<'de, const MAX: usize> Deserialize<'de> for BoundedBytes<MAX> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Read<const MAX: usize>;
        impl<const MAX: usize> Visitor<'_> for Read<MAX> {
            type Value = BoundedBytes<MAX>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "at most {MAX} bytes")
            }

            fn visit_bytes<E: Error>(self, bytes: &[u8]) -> Result<BoundedBytes<MAX>, E> {
                if bytes.len() > MAX {
                    Err(E::custom("too many bytes"))
                } else {
                    Ok(BoundedBytes(bytes.to_vec()))
                }
            }
        }
        from.deserialize_bytes(Read)
    }
}

impl<'de, const MAX: usize> Deserialize<'de> for BoundedText<MAX> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        if text.len() > MAX { Err(D::Error::custom("too long a text")) } else { Ok(Self(text)) }
    }
}

impl<'de, T: Deserialize<'de>, const MAX: usize> Deserialize<'de> for BoundedList<T, MAX> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Read<T, const MAX: usize>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>, const MAX: usize> Visitor<'de> for Read<T, MAX> {
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
        from.deserialize_seq(Read::<T, MAX>(PhantomData)).map(Self)
    }
}

impl<const MAX: usize> Mirror<Vec<u8>> for BoundedBytes<MAX> {
    fn of(value: &Vec<u8>) -> Self {
        Self(value.clone())
    }

    fn into_value(self) -> Vec<u8> {
        self.0
    }
}

impl Mirror<host::KernelName> for BoundedName {
    fn of(value: &host::KernelName) -> Self {
        Self(value.as_bytes().to_vec())
    }

    fn into_value(self) -> host::KernelName {
        host::KernelName::new(self.0)
    }
}

impl<const MAX: usize> Mirror<String> for BoundedText<MAX> {
    fn of(value: &String) -> Self {
        Self(value.clone())
    }

    fn into_value(self) -> String {
        self.0
    }
}

impl<T, W: Mirror<T>, const MAX: usize> Mirror<Vec<T>> for BoundedList<W, MAX> {
    fn of(value: &Vec<T>) -> Self {
        Self(Mirror::of(value))
    }

    fn into_value(self) -> Vec<T> {
        self.0.into_value()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decodes<T: for<'de> Deserialize<'de>>(value: &impl Serialize) -> bool {
        postcard::from_bytes::<T>(&postcard::to_stdvec(value).unwrap()).is_ok()
    }

    #[test]
    fn what_is_beyond_a_limit_does_not_decode() {
        for (length, fits) in [(0, true), (7, true), (8, false)] {
            assert_eq!(decodes::<BoundedBytes<7>>(&vec![b'x'; length]), fits, "{length} bytes");
            assert_eq!(decodes::<BoundedText<7>>(&"x".repeat(length)), fits, "a text of {length}");
            assert_eq!(decodes::<BoundedList<u64, 7>>(&vec![300u64; length]), fits, "a list of {length}");
        }
        assert!(decodes::<BoundedName>(&vec![b'x'; 64]) && !decodes::<BoundedName>(&vec![b'x'; 65]));
    }

    #[test]
    fn a_length_without_its_bytes_does_not_decode() {
        let huge = [0xff, 0xff, 0xff, 0xff, 0x7f];
        assert!(postcard::from_bytes::<BoundedBytes>(&huge).is_err());
        assert!(postcard::from_bytes::<BoundedList<u64, { usize::MAX }>>(&huge).is_err());
    }
}
