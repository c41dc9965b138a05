//! Options from settings files. They are put before the typed options, as if they had been typed there, so that all checks and
//! messages of an option apply to them too. Typed options take precedence, and so does the environment.
//!
//! How a file is written is [`crate::settings_file::host_settings`]' affair.

pub(crate) mod checker;
pub(crate) mod environment;
pub(crate) mod files;
mod from_file;
mod host_login;
pub mod host_settings;
pub(crate) mod hosts;
pub(crate) mod keywords;
pub(crate) mod options;
mod store_overrides;

pub(crate) use self::environment::{SSH_VARIABLE, ssh_variable};
pub use self::from_file::FromFile;
pub(crate) use self::from_file::name_places;
pub use self::host_login::FileLogin;
pub(crate) use self::options::{of_way, settle};
pub use self::store_overrides::StoreOverrides;

#[cfg(test)]
mod tests;
