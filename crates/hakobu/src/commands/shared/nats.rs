//! The options for reaching NATS, which control planes and brokers share.

use std::path::PathBuf;

use clap::Args;
use hakobu_fleet::bus::nats::settings::NatsOptions;

use super::headings::NATS;

/// Servers of NATS, and the credentials for them.
#[derive(Debug, Default, Args)]
pub struct NatsArguments {
    /// Servers of NATS, such as nats://127.0.0.1:4222
    ///
    /// nats://HOST:PORT on this machine, else tls://HOST:PORT, with commas between those of a cluster
    #[arg(long, value_name = "URL", help_heading = NATS)]
    pub nats: Option<String>,

    /// User at NATS
    #[arg(long, hide_short_help = true, value_name = "NAME", requires = "nats_password_file", help_heading = NATS)]
    pub nats_user: Option<String>,

    /// File with the password, in one line; read at each connection
    #[arg(long, hide_short_help = true, value_name = "FILE", requires = "nats_user", help_heading = NATS)]
    pub nats_password_file: Option<PathBuf>,

    /// Certificates of the authorities to trust, as PEM [default: those of the system]
    #[arg(long, hide_short_help = true, value_name = "FILE", requires = "nats", help_heading = NATS)]
    pub nats_ca: Option<PathBuf>,

    /// Certificate to prove who connects, as PEM; read at each connection
    #[arg(long, hide_short_help = true, value_name = "FILE", requires = "nats_key", help_heading = NATS)]
    pub nats_certificate: Option<PathBuf>,

    /// Private key of that certificate, as PEM
    #[arg(long, hide_short_help = true, value_name = "FILE", requires = "nats_certificate", help_heading = NATS)]
    pub nats_key: Option<PathBuf>,
}

impl NatsArguments {
    /// Returns the options of the library.
    pub fn options(&self) -> NatsOptions {
        NatsOptions {
            servers: self.nats.clone().unwrap_or_default(),
            user: self.nats_user.clone(),
            password_file: self.nats_password_file.clone(),
            authorities: self.nats_ca.clone(),
            certificate: self.nats_certificate.clone(),
            key: self.nats_key.clone(),
        }
    }
}
