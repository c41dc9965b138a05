//! The interface of the control plane over HTTP: for programs, for `hakobu fleet`, and for the page.
//!
//! Numbers are JSON numbers. Those of rows, revisions and moments are always below 2⁵³; counters of bytes are exact as well, but a
//! reader whose numbers are floating point rounds them above 9 petabytes, to one part in 10¹⁵.

mod access;
pub mod byte_text;
pub mod caller;
pub mod errands;
mod events;
mod failures;
mod fleet;
pub mod fleet_status;
pub mod fleet_view;
mod forecast;
mod glimpse;
mod health;
pub mod listing;
mod metrics;
pub mod next_run;
mod overview;
mod page_files;
pub mod problem;
pub mod relationship_view;
pub mod relationships;
mod request_counts;
mod router;
mod run_bottleneck;
pub mod run_view;
pub mod runs;
mod server;
mod sessions;
mod standby;
mod state;
mod timed_stream;

pub use glimpse::one_broker;
pub use router::document;
pub use server::{listen, serve};
pub use standby::serve_standby;
pub use state::{ApiSettings, ApiState};
