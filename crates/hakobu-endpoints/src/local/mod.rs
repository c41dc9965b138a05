//! The file system of this machine: [`LocalSource`] reads trees, [`LocalTarget`] writes below one
//! root within a grant.
//!
//! Every path is resolved beneath its root without following a link, at the source as well: root
//! reads other users' trees.

mod accounts;
mod ahead;
mod aligned;
mod at_once;
mod beneath;
pub(crate) mod buffers;
mod describe;
mod digests;
pub(crate) mod draft_name;
mod extended;
pub(crate) mod fault;
mod fetch;
mod file_system;
mod helpers;
mod holes;
mod list;
mod losses;
mod many;
mod metadata;
pub(crate) mod positioned;
mod recent;
mod shared_devices;
mod source;
mod source_files;
mod stream_source;
pub(crate) mod target_side;
#[cfg(test)]
mod tests;
mod tried;
mod unreadable;

pub use at_once::AtOnce;
pub use beneath::Confinement;
pub use file_system::is_on_network;
pub use metadata::describe_entry;
pub use source::{LocalSource, LocalSourceLane, SourceRoot, SourceWork};
pub use stream_source::StreamSource;
pub use target_side::{
    Draft, DraftWriter, LocalTarget, LocalTargetLane, StateDirectory, TargetOptions, TargetWork,
    free_bytes_at, open_exclusively,
};
