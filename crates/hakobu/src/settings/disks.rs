//! The request of `disks`.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;

use hakobu_core::error::Error;
use hakobu_transfer::disks::DisksRequest;

use super::findings::Findings;
use super::login::{agent, host, ssh};
use crate::arguments::disks::DisksArguments;

/// The request that the arguments of `disks` stand for.
///
/// # Errors
/// `Usage` for each value that is wrong.
pub fn disks_request(
    typed: &DisksArguments,
    environment_ssh: Option<OsString>,
) -> Result<DisksRequest, Vec<Error>> {
    let mut found = Findings::default();
    let request = DisksRequest {
        host: typed.host.as_ref().and_then(|typed| found.keep(host(typed.as_bytes()))),
        ssh: found.keep(ssh(typed.login.ssh.as_ref(), environment_ssh)).unwrap_or_default(),
        agent: found.keep(agent(typed.login.agent.as_ref())).unwrap_or_default(),
        sudo: typed.login.sudo,
    };
    if typed.host.is_none() && typed.login.sudo {
        found.usage("--sudo", "it is for another machine; here: sudo hakobu disks");
    }
    if found.errors.is_empty() { Ok(request) } else { Err(found.errors) }
}
