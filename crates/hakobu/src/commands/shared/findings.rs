//! The errors that were found in arguments.

use hakobu_core::error::{Error, ErrorKind};

/// The errors found so far.
#[derive(Default)]
pub(crate) struct Findings {
    pub errors: Vec<Error>,
}

impl Findings {
    pub fn keep<T>(&mut self, result: Result<T, Error>) -> Option<T> {
        result.map_err(|error| self.errors.push(error)).ok()
    }

    /// Returns all errors, or the request if there are none.
    pub fn or<T>(self, request: T) -> Result<T, Vec<Error>> {
        if self.errors.is_empty() { Ok(request) } else { Err(self.errors) }
    }

    pub fn usage(&mut self, option: &str, detail: impl Into<String>) {
        self.errors.push(usage(option, detail));
    }
}

pub(crate) fn usage(option: &str, detail: impl Into<String>) -> Error {
    Error::new(ErrorKind::Usage, "option", detail).at(option)
}
