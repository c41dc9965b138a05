//! The wire format of `hakobu-core` values.
//!
//! Each structure and enum of core that a message contains has a mirror here, with its fields or variants in wire
//! order. Their meaning is described in `docs/PROTOCOL.md`, "Structures", which a test compares with them. A new
//! field or variant in core does not compile until a decision is made here whether it is sent. A new one here
//! requires a new version of the protocol. Limits and checks of a peer's data belong to the mirrors, and are enforced
//! while a message is decoded.

mod bounded;
mod capabilities;
mod change;
mod counters;
mod device_use;
mod disk;
mod draft;
mod entry;
mod error;
mod event;
mod extended;
mod filter;
mod grant;
mod host;
mod identity;
mod job;
mod landing;
mod limits;
mod loss;
pub(crate) mod mirror;
mod network;
mod path;
mod probe;
mod signature;
mod store;
mod summary;

pub(crate) use bounded::BoundedBytes;
pub(crate) use capabilities::Capabilities;
pub(crate) use change::{Change, Detail};
pub(crate) use counters::FarTime;
pub(crate) use disk::{DeviceFacts, DiskList};
pub(crate) use draft::{Copied, DraftParameters, EarlierWork, Extent, TagKey};
pub(crate) use entry::{AccountId, Attributes, EntryKind, EntryMetadata, Inode};
pub(crate) use error::{Error, RefusedError};
pub(crate) use event::Event;
pub(crate) use extended::Classes;
pub(crate) use grant::Grant;
pub(crate) use host::HostFacts;
pub(crate) use job::Job;
pub(crate) use landing::{Ancestry, TargetFound};
pub(crate) use limits::RunLimits;
pub(crate) use loss::Loss;
pub(crate) use mirror::{AsMirror, itself};
pub(crate) use path::EntryPath;
pub(crate) use probe::{MachineFigures, ReadAsk, ReadFigures, WayFigures, WriteAsk, WriteFigures};
pub(crate) use store::{RunRequests, StoreName, StoreSettings};
pub(crate) use summary::RunSummary;
