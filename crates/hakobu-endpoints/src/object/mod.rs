//! Object stores: keys with content and metadata, reached by requests over HTTP.
//!
//! [`api`] has the requests that every provider answers, [`s3`], [`azure`] and [`gcs`] are the providers. Below it, [`http`] sends one
//! request once, [`retry`] decides whether it is sent again, and [`budget`] how many are in flight. Above it,
//! [`BucketAccess`] opens directories of a bucket as sources and targets, which do not ask for the provider.

mod access;
mod answered_range;
pub mod api;
mod attributes;
pub mod azure;
mod budget;
mod capabilities;
mod clock;
mod content;
mod content_mark;
pub mod copy_place;
mod costs;
mod counts;
pub mod credentials;
mod driver;
mod entry;
mod exchange;
pub mod gcs;
pub mod http;
mod key_pages;
mod key_ranges;
mod key_space;
mod keys;
mod leased_api;
mod listing;
mod lookup;
pub mod metadata;
mod resumed_body;
mod retry;
pub mod runtime;
pub mod s3;
mod sidecars;
mod small_object;
mod source;
mod stored_checksum;
mod target;
mod upload_journal;

pub use access::BucketAccess;
