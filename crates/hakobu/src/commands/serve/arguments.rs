//! The arguments of `serve`.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;

use crate::commands::shared::headings::{FLEET, NATS, OUTPUT};
use crate::commands::shared::nats::NatsArguments;

/// The text below the help.
pub(crate) const SERVE_HELP: &str = "\
Everything is kept in one folder: the ledger, and the key of sealed secrets. A broker of the same process works on the runs, \
unless --no-broker is given.

At the start, an address with a token is shown, which signs in once. Ctrl-C ends the control plane: its broker finishes or \
gives back what it has.

Examples:
  hakobu serve                            a control plane on this machine
  hakobu serve --data /srv/hakobu         with a folder of its own
  hakobu serve --nats nats://127.0.0.1:4222 --nats-group site-a --no-broker
  hakobu serve --backup fleet.backup      writes the ledger, even while it is in use
  hakobu serve --data new --restore fleet.backup

Exit codes: 0 ended as asked, 1 failed, 2 wrong usage, 6 refused.";

/// The arguments of `serve`.
#[derive(Debug, Args)]
#[command(next_help_heading = FLEET)]
pub struct ServeArguments {
    /// Folder for ledger and keys
    ///
    /// By default, it is fleet in the folder of jobs
    #[arg(long, value_name = "FOLDER")]
    pub data: Option<PathBuf>,

    /// Ledger in PostgreSQL, as postgres:// URL
    ///
    /// postgres://USER@HOST/DATABASE, with the password in ~/.pgpass, the file that PGPASSFILE names, or PGPASSWORD. Two or more
    /// control planes can share it: one leads, and the others wait. [default: a file in the folder]
    #[arg(long, value_name = "URL")]
    pub ledger: Option<OsString>,

    /// Key file, which control planes of one ledger share [default: key in the folder]
    #[arg(long, hide_short_help = true, value_name = "FILE")]
    pub key_file: Option<PathBuf>,

    /// File with the mail server of notifications as JSON
    ///
    /// {"host": "mail.example.org", "encryption": "tls", "from": "hakobu@example.org", "user": "hakobu",
    /// "password": {"file": "mail-password"}}; the encryption is tls, starttls or, on this machine, none. The password is in
    /// the folder secrets of the control plane
    #[arg(long, hide_short_help = true, value_name = "FILE")]
    pub mail_settings: Option<PathBuf>,

    /// Name of this control plane among several [default: name of the host]
    #[arg(long, hide_short_help = true, value_name = "NAME")]
    pub name: Option<String>,

    /// Address of the page and the API
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8420")]
    pub listen: SocketAddr,

    /// Name of this host that requests may use; repeat it for several
    ///
    /// Addresses and localhost need none. Requests for other names are refused, as pages of other sites could send them
    #[arg(long, hide_short_help = true, value_name = "NAME")]
    pub host: Vec<String>,

    /// Certificate chain for TLS, as PEM
    ///
    /// Beyond this machine, TLS is needed
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub tls_certificate: Option<PathBuf>,

    /// Private key for TLS, as PEM
    #[arg(long, value_name = "FILE", requires = "tls_certificate")]
    pub tls_key: Option<PathBuf>,

    /// Group of the built-in broker
    #[arg(long, hide_short_help = true, value_name = "NAME", default_value = "local")]
    pub group: String,

    /// Number of units that the built-in broker works on at a time
    #[arg(long, hide_short_help = true, value_name = "COUNT", default_value_t = 1,
        value_parser = clap::value_parser!(u16).range(1..=64))]
    pub slots: u16,

    /// Location that the built-in broker reaches; repeatable [default: everything]
    #[arg(long, hide_short_help = true, value_name = "LOCATION", conflicts_with = "no_broker")]
    pub reaches: Vec<OsString>,

    /// Time without word from a broker after which others do its work
    ///
    /// A broker changes nothing more three quarters of it after the control plane last answered
    #[arg(long, hide_short_help = true, value_name = "SECONDS", default_value_t = 30,
        value_parser = clap::value_parser!(u64).range(2..=3600))]
    pub lease_seconds: u64,

    /// Time for the built-in broker to finish what it has when this is asked to end; then it gives it back
    #[arg(long, hide_short_help = true, value_name = "SECONDS", default_value_t = 20, conflicts_with = "no_broker",
        value_parser = clap::value_parser!(u64).range(..=86_400))]
    pub drain_seconds: u64,

    /// Work on nothing; other brokers do
    #[arg(long, conflicts_with = "slots")]
    pub no_broker: bool,

    /// Write the ledger to a new file, and end
    #[arg(long, value_name = "FILE", conflicts_with = "restore")]
    pub backup: Option<PathBuf>,

    /// Make the ledger from a backup, and end
    ///
    /// With - it is a database that pg_restore has filled
    #[arg(long, value_name = "FILE")]
    pub restore: Option<PathBuf>,

    /// Put a new key in front of those of the key file, and end
    ///
    /// Secrets are sealed with it from the next start on. Those before it open as long as their keys stay in the file
    #[arg(long, hide_short_help = true, conflicts_with_all = ["backup", "restore"])]
    pub rotate_key: bool,

    /// Print JSON objects instead of lines
    #[arg(long, help_heading = OUTPUT)]
    pub json: bool,

    /// The servers of NATS.
    #[command(flatten)]
    pub nats: NatsArguments,

    /// Group of brokers over NATS; repeatable
    #[arg(long, value_name = "NAME", requires = "nats", help_heading = NATS)]
    pub nats_group: Vec<String>,

    /// File with a section for each group and its credentials
    #[arg(long, hide_short_help = true, value_name = "FILE", help_heading = NATS)]
    pub nats_groups: Option<PathBuf>,

    /// Servers that keep the offers [default: 3 in a cluster, else 1]
    #[arg(long, hide_short_help = true, value_name = "COUNT", help_heading = NATS)]
    pub nats_replicas: Option<usize>,
}
