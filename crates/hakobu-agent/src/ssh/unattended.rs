//! Whether a login works when nobody is there: asked before it matters, hours later.

use std::os::unix::process::CommandExt;
use std::process::Stdio;
use std::time::Duration;

use super::child::SshChild;
use super::command;
use super::settings::SshSettings;

/// How long one login may take to be tried.
const LIMIT: Duration = Duration::from_secs(20);

/// How a login goes with nobody to ask.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Login {
    /// It works.
    Works,
    /// It works with the ssh agent of this session, which may be gone by then.
    WithAgent,
    /// It does not: ssh would ask for a password, or something else.
    Asks,
    /// It could not be found out: not OpenSSH, or no answer in time.
    Unknown,
}

/// Logs in as a run with these settings would, but with nobody to ask and through no connection that
/// is shared with others.
#[must_use]
pub fn login(settings: &SshSettings) -> Login {
    match try_without(settings, &["IdentityAgent=none"]) {
        Some(true) => return Login::Works,
        Some(false) => {}
        None => return Login::Unknown,
    }
    match try_without(settings, &[]) {
        Some(true) => Login::WithAgent,
        Some(false) => Login::Asks,
        None => Login::Unknown,
    }
}

/// Whether ssh gets in with these options; `None` if that stays unknown.
fn try_without(settings: &SshSettings, options: &[&str]) -> Option<bool> {
    let mut command = command::trial(settings, options).ok()??;
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    // A Ctrl-C on the terminal is for the run, which this must not disturb.
    command.process_group(0);
    let mut ssh = SshChild::new(command.spawn().ok()?);
    match ssh.wait(LIMIT).ok()? {
        // All else comes from the far side, such as an account that may do SFTP alone.
        Some(status) => Some(status.code().is_some_and(|code| code != 255)),
        None => {
            let _ = ssh.kill();
            None
        }
    }
}
