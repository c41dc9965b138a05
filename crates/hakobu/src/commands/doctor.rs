//! The verb `doctor`, from the arguments to the exit code.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::time::Duration;

use clap::Args;
use hakobu_core::error::Error;
use hakobu_core::location::SshHost;
use hakobu_transfer::doctor;
use hakobu_transfer::doctor::DoctorRequest;

use crate::commands::shared::findings::Findings;
use crate::commands::shared::lanes::lanes;
use crate::commands::shared::login::LoginArguments;
use crate::commands::shared::login::{agent, host, ssh};
use crate::commands::shared::looking;
use crate::exit;
use crate::render::doctor::{json, text};
use crate::settings_file::{name_places, ssh_variable};

/// What stands below the help.
pub(crate) const DOCTOR_HELP: &str = "\
Nothing is changed. With HOST the round trip to it is measured, and both machines are judged for the
way between them, in both directions; where advice depends on what the way carries, that is measured
as well: up to 256 MiB go to nowhere over there. Without HOST only what is certain of this machine
is said.

Each finding has a fact, what follows from it, the command that changes it and, where it can be
told, the rate before and after: of hakobu with the lanes that it begins with, and of one
connection as other tools have it. Where all is right already, one line says so. What this login
may not read is named.

Examples:
  hakobu doctor                 this machine
  hakobu doctor host            this one, host, and the way between them
  hakobu doctor host --json | jq -r '.findings[].command'

Exit codes: 0 looked at, whatever was found, 1 failed, 2 wrong usage.";

/// The arguments of `doctor`.
#[derive(Debug, Args)]
pub struct DoctorArguments {
    /// host, user@host or ssh://host:port [default: only this machine]
    #[arg(value_name = "HOST")]
    pub host: Option<OsString>,

    /// So many lanes, as hakobu copy --lanes has them: a number, or auto
    #[arg(long, value_name = "N", default_value = "auto")]
    pub lanes: String,

    /// One JSON object on standard output
    #[arg(long)]
    pub json: bool,

    /// The login on the other machine.
    #[command(flatten)]
    pub login: LoginArguments,
}

/// The request that the arguments of `doctor` stand for.
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
        found.usage("--sudo", "it is for another machine; here: sudo hakobu doctor");
    }
    found.or(request)
}

/// The content that measures the way is in memory, and is removed when it is interrupted.
const FAREWELL: Duration = Duration::from_secs(5);

/// Says what holds transfers back; returns the exit code.
pub fn doctor(typed: &DoctorArguments) -> u8 {
    let request = match doctor_request(typed, ssh_variable()) {
        Ok(request) => request,
        Err(errors) => return exit::errors(&errors),
    };
    let host = request.host.as_ref().map(SshHost::destination);
    looking::look(request.host.as_ref(), request.sudo, FAREWELL, |terminal, observer, cancel| {
        let diagnosis = doctor::doctor(&request, terminal, observer, cancel)?;
        match typed.json {
            true => json(host.as_deref(), &diagnosis),
            false => Ok(text(host.as_deref(), &diagnosis)),
        }
    })
}
