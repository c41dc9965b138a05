//! The request of `doctor`.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;

use hakobu_core::error::Error;
use hakobu_transfer::doctor::DoctorRequest;

use super::findings::Findings;
use super::lanes::lanes;
use super::login::{agent, host, ssh};
use crate::arguments::doctor::DoctorArguments;
use crate::settings_file::name_places;

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
