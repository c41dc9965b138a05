//! Object stores: keys with content and metadata, reached by requests over HTTP.
//!
//! [`api`] has the requests that every provider answers. Nothing else in this folder asks which provider it is.

pub mod api;
