//! The verb `doctor`, from the arguments to the exit code.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::time::Duration;

use clap::Args;
use hakobu_core::error::Error;
use hakobu_core::location::SshHost;
use hakobu_transfer::doctor::{self, DoctorRequest};

use crate::commands::shared::findings::Findings;
use crate::commands::shared::headings::{OUTPUT, PERFORMANCE};
use crate::commands::shared::lanes::lanes;
use crate::commands::shared::login::{LoginArguments, agent, host, ssh};
use crate::commands::shared::looking;
use crate::exit;
use crate::render::doctor::{json, text};
use crate::settings_file::{name_places, ssh_variable};

/// The text below the help.
pub(crate) const DOCTOR_HELP: &str = "\
Nothing is changed. With HOST, the round-trip time is measured, and the settings of both hosts are checked for transfers \
in both directions. Where advice depends on the throughput of the link, up to 256 MiB are sent to HOST and discarded \
there. Without HOST, only what is certain about this machine is reported.

Each finding has a fact, its consequence, the command that changes it and, where it can be predicted, the rate before \
and after. Rates are for the number of connections that hakobu starts with, and for one, which is what other tools use. If nothing holds \
transfers back, one line says so. Settings that this login may not read are named.

Examples:
  hakobu doctor                 this machine
  hakobu doctor host            this machine, host, and the link between them
  hakobu doctor host --json | jq -r '.findings[].command'

Exit codes: 0 checked, whatever was found, 1 failed, 2 wrong usage.";

/// The arguments of `doctor`.
#[derive(Debug, Args)]
pub struct DoctorArguments {
    /// host, user@host or ssh://host:port; default: this machine only
    #[arg(value_name = "HOST")]
    pub host: Option<OsString>,

    /// Number of parallel connections, or auto
    #[arg(long, value_name = "N", default_value = "auto", help_heading = PERFORMANCE)]
    pub lanes: String,

    /// Print one JSON object
    #[arg(long, help_heading = OUTPUT)]
    pub json: bool,

    /// The login on the other machine.
    #[command(flatten)]
    pub login: LoginArguments,
}

/// Returns the request that the arguments of `doctor` stand for.
///
/// # Errors
/// `Usage` for each value that is wrong.
pub fn doctor_request(
    typed: &DoctorArguments,
    environment_ssh: Option<OsString>,
) -> Result<DoctorRequest, Vec<Error>> {
    let mut found = Findings::default();
    let request = DoctorRequest {
        host: typed.host.as_ref().and_then(|typed| found.keep(host(typed.as_bytes()))),
        ssh: found.keep(ssh(typed.login.ssh.as_ref(), environment_ssh)).unwrap_or_default(),
        agent: found.keep(agent(typed.login.agent.as_ref())).unwrap_or_default(),
        sudo: typed.login.sudo,
        lanes: found.keep(lanes(&typed.lanes)).unwrap_or_default(),
    };
    name_places(&mut found.errors, &typed.login.from_files);
    if typed.host.is_none() && typed.login.sudo {
        found.usage("--sudo", "applies to another host; on this machine run sudo hakobu doctor");
    }
    found.or(request)
}

/// The time that a run has to end after an interruption, and to remove the test data in memory.
const FAREWELL: Duration = Duration::from_secs(5);

/// Prints the settings that slow transfers down; returns the exit code.
pub fn doctor(typed: &DoctorArguments) -> u8 {
    let request = match doctor_request(typed, ssh_variable()) {
        Ok(request) => request,
        Err(errors) => return exit::errors(&errors),
    };
    let host = request.host.as_ref().map(SshHost::destination);
    looking::look(
        request.host.as_ref(),
        (request.sudo, typed.json),
        FAREWELL,
        |terminal, observer, cancel| {
            let diagnosis = doctor::doctor(&request, terminal, observer, cancel)?;
            match typed.json {
                true => json(host.as_deref(), &diagnosis),
                false => Ok(text(host.as_deref(), &diagnosis)),
            }
        },
    )
}
