//! Lists the disks of this host or another one.

use std::ffi::OsString;
use std::path::PathBuf;

use hakobu_core::disk::DeviceFacts;
use hakobu_core::error::Result;
use hakobu_core::event::Observer;
use hakobu_core::location::SshHost;

use crate::host::AgentHost;
use crate::login;
use hakobu_agent::local_host::LocalHost;
use hakobu_core::prompts::Prompts;
use hakobu_net::stop::StopHandle;
use hakobu_ssh::login::SshMethod;

/// The host whose disks are listed, and how to log in there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DisksRequest {
    /// The host; this one if `None`.
    pub host: Option<SshHost>,
    /// The ssh program and its arguments. Never empty.
    pub ssh: Vec<OsString>,
    /// The path of the agent on the host, unless it is to be searched for or uploaded.
    pub agent: Option<PathBuf>,
    /// True if the agent runs under sudo.
    pub sudo: bool,
}

/// Lists the disks.
///
/// # Errors
/// If the host cannot be reached, or its system does not show its disks.
pub fn disks(
    request: &DisksRequest,
    prompts: &mut dyn Prompts,
    observer: &dyn Observer,
) -> Result<Vec<DeviceFacts>> {
    let mut host: Box<dyn AgentHost> = match &request.host {
        None => Box::new(LocalHost::new(StopHandle::default())),
        Some(host) => {
            let agent = request.agent.as_deref();
            let login = SshMethod {
                host,
                ssh: &request.ssh,
                agent,
                sudo: request.sudo,
                nice: false,
                time_limit: None,
            };
            Box::new(login::start(&login, prompts, observer)?)
        }
    };
    let disks = host.disks().map_err(|error| match &request.host {
        Some(host) => error.at(host.destination()),
        None => error,
    })?;
    Ok(disks.0)
}
