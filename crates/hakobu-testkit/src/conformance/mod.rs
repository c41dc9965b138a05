//! The conformance suite: the duties of every endpoint, whatever its kind.
//!
//! An endpoint runs the suite by passing a [`Harness`] to [`run_all`] in an ordinary test. Cases prepare data through
//! a target and read it back through a source, never in another way, so they run on any endpoint. The capabilities of
//! the endpoints and the user who runs the tests determine which cases apply. A harness with few capabilities has
//! fewer cases, and [`case_names`] lists them.
//!
//! The cases in `directory` access the data directly, in places that are directories on this machine. They cover what
//! cannot be done or seen through the traits.

mod abilities;
mod attributes;
mod bench;
mod case;
mod directory;
mod drafts;
mod files;
mod grants;
mod harness;
mod links;
mod listings;
mod removal;
mod source_changes;
mod sources;
mod tree_reader;
mod tree_writer;

use std::panic::{AssertUnwindSafe, catch_unwind};

use abilities::HarnessCapabilities;
use bench::Workplace;
pub use bench::ask;
use case::ConformanceCase;
pub use harness::{Harness, TestPlace};

/// The cases that need only the traits.
const CASES: &[&[ConformanceCase]] = &[
    files::CASES,
    attributes::CASES,
    links::CASES,
    drafts::CASES,
    grants::CASES,
    listings::CASES,
    removal::CASES,
    sources::CASES,
    source_changes::CASES,
];

/// Returns the cases that apply to endpoints with these capabilities.
fn cases(abilities: &HarnessCapabilities) -> impl Iterator<Item = &'static ConformanceCase> {
    let of_directories = if abilities.in_directory { directory::CASES } else { &[] };
    CASES.iter().chain(of_directories).copied().flatten().filter(|case| case.applies(abilities))
}

/// Returns the names of the cases that apply to a harness.
///
/// # Panics
/// If an exception of the harness is no case that would apply.
pub fn case_names(harness: &dyn Harness) -> Vec<&'static str> {
    let mut names: Vec<_> = cases(&HarnessCapabilities::of(harness)).map(|case| case.name).collect();
    let unknown = harness.exceptions().iter().find(|name| !names.contains(name));
    assert_eq!(unknown, None, "an exception from no case");
    names.retain(|name| !harness.exceptions().contains(name));
    names
}

/// Runs all cases that apply to a harness.
///
/// # Panics
/// If cases fail, with their names. The message of each case was printed before.
pub fn run_all(harness: &dyn Harness) {
    let abilities = HarnessCapabilities::of(harness);
    let passes = |case: &ConformanceCase| {
        catch_unwind(AssertUnwindSafe(|| (case.run)(&Workplace::new(harness, &abilities)))).is_ok()
    };
    let applying = case_names(harness);
    let failed: Vec<_> = cases(&abilities)
        .filter(|case| applying.contains(&case.name) && !passes(case))
        .map(|case| case.name)
        .collect();
    assert!(failed.is_empty(), "these cases failed:\n  {}", failed.join("\n  "));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_cases_have_one_name() {
        let mut names: Vec<_> =
            CASES.iter().chain(directory::CASES).copied().flatten().map(|case| case.name).collect();
        let all = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all);
    }
}
