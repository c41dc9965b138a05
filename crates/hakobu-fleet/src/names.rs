//! The names of brokers and of groups, which are parts of the bus's subjects as well.

use std::fmt;

use hakobu_core::error::Result;
use serde::{Deserialize, Serialize};

use crate::limits::malformed;

/// The maximum length of a name in bytes.
pub const NAME_BYTES_MAX: usize = 64;

macro_rules! names {
    ($( $(#[$doc:meta])* $name:ident $what:literal ),* $(,)?) => { $(
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(String);

        impl $name {
            /// Checks a name: ASCII letters, digits, `-` and `_`.
            ///
            /// # Errors
            /// `Usage` for an empty or long name, and for one with other characters.
            pub fn new(name: impl Into<String>) -> Result<Self> {
                let name = name.into();
                let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
                if name.is_empty() || name.len() > NAME_BYTES_MAX || !name.bytes().all(is_allowed) {
                    let rule = format!("1 to {NAME_BYTES_MAX} letters, digits, \"-\" and \"_\" are possible");
                    return Err(malformed($what, rule).at(name));
                }
                Ok(Self(name))
            }

            /// Returns the name.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl TryFrom<String> for $name {
            type Error = hakobu_core::Error;

            fn try_from(name: String) -> Result<Self> {
                Self::new(name)
            }
        }

        impl From<$name> for String {
            fn from(name: $name) -> String {
                name.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(&self.0)
            }
        }
    )* };
}

names! {
    /// The name of a broker.
    BrokerName "the name of a broker",
    /// The name of a group of brokers that reach the same locations.
    GroupName "the name of a group",
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_one_part_of_a_subject() {
        for good in ["a", "site-a", "Host_2", &"x".repeat(NAME_BYTES_MAX)] {
            assert_eq!(GroupName::new(good).unwrap().as_str(), good);
        }
        for bad in ["", "a.b", "*", ">", "a b", "a\n", "\u{e9}", &"x".repeat(NAME_BYTES_MAX + 1)] {
            assert!(BrokerName::new(bad).is_err() && GroupName::new(bad).is_err(), "{bad:?}");
        }
    }
}
