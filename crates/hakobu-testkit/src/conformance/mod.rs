//! The conformance suite: the duties of every endpoint, whatever it is.
//!
//! An endpoint passes by handing a [`Harness`] to [`run_all`] in an ordinary test. Cases prepare through a target and read
//! back through a source, never beside them, so they run on any endpoint. Which of them apply goes by the endpoints'
//! capabilities and by the user who runs them: a harness with few abilities has fewer cases, and [`case_names`] tells which.
//!
//! The cases in `directory` prepare and look by themselves, in places that are directories of this machine. They are for
//! what nobody can do or see through the traits.

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

use abilities::Abilities;
use bench::Bench;
pub use bench::ask;
use case::Case;
pub use harness::{Harness, Place};

/// The cases that need nothing but the traits.
const CASES: &[&[Case]] = &[
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

/// Returns the cases that apply to endpoints with these abilities.
fn cases(abilities: &Abilities) -> impl Iterator<Item = &'static Case> {
    let of_directories = if abilities.in_directory { directory::CASES } else { &[] };
    CASES.iter().chain(of_directories).copied().flatten().filter(|case| case.applies(abilities))
}

/// Returns the names of the cases that apply to a harness.
pub fn case_names(harness: &dyn Harness) -> Vec<&'static str> {
    cases(&Abilities::of(harness)).map(|case| case.name).collect()
}

/// Runs all cases that apply to a harness.
///
/// # Panics
/// When cases fail, with their names; each one's own message has been printed before.
pub fn run_all(harness: &dyn Harness) {
    let abilities = Abilities::of(harness);
    let passes =
        |case: &Case| catch_unwind(AssertUnwindSafe(|| (case.run)(&Bench::new(harness, &abilities)))).is_ok();
    let failed: Vec<_> = cases(&abilities).filter(|case| !passes(case)).map(|case| case.name).collect();
    assert!(failed.is_empty(), "these cases failed:\n  {}", failed.join("\n  "));
}

/// Runs the case of one name, while looking for a fault.
///
/// # Panics
/// When it fails, or there is no such case for this harness.
pub fn run_one(harness: &dyn Harness, name: &str) {
    let abilities = Abilities::of(harness);
    let case = cases(&abilities).find(|case| case.name == name);
    let Some(case) = case else { panic!("there is no case {name:?} for this harness and user") };
    (case.run)(&Bench::new(harness, &abilities));
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
