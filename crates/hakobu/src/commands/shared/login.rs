//! The login on another machine: its options, the host, the ssh, and the program there.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use clap::Args;
use hakobu_core::error::{Error, ErrorKind};
use hakobu_core::location::{Location, SshHost};
use hakobu_core::request::{self, CopyRequest};

use super::findings::{Findings, usage};
use crate::commands::shared::headings::CONNECTION;
use crate::settings_file::{FileLogin, FromFile, SSH_VARIABLE};
use hakobu_core::shell;

/// The login on another machine.
#[derive(Debug, Args)]
pub struct LoginArguments {
    /// ssh command, such as 'ssh -p 2222 -i key'
    ///
    /// Environment: HAKOBU_SSH
    #[arg(short = 'e', long, value_name = "COMMAND", help_heading = CONNECTION)]
    pub ssh: Option<OsString>,

    /// Path of hakobu on the other host
    ///
    /// Default: found in its PATH, otherwise uploaded for this run
    #[arg(long, value_name = "PATH", help_heading = CONNECTION)]
    pub agent: Option<PathBuf>,

    /// Run hakobu on the other host under sudo
    #[arg(long, help_heading = CONNECTION)]
    pub sudo: bool,

    /// Settings file to use, or none (see hakobu settings)
    ///
    /// Environment: HAKOBU_SETTINGS
    #[arg(long, value_name = "FILE", help_heading = CONNECTION)]
    pub settings: Option<PathBuf>,

    /// Which of the options were not typed, and come from settings files.
    #[arg(skip)]
    pub from_files: Vec<FromFile>,

    /// The logins, where the settings files have another one for each of several machines.
    #[arg(skip)]
    pub logins: Vec<FileLogin>,
}

/// A machine, typed as in a location but without a path.
pub(crate) fn host(typed: &[u8]) -> Result<SshHost, Error> {
    let wrong = || {
        let words =
            "not a host name; expected host, user@host or ssh://host:port, or nothing for this machine";
        Error::new(ErrorKind::Usage, "reading the host", words).at(typed)
    };
    let is_url = typed.windows(3).any(|bytes| bytes == b"://");
    let location = match is_url || typed.ends_with(b":") {
        true => Location::parse(typed),
        false if typed.is_empty() || typed.contains(&b'/') => return Err(wrong()),
        false => Location::parse(&[typed, b":"].concat()),
    }?;
    let has_path = !matches!(location.path(), b"." | b"/");
    location.ssh_host().filter(|_| !has_path).cloned().ok_or_else(wrong)
}

/// The words of the ssh to log in with.
pub(crate) fn ssh(typed: Option<&OsString>, environment: Option<OsString>) -> Result<Vec<OsString>, Error> {
    let typed = typed.cloned().map(|command| ("--ssh", command));
    let set = typed.or(environment.filter(|ssh| !ssh.is_empty()).map(|ssh| (SSH_VARIABLE, ssh)));
    match set {
        Some((name, command)) => shell::split(&command).map_err(|words| usage(name, words)),
        None => Ok(vec![OsString::from("ssh")]),
    }
}

/// The program on the far side.
pub(crate) fn agent(typed: Option<&PathBuf>) -> Result<Option<PathBuf>, Error> {
    let path = typed.map(|agent| agent.as_os_str().as_bytes());
    match path {
        Some(path) if path.is_empty() || path.starts_with(b"-") => {
            Err(usage("--agent", "must be the path of hakobu on the other host"))
        }
        _ => Ok(typed.cloned()),
    }
}

impl Findings {
    /// How to log in on another machine.
    pub fn login(
        &mut self,
        typed: &LoginArguments,
        environment_ssh: Option<OsString>,
        request: &mut CopyRequest,
    ) {
        request.ssh = self.keep(ssh(typed.ssh.as_ref(), environment_ssh)).unwrap_or_default();
        request.agent = self.keep(agent(typed.agent.as_ref())).unwrap_or_default();
        request.sudo = typed.sudo;
        request.logins = self.logins(typed);
    }

    /// Those of single machines.
    pub fn logins(&mut self, typed: &LoginArguments) -> Vec<request::HostLogin> {
        let own = typed.logins.iter().map(|login| request::HostLogin {
            host: login.host.clone(),
            ssh: self.keep(ssh(login.ssh.as_ref(), None)).unwrap_or_default(),
            agent: self.keep(agent(login.agent.as_ref())).unwrap_or_default(),
            sudo: login.sudo,
        });
        own.collect()
    }
}
