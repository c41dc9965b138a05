//! Object stores: keys with content and metadata, reached by requests over HTTP.
//!
//! [`api`] has the requests that every provider answers, [`s3`] the one that there is. Below it, [`http`] sends one
//! request once, [`retry`] decides whether it is sent again, and [`budget`] how many are in flight.

pub mod api;
mod budget;
mod clock;
mod content;
mod counts;
pub mod credentials;
pub mod http;
mod retry;
pub mod runtime;
pub mod s3;
