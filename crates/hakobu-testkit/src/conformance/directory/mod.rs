//! Cases that need direct access besides the traits: symbolic links created without the endpoint, files changed in
//! place while they are open, drafts on disk, devices and mounts. They require places that are directories on this
//! machine.

mod direct_access;
mod drafts;
mod files;
mod links;
mod listings;
mod removal;
mod sources;
mod space;

use super::case::ConformanceCase;

/// All cases of this module.
pub(super) const CASES: &[&[ConformanceCase]] = &[
    drafts::CASES,
    files::CASES,
    links::CASES,
    listings::CASES,
    removal::CASES,
    sources::CASES,
    space::CASES,
];
