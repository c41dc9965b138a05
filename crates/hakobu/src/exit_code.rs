//! The exit codes of a program that did not get as far as a run.
//!
//! Those of runs come from [`hakobu_core::report::Outcome::exit_code`].

use hakobu_core::error::ErrorKind;
use hakobu_core::report::{OutcomeFacts, outcome};

/// It failed.
pub const FAILED: u8 = 1;
/// The command line is invalid.
pub const WRONG_USAGE: u8 = 2;
/// The user stopped it.
pub const INTERRUPTED: u8 = 130;

/// The code that belongs to an error.
pub fn code_of(kind: ErrorKind) -> u8 {
    outcome(&OutcomeFacts { fatal: Some(kind), ..OutcomeFacts::default() }).exit_code()
}
