//! The arguments of `broker`.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;

use crate::commands::shared::headings::{FLEET, OUTPUT};
use crate::commands::shared::nats::NatsArguments;

/// The text below the help.
pub(crate) const BROKER_HELP: &str = "\
A broker copies what the control plane (hakobu serve) gives to its group. It opens connections to NATS only, and to the \
locations of the runs, with the credentials that this machine has for them. It may come and go at any time: what it had is \
done by others.

SIGTERM or Ctrl-C lets it finish or give away what it has, which takes a few seconds, and end with code 0. A second signal \
ends it at once: it gives its work back as it is.

Examples:
  hakobu broker --nats nats://127.0.0.1:4222 --group site-a
  hakobu broker --nats nats://127.0.0.1:4222 --group site-a --reaches /mnt/nas --reaches s3://backup
  hakobu broker --nats tls://nats1:4222,tls://nats2:4222 --group site-a --nats-user broker-site-a --nats-password-file secret

Exit codes: 0 ended as asked, 1 failed, 2 wrong usage, 130 interrupted.";

/// The arguments of `broker`.
#[derive(Debug, Args)]
#[command(next_help_heading = FLEET)]
pub struct BrokerArguments {
    /// Group of brokers that reach the same locations
    #[arg(long, value_name = "NAME")]
    pub group: String,

    /// Name of this broker [default: that of the host]
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,

    /// Number of units to work on at a time
    #[arg(long, value_name = "COUNT", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=64))]
    pub slots: u16,

    /// Location that it reaches; repeatable
    ///
    /// With everything below it, such as /mnt/nas, s3://bucket or sftp://host. Runs with another source or target are left to
    /// other brokers of the group [default: everything]
    #[arg(long, value_name = "LOCATION")]
    pub reaches: Vec<OsString>,

    /// Time to finish what it has when it is asked to end; then it gives it back
    #[arg(long, hide_short_help = true, value_name = "SECONDS", default_value_t = 20, value_parser = clap::value_parser!(u64).range(..=86_400))]
    pub drain_seconds: u64,

    /// Folder of credentials that relationships may name; no other file is read for them
    #[arg(long, hide_short_help = true, value_name = "FOLDER")]
    pub credentials: Option<PathBuf>,

    /// Variables of the environment that relationships may name as credentials
    #[arg(long, hide_short_help = true, value_name = "NAMES", value_delimiter = ',')]
    pub credential_variables: Vec<String>,

    /// Address on this machine for /healthz and /readyz over HTTP
    #[arg(long, hide_short_help = true, value_name = "ADDRESS", value_parser = loopback)]
    pub health: Option<SocketAddr>,

    /// Length in bytes of the ranges in which it gives a large file away, at least; for tests with small files
    #[arg(long, hide = true, value_name = "BYTES", value_parser = clap::value_parser!(u64).range(1..))]
    pub least_range: Option<u64>,

    /// Print JSON objects instead of lines
    #[arg(long, help_heading = OUTPUT)]
    pub json: bool,

    /// The servers of NATS.
    #[command(flatten)]
    pub nats: NatsArguments,
}

fn loopback(typed: &str) -> Result<SocketAddr, String> {
    let address: SocketAddr =
        typed.parse().map_err(|_| "an address with a port is needed, such as 127.0.0.1:8421".to_owned())?;
    match address.ip().is_loopback() {
        true => Ok(address),
        false => Err("only addresses of this machine are possible, such as 127.0.0.1:8421".to_owned()),
    }
}
