//! Cases that need a hand beside the traits: links planted behind an endpoint's back, files changed in place while they
//! are open, drafts as they lie on the disk, devices and mounts. They ask for places that are directories of this machine.

mod drafts;
mod files;
mod ground;
mod links;
mod listings;
mod removal;
mod sources;
mod space;

use super::case::Case;

/// All cases of this folder.
pub(super) const CASES: &[&[Case]] = &[
    drafts::CASES,
    files::CASES,
    links::CASES,
    listings::CASES,
    removal::CASES,
    sources::CASES,
    space::CASES,
];
