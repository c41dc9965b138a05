//! The conformance suite: what every endpoint has to do, whatever it is.
//!
//! An endpoint passes by handing a [`Harness`] to [`run_all`] in an ordinary test. Cases look at
//! the result with `std::fs`, so the harness's targets stand over real directories. Which cases
//! apply goes by the endpoint's capabilities and by the user who runs them.

mod bench;
mod case;
mod drafts;
mod files;
mod grants;
mod harness;
mod links;
mod listings;
mod removal;
mod sources;
mod space;

use std::panic::{AssertUnwindSafe, catch_unwind};

pub use bench::{Bench, ask};
pub use case::Case;
pub use harness::Harness;

/// All cases that this user can run.
pub fn cases() -> impl Iterator<Item = &'static Case> {
    let all = [
        files::CASES,
        links::CASES,
        drafts::CASES,
        grants::CASES,
        listings::CASES,
        removal::CASES,
        sources::CASES,
        space::CASES,
    ];
    all.into_iter().flatten().filter(|case| case.applies())
}

/// Runs all cases.
///
/// # Panics
/// When cases fail, with their names; each one's own message has been printed before.
pub fn run_all(harness: &dyn Harness) {
    let failed: Vec<_> = cases().filter(|case| !passes(case, harness)).map(|case| case.name).collect();
    assert!(failed.is_empty(), "these cases failed:\n  {}", failed.join("\n  "));
}

/// Runs the case of one name, while looking for a fault.
///
/// # Panics
/// When it fails, or there is no such case.
pub fn run_one(harness: &dyn Harness, name: &str) {
    let case = cases().find(|case| case.name == name);
    let Some(case) = case else { panic!("there is no case {name:?} for this user") };
    (case.run)(&Bench::new(harness));
}

fn passes(case: &Case, harness: &dyn Harness) -> bool {
    catch_unwind(AssertUnwindSafe(|| (case.run)(&Bench::new(harness)))).is_ok()
}
