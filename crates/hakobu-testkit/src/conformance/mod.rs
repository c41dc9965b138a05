//! The conformance suite: what every endpoint has to do, whatever it is.
//!
//! An endpoint passes by handing a [`Harness`] to [`run_all`] in an ordinary test. Cases look at
//! the result with `std::fs`, so the harness's targets stand over real directories. Which cases
//! apply goes by the endpoint's capabilities and by the user who runs them.

mod bench;
mod drafts;
mod files;
mod grants;
mod links;
mod listings;
mod removal;
mod sources;
mod space;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use hakobu_core::endpoint::Endpoint;
use hakobu_core::grant::Grant;

pub use bench::{Bench, ask};

/// Makes endpoints of the kind under test.
pub trait Harness {
    /// A fresh target over the existing directory `root`.
    fn target(&self, root: &Path, grant: Grant) -> Box<dyn Endpoint>;

    /// A fresh source with `root` as its only root; `None` when there are no such sources.
    fn source(&self, root: &Path) -> Option<Box<dyn Endpoint>>;
}

/// One thing that an endpoint has to do.
pub struct Case {
    /// What it is about; unique.
    pub name: &'static str,
    needs: Needs,
    run: fn(&Bench<'_>),
}

/// Who can run a case.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Needs {
    Anyone,
    /// It mounts a file system or gives files away.
    Root,
    /// Root is refused nothing.
    NotRoot,
}

impl Case {
    const fn new(name: &'static str, run: fn(&Bench<'_>)) -> Self {
        Self { name, needs: Needs::Anyone, run }
    }

    const fn root(name: &'static str, run: fn(&Bench<'_>)) -> Self {
        Self { name, needs: Needs::Root, run }
    }

    const fn not_root(name: &'static str, run: fn(&Bench<'_>)) -> Self {
        Self { name, needs: Needs::NotRoot, run }
    }

    fn applies(&self) -> bool {
        let root = rustix::process::geteuid().is_root();
        match self.needs {
            Needs::Anyone => true,
            Needs::Root => root,
            Needs::NotRoot => !root,
        }
    }
}

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
