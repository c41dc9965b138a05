//! Logs in to another host and starts an agent there, according to the user's options.

use hakobu_core::error::{Error, ErrorKind, ErrorStep, Result};
use hakobu_core::event::{Event, Observer};

use hakobu_core::prompts::Prompts;

use crate::agent_client::{FarSide, STARTING};
use hakobu_ssh::login::SshMethod;
use hakobu_ssh::ssh_channel::SshChannel;
use hakobu_ssh::{AgentOrigin, SshError, SshSettings};

/// Logs in and starts an agent; says how it was found.
///
/// # Errors
/// As [`FarSide::start`].
pub fn start(login: &SshMethod<'_>, prompts: &mut dyn Prompts, observer: &dyn Observer) -> Result<FarSide> {
    let mut settings = login.settings();
    let name = login.host.destination();
    // A login that is repeated interrupts a run that shows its progress.
    if login.time_limit.is_none() {
        prompts.connecting(&name);
    }
    let mut opened = open(&settings, &name, prompts);
    // An agent of another version is no obstacle if this program can be uploaded.
    if opened.as_ref().is_err_and(|error| error.kind == ErrorKind::Unsupported)
        && !settings.uploads.is_empty()
    {
        settings.always_upload = true;
        opened = open(&settings, &name, prompts);
    }
    prompts.connected();
    let (far, way) = opened?;
    let found = match way {
        AgentOrigin::OnPath => "found on its PATH",
        AgentOrigin::AtPath => "at the path given",
        AgentOrigin::Uploaded if settings.always_upload => "uploaded, as the one there is of another version",
        AgentOrigin::Uploaded => "uploaded, as none was found there",
    };
    if let (Some(path), AgentOrigin::Uploaded, false) = (login.agent, way, settings.always_upload) {
        let words = format!("{} is not on {name}; the program was uploaded instead", path.display());
        observer.event(Event::Notice { words });
    }
    let choice = format!("agent on {name}: {found}");
    let reason = format!("version {}, {}", far.hello.program, far.hello.machine.system);
    observer.event(Event::Decision { choice, reason });
    Ok(far)
}

/// Opens a channel and greets the agent there.
fn open(settings: &SshSettings, host: &str, prompts: &mut dyn Prompts) -> Result<(FarSide, AgentOrigin)> {
    let channel = SshChannel::open(settings, prompts).map_err(|error| of_ssh(&error, host))?;
    let way = channel.way();
    FarSide::start(Box::new(channel), host).map(|far| (far, way))
}

/// Converts a failure of ssh to an error of the job that is not retried, because a failed login usually fails again.
/// `NotFound`: the login worked, but no agent can run there.
fn of_ssh(error: &SshError, host: &str) -> Error {
    let kind = if error.is_agentless() { ErrorKind::NotFound } else { ErrorKind::Io };
    Error::new(kind, STARTING, error.to_string()).in_step(ErrorStep::Login).at(host)
}
