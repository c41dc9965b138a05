//! Object stores: keys with content and metadata, reached by requests over HTTP.
//!
//! [`api`] has the requests that every provider answers. Nothing else in this folder asks which provider it is.

mod access;
pub mod api;
mod capabilities;
mod content;
mod driver;
mod entry;
mod keys;
mod listing;
mod lookup;
mod source;
mod target;
mod upload_journal;

pub use access::BucketAccess;
