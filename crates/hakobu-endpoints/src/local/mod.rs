//! The file system of this machine: [`LocalSource`] reads trees, [`LocalTarget`] writes below one root within a grant.
//!
//! Every path is resolved beneath its root without following a symbolic link. This also applies to the source, because
//! root reads other users' trees.

mod accounts;
mod ahead;
mod aligned;
mod beneath;
mod describe;
mod digests;
mod draft_file;
mod draft_mark;
mod draft_name;
mod draft_proof;
mod extended;
pub(crate) mod fault;
mod fetch;
mod file_system;
mod free_space;
mod helpers;
mod holes;
mod inspection;
mod journal;
mod list;
mod losses;
mod many;
mod metadata;
mod ownership;
pub(crate) mod positioned;
mod proc_path;
mod reader;
mod recent;
mod run_mark;
mod shared_devices;
mod source;
mod source_files;
mod stream_source;
pub(crate) mod target_side;
#[cfg(test)]
mod tests;
mod times;
mod tried;
mod unreadable;

pub use beneath::Confinement;
pub use file_system::is_on_network;
pub use free_space::free_bytes_at;
pub use metadata::describe_entry;
pub use source::{LocalSource, LocalSourceLane, SourceRoot, SourceWork};
pub use stream_source::StreamSource;
pub use target_side::{
    Draft, DraftWriter, LocalTarget, LocalTargetLane, StateDirectory, TargetOptions, TargetWork,
    open_exclusively,
};
