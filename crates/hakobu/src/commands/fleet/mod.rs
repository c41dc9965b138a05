//! The verb `fleet`: asks a control plane, and has it change things.

pub mod access;
pub mod brokers;
mod connection;
pub mod limits;
mod login;
mod printing;
pub mod relationships;
mod request;
mod run_verbs;
pub mod runs;
mod watching;

use clap::{Args, Subcommand};
use hakobu_core::error::Result;

use self::access::{AuditArguments, TokensVerb};
use self::brokers::BrokersVerb;
pub(crate) use self::connection::FleetConnection;
use self::limits::LimitsVerb;
use self::login::LoginToFleet;
use self::relationships::RelationshipsVerb;
use self::runs::RunVerbs;
use crate::{exit, output};

/// The text below the help.
pub(crate) const FLEET_HELP: &str = "\
hakobu serve starts a control plane; its page shows and does what these commands do. The address and the token come from \
--server and --token-file, from the environment (HAKOBU_FLEET_URL, HAKOBU_FLEET_TOKEN), or from hakobu fleet login.

Examples:
  hakobu fleet login http://127.0.0.1:8420
  hakobu fleet relationships add home --group local -- sync --delete /home/ /backup/home
  hakobu fleet run start home
  hakobu fleet run watch 7
  hakobu fleet run failures 7 --kind permission_denied
  hakobu fleet run retry 7

Exit codes: 0 done, 1 failed, 2 wrong usage, 6 refused; of run watch, those of the run: 3 some entries failed, 130 cancelled.";

/// The arguments of `fleet`.
#[derive(Debug, Args)]
pub struct FleetArguments {
    /// The control plane.
    #[command(flatten)]
    pub(crate) connection: FleetConnection,

    /// The action.
    #[command(subcommand)]
    pub verb: FleetVerb,
}

/// The actions on a fleet.
#[derive(Debug, Subcommand)]
pub enum FleetVerb {
    /// Keep the address of a control plane and a token for further commands
    Login(LoginToFleet),
    /// List, add, show, change or remove relationships
    #[command(disable_help_subcommand = true)]
    Relationships {
        /// The action.
        #[command(subcommand)]
        verb: RelationshipsVerb,
    },
    /// Start runs, watch and steer them, and see what failed
    #[command(disable_help_subcommand = true)]
    Run {
        /// The action.
        #[command(subcommand)]
        verb: RunVerbs,
    },
    /// List brokers, and have them take no further units
    #[command(disable_help_subcommand = true)]
    Brokers {
        /// The action.
        #[command(subcommand)]
        verb: BrokersVerb,
    },
    /// Change the limits of runs and groups while they work
    #[command(disable_help_subcommand = true)]
    Limits {
        /// The action.
        #[command(subcommand)]
        verb: LimitsVerb,
    },
    /// List, make and revoke tokens
    #[command(disable_help_subcommand = true)]
    Tokens {
        /// The action.
        #[command(subcommand)]
        verb: TokensVerb,
    },
    /// List who did what
    Audit(AuditArguments),
}

/// Carries out an action; returns the exit code.
pub fn fleet(typed: &FleetArguments) -> u8 {
    match act(typed) {
        Ok(code) => code,
        Err(error) => exit::errors(&[error]),
    }
}

fn act(typed: &FleetArguments) -> Result<u8> {
    let json = typed.connection.json;
    let client = || typed.connection.client();
    let text = match &typed.verb {
        FleetVerb::Login(login) => return login::login(login, &typed.connection).map(|()| 0),
        FleetVerb::Run { verb: RunVerbs::Watch { id } } => return watching::watch(&client()?, *id, json),
        FleetVerb::Run { verb: RunVerbs::Start(start) } => return watching::start(&client()?, start, json),
        FleetVerb::Run { verb } => run_verbs::run(&client()?, verb, json)?,
        FleetVerb::Relationships { verb } => relationships::relationships(&client()?, verb, json)?,
        FleetVerb::Brokers { verb } => brokers::brokers(&client()?, verb, json)?,
        FleetVerb::Limits { verb } => limits::limits(&client()?, verb)?,
        FleetVerb::Tokens { verb } => access::tokens(&client()?, verb, json)?,
        FleetVerb::Audit(audit) => access::audit(&client()?, audit, json)?,
    };
    Ok(output::print(text.as_bytes()))
}
