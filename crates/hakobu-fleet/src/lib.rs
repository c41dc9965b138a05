//! The fleet: runs that several machines share, and the ledger that is the truth about them.
//!
//! A run is divided into units ([`unit`]). A broker works on a unit for as long as its lease lasts ([`lease`]). Everything that
//! is decided about units is one pure function ([`transition`]), and everything that is decided at all is a
//! [`change`] that a [`ledger`] applies: durably, and several in one transaction.
//!
//! What decides reads no clock and draws nothing random: both are given.

pub mod api;
pub mod api_token;
pub mod audit;
pub mod broker;
pub mod broker_key;
pub mod bus;
pub mod change;
pub mod client;
pub mod comparable_location;
pub mod control_loop;
pub mod control_plane;
pub mod data_folder;
pub mod endpoint_location;
pub mod errand;
mod errand_desk;
pub mod failure;
mod filter_ages;
pub mod fleet_clock;
mod http_client;
pub mod ids;
pub mod kept_shares;
pub mod key_file;
pub mod key_mark;
pub mod leader;
pub mod lease;
pub mod lease_token;
pub mod ledger;
mod limit_shares;
mod limits;
pub mod limits_setting;
pub mod link_name;
pub mod login_attempts;
pub mod message;
pub mod message_form;
pub mod names;
pub mod notification;
pub mod notification_queue;
pub mod notification_setting;
pub mod notifier;
pub mod open_directory;
pub mod open_file;
pub mod phase_units;
mod private_file;
pub mod reach;
pub mod relationship;
pub mod run;
pub mod run_figures;
pub mod run_losses;
pub mod run_phases;
pub mod run_report;
pub mod run_request;
pub mod run_wait;
pub mod schedule;
mod sealing;
pub mod secret_bytes;
pub mod secrets;
pub mod sent_credentials;
pub mod service;
pub mod setting_error;
pub mod start_delay;
pub mod tls_listener;
pub mod token;
pub mod transition;
pub mod unit;
pub mod unit_counters;
pub mod worker;
