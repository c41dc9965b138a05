//! The file system of this machine: [`LocalSource`] reads trees, [`LocalTarget`] writes below one root within a grant.
//!
//! Every path is resolved beneath its root without following a symbolic link. This also applies to the source, because
//! root reads other users' trees.

mod accounts;
mod aligned;
mod describe;
mod digests;
mod draft_file;
mod draft_mark;
mod draft_name;
mod draft_proof;
pub(crate) mod errno;
mod extended;
mod fetch;
mod file_system;
mod free_space;
mod helpers;
mod holes;
mod inspection;
pub(crate) mod journal;
mod list;
mod losses;
mod lru_cache;
mod metadata;
mod ownership;
pub(crate) mod positioned;
mod proc_path;
mod read_ahead;
mod reader;
mod resolve_beneath;
mod run_mark;
mod shared_devices;
mod source;
mod source_files;
mod stream_source;
pub(crate) mod target_side;
#[cfg(test)]
mod tests;
mod thread_budget;
mod times;
mod tried_properties;
mod unreadable;

pub use accounts::own_user_name;
pub use file_system::is_on_network;
pub use free_space::free_bytes_at;
pub use metadata::describe_entry;
pub use resolve_beneath::Confinement;
pub use source::{LocalSource, LocalSourceLane, LocalSourceReader, SourceRoot};
pub use stream_source::StreamSource;
pub use target_side::{
    DraftWriter, LocalDraft, LocalTarget, LocalTargetLane, LocalTargetWriter, StateDirectory, TargetOptions,
    open_exclusively,
};
