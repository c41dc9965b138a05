//! Checks whether a login works unattended, before it is needed hours later.

use std::os::unix::process::CommandExt;
use std::process::Stdio;
use std::time::Duration;

use super::child::SshChild;
use super::command;
use super::settings::SshSettings;

/// The time limit of one trial login.
const LIMIT: Duration = Duration::from_secs(20);

/// The result of a login with nobody to ask.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnattendedLogin {
    /// It works.
    Works,
    /// It works with the ssh agent of this session, which may be gone later.
    WithAgent,
    /// It does not work: ssh would ask for a password, or something else.
    Asks,
    /// Unknown: not OpenSSH, or no answer in time.
    Unknown,
}

/// Logs in as a run with these settings would, but asks nobody and uses no shared connection.
#[must_use]
pub fn login(settings: &SshSettings) -> UnattendedLogin {
    match try_without(settings, &["IdentityAgent=none"]) {
        Some(true) => return UnattendedLogin::Works,
        Some(false) => {}
        None => return UnattendedLogin::Unknown,
    }
    match try_without(settings, &[]) {
        Some(true) => UnattendedLogin::WithAgent,
        Some(false) => UnattendedLogin::Asks,
        None => UnattendedLogin::Unknown,
    }
}

/// Returns true if ssh logs in with these options; `None` if that remains unknown.
fn try_without(settings: &SshSettings, options: &[&str]) -> Option<bool> {
    let mut command = command::trial(settings, options).ok()??;
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    // A Ctrl-C on the terminal is meant for the run, which must not be disturbed.
    command.process_group(0);
    let mut ssh = SshChild::new(command.spawn().ok()?);
    match ssh.wait(LIMIT).ok()? {
        // Any other code comes from the remote side, for example from an account that only allows SFTP.
        Some(status) => Some(status.code().is_some_and(|code| code != 255)),
        None => {
            let _ = ssh.kill();
            None
        }
    }
}
