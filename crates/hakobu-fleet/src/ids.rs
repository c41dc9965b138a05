//! The numbers of rows of the ledger, epochs, and moments.
//!
//! All of them fit a signed number of 64 bits, as databases have them: no other value can be made.

use std::fmt;

use hakobu_core::error::Result;
use serde::{Deserialize, Serialize};

use crate::limits::{NUMBER_MAX, malformed};

macro_rules! numbers {
    ($( $(#[$doc:meta])* $name:ident $what:literal ),* $(,)?) => { $(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "u64", into = "u64")]
        pub struct $name(u64);

        impl $name {
            /// Creates it from a number.
            ///
            /// # Errors
            /// `Usage` for a number that a ledger cannot keep.
            pub fn new(number: u64) -> Result<Self> {
                if number > NUMBER_MAX {
                    return Err(malformed($what, format_args!("{number} is above {NUMBER_MAX}")));
                }
                Ok(Self(number))
            }

            /// Returns the number.
            pub fn get(self) -> u64 {
                self.0
            }

            /// Returns the next one, or `None` after the last.
            pub fn next(self) -> Option<Self> {
                Self::new(self.0.saturating_add(1)).ok()
            }

            /// Returns the number as a database keeps it.
            pub(crate) fn signed(self) -> i64 {
                self.0.cast_signed()
            }
        }

        impl TryFrom<u64> for $name {
            type Error = hakobu_core::Error;

            fn try_from(number: u64) -> Result<Self> {
                Self::new(number)
            }
        }

        impl From<$name> for u64 {
            fn from(number: $name) -> u64 {
                number.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    )* };
}

numbers! {
    /// The number of a run, from 1.
    RunId "the number of a run",
    /// The number of a unit, from 1; unique in a ledger, not only in its run.
    UnitId "the number of a unit",
    /// The number of a relationship, from 1.
    RelationshipId "the number of a relationship",
    /// The number of a token, from 1.
    TokenId "the number of a token",
    /// The place of a row in a list that only grows, from 1.
    RowNumber "the number of a row",
    /// The number of times that something was changed, for changes that must not meet another.
    Revision "a revision",
    /// The fencing number of a unit. Every lease and every return raises it, so that who knows only an earlier one has no say.
    Epoch "an epoch",
    /// A moment by the clock of the control plane, in milliseconds since 1970.
    Moment "a moment",
}

impl Moment {
    /// Returns the moment so many milliseconds later.
    #[must_use]
    pub fn plus_ms(self, milliseconds: u64) -> Self {
        Self(self.0.saturating_add(milliseconds).min(NUMBER_MAX))
    }

    /// Returns the moment so many milliseconds earlier.
    #[must_use]
    pub fn minus_ms(self, milliseconds: u64) -> Self {
        Self(self.0.saturating_sub(milliseconds))
    }
}

/// The name of a unit for a broker: its run and its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct UnitKey {
    /// The run.
    pub run: RunId,
    /// The unit.
    pub unit: UnitId,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_no_ledger_keeps_cannot_be_made() {
        let last = Epoch::new(NUMBER_MAX).unwrap();
        assert_eq!(last.signed(), i64::MAX);
        assert_eq!(last.next(), None);
        assert!(Epoch::new(NUMBER_MAX + 1).is_err() && Epoch::new(u64::MAX).is_err());
        assert!(serde_json::from_str::<RunId>("9223372036854775808").is_err());
        assert_eq!(serde_json::from_str::<RunId>("7").unwrap().get(), 7);
    }
}
