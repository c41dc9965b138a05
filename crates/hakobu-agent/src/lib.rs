//! From a location to an endpoint: agents over ssh, data connections, the near and the serving half
//! of a target on another machine, and the course of a copy.

pub mod agent;
pub mod compression;
pub mod connection;
pub mod copy;
pub mod devices;
pub mod digest;
pub mod disks;
pub mod doctor;
pub mod far;
pub mod jobs;
pub mod join;
pub mod live_limits;
pub mod look;
pub mod near;
pub mod outages;
pub mod outcome;
pub mod party;
pub mod passes;
mod places;
pub mod probe;
pub mod request;
pub mod restrict;
pub mod serve;
pub mod side;
pub mod ssh;
pub mod stop;
pub mod stream;
pub mod transfer;

mod channel;
mod cipher;
mod data_path;
mod deletion;
mod fit;
mod gather;
mod lanes;
mod lock;
mod login;
mod machine;
mod meet;
mod mounts;
mod plan;
mod pool;
mod relay;
mod retry;
mod rsync;
mod sftp;
mod sha256;
mod strangers;
mod through_ssh;
mod told;
mod way;

pub use cipher::here as cipher_speeds;
