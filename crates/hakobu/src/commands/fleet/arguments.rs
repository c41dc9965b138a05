//! The arguments of `fleet`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::builder::PossibleValuesParser;
use clap::{Args, Subcommand};

use super::question_arguments::{BrowseArguments, CredentialArguments, PREVIEW_HELP, TrialArguments};
use crate::commands::shared::headings::{CONNECTION, FLEET, OUTPUT};

/// The text below the help.
pub(crate) const FLEET_HELP: &str = "\
hakobu serve starts a control plane; its page shows and does what these commands do. The address and the token come from \
--server and --token-file, from the environment (HAKOBU_FLEET_URL, HAKOBU_FLEET_TOKEN), or from hakobu fleet login.

Examples:
  hakobu fleet login http://127.0.0.1:8420
  hakobu fleet ls --group local /home
  hakobu fleet relationships add home --group local -- sync --delete /home/ /backup/home
  hakobu fleet preview home
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
    /// Show what of the control plane does not work, and why
    ///
    /// The exit code is 0 if everything works, and 1 otherwise. The lists of other commands warn of it
    Status,
    /// List, add, show, change or remove relationships
    #[command(disable_help_subcommand = true)]
    Relationships {
        /// The action.
        #[command(subcommand)]
        verb: Box<RelationshipsVerb>,
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
    /// List groups of brokers with their limits
    #[command(disable_help_subcommand = true)]
    Groups {
        /// The action.
        #[command(subcommand)]
        verb: GroupsVerb,
    },
    /// List a directory as a broker sees it
    Ls(BrowseArguments),
    /// Have a broker connect to sources and target, and look at them
    Test(TrialArguments),
    /// Show what a run would do, and do nothing
    #[command(after_help = PREVIEW_HELP)]
    Preview(TrialArguments),
    /// Predict how fast a run will be, and what will limit it
    Probe(TrialArguments),
    /// Change the limits of runs, groups and endpoints while they work
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

/// The options for reaching a control plane.
#[derive(Debug, Args)]
pub(crate) struct FleetConnection {
    /// Address of the control plane
    ///
    /// Environment: HAKOBU_FLEET_URL
    #[arg(long, global = true, value_name = "URL", help_heading = CONNECTION)]
    pub server: Option<String>,

    /// File with the token
    ///
    /// Environment: HAKOBU_FLEET_TOKEN, the token itself
    #[arg(long, global = true, value_name = "FILE", help_heading = CONNECTION)]
    pub token_file: Option<PathBuf>,

    /// Certificates to trust as well, as PEM
    #[arg(long, global = true, value_name = "FILE", help_heading = CONNECTION)]
    pub tls_ca: Option<PathBuf>,

    /// Print JSON, in the form of the API
    #[arg(long, global = true, help_heading = OUTPUT)]
    pub json: bool,
}

/// The arguments of `fleet login`.
#[derive(Debug, Args)]
#[command(next_help_heading = FLEET)]
pub struct LoginToFleet {
    /// Address of the control plane
    #[arg(value_name = "URL")]
    pub url: String,

    /// Name under which you act [default: USER@HOST]
    ///
    /// The audit log has it, and relationships that you add have it as their owner
    #[arg(long = "as", value_name = "NAME")]
    pub name: Option<String>,
}

/// The text below the help.
pub(crate) const ADD_HELP: &str = "\
Behind -- stands what each run does: copy or sync, with their options, sources and target. Local paths are those of the \
brokers, and begin with /. Nobody answers questions of a run, so sync \
needs --delete. More than half of the target is never deleted unless --max-delete allows it.

Examples:
  hakobu fleet relationships add home --group site-a -- copy /home/ backup:/srv/home
  hakobu fleet relationships add data --group site-a --schedule '0 3 * * *' --time-zone Asia/Tokyo -- \
sync --delete /srv/data/ s3://bucket/data";

/// The actions on relationships.
#[derive(Debug, Subcommand)]
pub enum RelationshipsVerb {
    /// List relationships with their states
    List(ListArguments),
    /// Add a relationship
    #[command(after_help = ADD_HELP)]
    Add {
        /// Its name
        name: String,
        /// The settings.
        #[command(flatten)]
        settings: RelationshipSettings,
        /// Command of its runs, behind --
        #[arg(last = true, required = true, value_name = "COMMAND")]
        command: Vec<OsString>,
    },
    /// Show a relationship
    Show {
        /// Its name
        name: String,
    },
    /// Change settings of a relationship; the others stay
    Change {
        /// Its name
        name: String,
        /// New name
        #[arg(long, value_name = "NAME")]
        rename: Option<String>,
        /// The settings.
        #[command(flatten)]
        settings: RelationshipSettings,
        /// New command of its runs, behind --
        #[arg(last = true, value_name = "COMMAND")]
        command: Vec<OsString>,
    },
    /// Remove a relationship; its runs stay
    Remove {
        /// Its name
        name: String,
    },
    /// Show the next starts of a schedule
    Preview {
        /// Line of cron: minute hour day month weekday
        schedule: String,
        /// Time zone, such as Asia/Tokyo
        #[arg(long, value_name = "ZONE", default_value = "UTC")]
        time_zone: String,
        /// Number of starts
        #[arg(long, value_name = "N", default_value_t = 5)]
        count: u32,
    },
    /// Foretell how long the next run will take, and how much it will copy
    Forecast {
        /// Its name
        name: String,
    },
}

/// The choice of relationships to list.
#[derive(Debug, Args)]
#[command(next_help_heading = FLEET)]
pub struct ListArguments {
    /// Only those with this text in name, owner or locations
    #[arg(long, value_name = "TEXT")]
    pub search: Option<String>,
    /// Only those in these states: failed, partial, running, paused, cancelled, new, complete
    #[arg(long, value_name = "LIST")]
    pub state: Option<String>,
    /// Only those of a group
    #[arg(long, value_name = "NAME")]
    pub group: Option<String>,
    /// Order: name, state, last_run, next_start, changed
    #[arg(long, value_name = "ORDER", default_value = "name")]
    pub order: String,
}

/// The settings of a relationship. Empty values take one away.
#[derive(Debug, Args)]
#[command(next_help_heading = FLEET)]
pub struct RelationshipSettings {
    /// Group of brokers that reach source and target
    #[arg(long, value_name = "NAME")]
    pub group: Option<String>,
    /// Line of cron: minute hour day month weekday; empty for none
    #[arg(long, value_name = "CRON")]
    pub schedule: Option<String>,
    /// Time zone of the schedule, such as Asia/Tokyo
    #[arg(long, value_name = "ZONE")]
    pub time_zone: Option<String>,
    /// Leave out starts that were missed, instead of making up for them once
    #[arg(long)]
    pub skip_missed: bool,
    /// Make up once for starts that were missed [default]
    #[arg(long, conflicts_with = "skip_missed")]
    pub run_missed: bool,
    /// File with the whole schedule as JSON, with blackout windows
    #[arg(long, value_name = "FILE", conflicts_with_all = ["schedule", "time_zone", "skip_missed", "run_missed"])]
    pub schedule_file: Option<PathBuf>,
    /// Limit of the rate over all brokers, such as 20M (bytes per second)
    #[arg(long, value_name = "RATE")]
    pub limit_rate: Option<String>,
    /// Limit of the operations per second over all brokers
    #[arg(long, value_name = "N")]
    pub limit_operations: Option<u32>,
    /// Slow down while source reads are slower than MS
    #[arg(long, value_name = "MS")]
    pub limit_source_p99: Option<f64>,
    /// Number of brokers that work at a time
    #[arg(long, value_name = "N")]
    pub limit_brokers: Option<u32>,
    /// File with the notification as JSON
    #[arg(long, value_name = "FILE")]
    pub notify: Option<PathBuf>,
    /// Person who answers for it
    #[arg(long, value_name = "NAME")]
    pub owner: Option<String>,
    /// The credentials.
    #[command(flatten)]
    pub credentials: CredentialArguments,
    /// Compare source and target at the end of each run
    #[arg(long)]
    pub verify: bool,
}

/// The text below the help.
pub(crate) const START_HELP: &str = "\
Examples:
  hakobu fleet run start home --watch
  hakobu fleet run start --group site-a -- copy /srv/data backup:/srv";

/// The actions on runs.
#[derive(Debug, Subcommand)]
pub enum RunVerbs {
    /// Start a run of a relationship, or one of its own
    #[command(after_help = START_HELP)]
    Start(StartArguments),
    /// List runs, the latest first
    List {
        /// Only those of a relationship
        #[arg(long, value_name = "NAME")]
        relationship: Option<String>,
        /// Only those in these states: failed, partial, running, paused, cancelled, complete
        #[arg(long, value_name = "LIST")]
        state: Option<String>,
        /// Number of runs
        #[arg(long, value_name = "N", default_value_t = 50)]
        count: usize,
    },
    /// Show a run with its brokers
    Show {
        /// Number of the run
        id: u64,
    },
    /// Follow a run until it ends and exit with its code; Ctrl-C leaves it running
    Watch {
        /// Number of the run
        id: u64,
    },
    /// List the rates of the last ten minutes of a run under way
    Rates {
        /// Number of the run
        id: u64,
    },
    /// Cancel a run; what was copied stays
    Cancel {
        /// Number of the run
        id: u64,
    },
    /// Pause a run: brokers stop where they are
    Pause {
        /// Number of the run
        id: u64,
    },
    /// Let a paused run go on
    Resume {
        /// Number of the run
        id: u64,
    },
    /// Start a run of only what failed
    Retry {
        /// Number of the run
        id: u64,
    },
    /// Print the report of a run that has ended, as JSON
    Report {
        /// Number of the run
        id: u64,
    },
    /// List the entries that failed
    Failures {
        /// Number of the run
        id: u64,
        /// Only those of a kind, such as permission_denied
        #[arg(long, value_name = "KIND")]
        kind: Option<String>,
        /// Only those whose path begins like this
        #[arg(long, value_name = "PATH")]
        path: Option<String>,
        /// Number of failures
        #[arg(long, value_name = "N", default_value_t = 1000)]
        count: usize,
    },
    /// Compare two runs
    Compare {
        /// Number of the run
        id: u64,
        /// Number of the other run
        other: u64,
    },
}

/// The arguments of `fleet run start`.
#[derive(Debug, Args)]
#[command(next_help_heading = FLEET)]
pub struct StartArguments {
    /// Name of the relationship
    #[arg(required_unless_present = "command", conflicts_with = "command")]
    pub name: Option<String>,
    /// Group of brokers, for a run of its own
    #[arg(long, value_name = "NAME", requires = "command")]
    pub group: Option<String>,
    /// Compare source and target at the end, for a run of its own
    #[arg(long, requires = "command")]
    pub verify: bool,
    /// Follow the run, as run watch does
    #[arg(long)]
    pub watch: bool,
    /// Command of a run of its own, behind --
    #[arg(last = true, value_name = "COMMAND", requires = "group")]
    pub command: Vec<OsString>,
}

/// The actions on brokers.
#[derive(Debug, Subcommand)]
pub enum BrokersVerb {
    /// List brokers
    List {
        /// Only those of a group
        #[arg(long, value_name = "NAME")]
        group: Option<String>,
    },
    /// Have a broker take no further units; it ends those that it has
    Drain {
        /// Name of the broker
        name: String,
    },
    /// Let a broker take units again
    Undrain {
        /// Name of the broker
        name: String,
    },
    /// Forget a broker that is away
    Forget {
        /// Name of the broker
        name: String,
    },
}

/// The actions on groups.
#[derive(Debug, Subcommand)]
pub enum GroupsVerb {
    /// List the groups that a broker, a relationship or a run belongs to
    List,
}

/// The text below the help.
pub(crate) const LIMITS_HELP: &str = "\
Limits hold over all brokers, and within seconds. What is not named stays as it is; off and 0 remove a limit.

Examples:
  hakobu fleet limits run 7 --rate 20M
  hakobu fleet limits group site-a --rate 100M --operations 2000
  hakobu fleet limits endpoint nas: --operations 500
  hakobu fleet limits endpoint s3://bucket/archive --rate 50M
  hakobu fleet limits run 7 --rate off";

/// The actions on limits.
#[derive(Debug, Subcommand)]
pub enum LimitsVerb {
    /// Show or set the limits of a run
    #[command(after_help = LIMITS_HELP)]
    Run {
        /// Number of the run
        id: u64,
        /// The limits.
        #[command(flatten)]
        limits: FleetLimits,
    },
    /// Show or set the limits of a group
    #[command(after_help = LIMITS_HELP)]
    Group {
        /// Name of the group
        name: String,
        /// The limits.
        #[command(flatten)]
        limits: FleetLimits,
    },
    /// Show or set the limits of an endpoint, over all runs with a source or the target there or below
    #[command(after_help = LIMITS_HELP)]
    Endpoint {
        /// Host (HOST:), store or folder, as in a relationship
        location: OsString,
        /// The limits.
        #[command(flatten)]
        limits: FleetLimits,
    },
    /// List the limits of endpoints
    Endpoints,
}

/// The limits that were typed.
#[derive(Debug, Args)]
#[command(next_help_heading = FLEET)]
pub struct FleetLimits {
    /// Bytes per second, such as 20M, or off
    #[arg(long, value_name = "RATE")]
    pub rate: Option<String>,
    /// Operations per second, or 0 for no limit
    #[arg(long, value_name = "N")]
    pub operations: Option<u32>,
    /// Slow down while source reads are slower than MS; 0 for no limit
    #[arg(long, value_name = "MS")]
    pub source_p99: Option<f64>,
    /// Brokers that work at a time, over all runs of a group or an endpoint; 0 for no limit
    #[arg(long, value_name = "N")]
    pub brokers: Option<u32>,
}

/// The text below the help.
pub(crate) const TOKENS_HELP: &str = "\
Roles: viewer sees everything but secrets, operator starts, stops and limits runs, admin changes everything.

Examples:
  hakobu fleet tokens add monitoring --role viewer
  hakobu fleet tokens add visitor --role operator --valid-for 8h --once";

/// The actions on tokens.
#[derive(Debug, Subcommand)]
pub enum TokensVerb {
    /// List tokens, without their secrets
    List,
    /// Make a token and print it; it is not shown again
    #[command(after_help = TOKENS_HELP)]
    Add {
        /// Name that says what it is for
        label: String,
        /// Role: viewer, operator, admin
        #[arg(long, value_name = "ROLE", hide_possible_values = true,
            value_parser = PossibleValuesParser::new(["viewer", "operator", "admin"]))]
        role: String,
        /// Time for which it is valid, such as 90d; without it, there is no end
        #[arg(long, value_name = "DURATION")]
        valid_for: Option<String>,
        /// Valid once
        #[arg(long)]
        once: bool,
    },
    /// Revoke a token; its sessions end
    Revoke {
        /// Number of the token
        id: u64,
    },
}

/// The arguments of `fleet audit`.
#[derive(Debug, Args)]
#[command(next_help_heading = FLEET)]
pub struct AuditArguments {
    /// Number of records, the latest first
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub count: usize,
}
