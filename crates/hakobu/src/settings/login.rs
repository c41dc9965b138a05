//! The host, the ssh to log in with and the program on the other machine.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use hakobu_core::error::{Error, ErrorKind};
use hakobu_core::location::{Location, SshHost};
use hakobu_core::request::{CopyRequest, HostLogin};

use super::findings::{Findings, usage};
use crate::arguments::login::LoginArguments;
use crate::settings_file::SSH_VARIABLE;
use crate::shell;

/// A machine, typed as in a location but without a path.
pub(crate) fn host(typed: &[u8]) -> Result<SshHost, Error> {
    let wrong = || {
        let words = "it is no host: host, user@host or ssh://host:port; without one, this machine";
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
            Err(usage("--agent", "it is the path of hakobu on the other machine"))
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
    pub fn logins(&mut self, typed: &LoginArguments) -> Vec<HostLogin> {
        let own = typed.logins.iter().map(|login| HostLogin {
            host: login.host.clone(),
            ssh: self.keep(ssh(login.ssh.as_ref(), None)).unwrap_or_default(),
            agent: self.keep(agent(login.agent.as_ref())).unwrap_or_default(),
            sudo: login.sudo,
        });
        own.collect()
    }
}
