//! The vocabulary, traits, decisions and engine of hakobu, independent of where data is and how it is transferred.
//!
//! This crate holds the vocabulary (entries, paths, extents), the traits that endpoints implement ([`endpoint`]), the
//! pure decisions ([`planner`], [`landing`]) and the [`engine`] that drives lanes. It must not open sockets, read a
//! clock or the environment unless they are passed in, or print.

pub mod block_table;
pub mod capabilities;
pub mod checksum;
pub mod compression;
pub mod consent;
pub mod content;
pub mod counters;
pub mod digest;
pub mod disk;
pub mod endpoint;
pub mod engine;
pub mod entry;
pub mod entry_order;
pub mod error;
pub mod event;
pub mod evidence;
pub mod exchange;
pub mod extended;
pub mod extent;
pub mod filter;
pub mod grant;
pub mod handle;
pub mod host;
pub mod job;
pub mod key_spelling;
pub mod landing;
pub mod listed;
pub mod listing;
pub mod location;
pub mod losses;
pub mod names;
pub mod open_at;
pub mod open_file;
pub mod pace;
pub mod pacer;
pub mod pack;
pub mod path;
mod piece_buffer;
pub mod planner;
pub mod plant;
pub mod probe;
pub mod report;
pub mod requests;
pub mod requirements;
pub mod shell;
pub mod stopping;
pub mod store_credentials;
pub mod store_name;
pub mod store_settings;
pub mod tag;
pub mod target_lease;
pub mod times;
pub mod units;
pub mod zeros;

pub use error::{Error, ErrorKind, Result};
pub mod lane_count;
pub mod live_limits;
pub mod outages;
pub mod outcome;
pub mod prompts;
pub mod request;
