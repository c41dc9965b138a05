//! Listing the disks of a machine, this one or another.

use std::ffi::OsString;
use std::path::PathBuf;

use hakobu_core::disk::DeviceFacts;
use hakobu_core::error::Result;
use hakobu_core::event::Observer;
use hakobu_core::location::SshHost;

use crate::host::AgentHost;
use crate::login;
use crate::ssh::login::Login;
use crate::side::Side;
use hakobu_core::prompts::Prompts;
use crate::stop::Stop;

/// Whose disks, and how to get there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DisksRequest {
    /// The machine; this one without.
    pub host: Option<SshHost>,
    /// The ssh program and its arguments, at least the program.
    pub ssh: Vec<OsString>,
    /// The program on the far side, if it is not to be found or uploaded.
    pub agent: Option<PathBuf>,
    /// Whether the far agent runs under sudo.
    pub sudo: bool,
}

/// The disks.
///
/// # Errors
/// When there is no way to the machine, or its system does not show them.
pub fn disks(
    request: &DisksRequest,
    prompts: &mut dyn Prompts,
    observer: &dyn Observer,
) -> Result<Vec<DeviceFacts>> {
    let mut host: Box<dyn AgentHost> = match &request.host {
        None => Box::new(Side::new(Stop::default())),
        Some(host) => {
            let agent = request.agent.as_deref();
            let login =
                Login { host, ssh: &request.ssh, agent, sudo: request.sudo, nice: false, time_limit: None };
            Box::new(login::start(&login, prompts, observer)?)
        }
    };
    let disks = host.disks().map_err(|error| match &request.host {
        Some(host) => error.at(host.destination()),
        None => error,
    })?;
    Ok(disks.0)
}
