//! A login that opens no session of its own and is shared by hakobu's ssh processes. Nobody is asked for it.

use std::io::ErrorKind;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use hakobu_core::stopping;

use super::answer::printable;
use super::child::SshChild;
use super::command::{self, with_nobody_to_ask};
use super::error::SshError;
use super::settings::SshSettings;
use super::shared_login::{self, LoginSocket, Sharing, SshConfigFacts};
use super::ssh_output::{SshOutput, each_piece};

/// The interval at which the login is checked.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// A login that others share. Dropping it ends them.
#[derive(Debug)]
pub struct Master {
    settings: SshSettings,
    shared: LoginSocket,
    ssh: SshChild,
}

impl Master {
    /// Logs in. Returns `None` if hakobu cannot share logins: with another program than OpenSSH, or a configuration
    /// that shares them already.
    ///
    /// # Errors
    /// [`SshError::Further`] if ssh could not log in; [`SshError::TimedOut`] after the time limit or if `stop` is set; or
    /// the host, user or ssh command cannot be used.
    pub fn log_in(settings: SshSettings, stop: &AtomicBool) -> Result<Option<Self>, SshError> {
        let SshConfigFacts { sharing, login } = shared_login::find(&settings)?;
        if sharing != Sharing::Ours {
            return Ok(None);
        }
        let Some(shared) = LoginSocket::create() else { return Ok(None) };
        let mut words = shared.for_the_first();
        words.extend(login);
        words.push("-N".to_owned());
        words.extend(command::words(&["BatchMode=yes"]));
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let mut command = command::question(&settings, &words)?;
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        with_nobody_to_ask(&mut command);
        let said = SshOutput::default();
        let ssh = spawn(command, said.clone())?;
        let mut master = Self { settings, shared, ssh };
        match master.wait(stop) {
            Err(SshError::Login { host, .. }) => Err(SshError::Further { host, words: said.last_words() }),
            Err(error) => Err(error),
            Ok(()) => Ok(Some(master)),
        }
    }

    /// Waits until others can use the login.
    fn wait(&mut self, stop: &AtomicBool) -> Result<(), SshError> {
        let deadline = Instant::now() + self.settings.time_limit;
        loop {
            // ssh creates the socket once it has logged in.
            self.shared.hold();
            if self.shared.is_held() {
                return Ok(());
            }
            let host = printable(&self.settings.host);
            if self.ssh.wait(LOOK_EVERY)?.is_some() {
                return Err(SshError::Login { host, command: self.settings.typed() });
            }
            if stop.load(Relaxed) || stopping::is_asked() || Instant::now() > deadline {
                return Err(SshError::TimedOut { host, limit: self.settings.time_limit });
            }
        }
    }

    /// Returns the arguments for an ssh process of ours that uses the login. If the server refuses the session, it logs
    /// in itself.
    pub(super) fn words(&self) -> Vec<String> {
        self.shared.for_further()
    }

    /// Returns true if the connection still exists.
    pub fn is_alive(&mut self) -> bool {
        matches!(self.ssh.wait(Duration::ZERO), Ok(None))
    }
}

impl Drop for Master {
    fn drop(&mut self) {
        self.ssh.tell_to_end();
    }
}

/// Starts the process from a thread that lives as long as it does, so that it does not outlive this process in any
/// case: it has no input whose end it would notice.
fn spawn(mut command: Command, said: SshOutput) -> Result<SshChild, SshError> {
    let (sender, receiver) = mpsc::sync_channel(1);
    std::thread::Builder::new().name("ssh words".to_owned()).spawn(move || match command.spawn() {
        Ok(mut child) => {
            let stderr = child.stderr.take();
            let _ = sender.send(Ok(SshChild::new(child)));
            each_piece(stderr, |words| said.add(words));
            said.end();
        }
        Err(error) => {
            let command = command.get_program().to_string_lossy().into_owned();
            let _ = sender.send(Err(SshError::Spawn { command, error }));
        }
    })?;
    receiver.recv().unwrap_or_else(|_| Err(SshError::Pipe(ErrorKind::BrokenPipe.into())))
}

#[cfg(test)]
mod tests {
    use hakobu_core::shell::split;
    use hakobu_testkit::sshd::{Sshd, SshdOptions};

    use super::*;

    static NEVER: AtomicBool = AtomicBool::new(false);

    fn settings(server: &Sshd, more: &str) -> SshSettings {
        let mut settings = SshSettings::new(server.host().as_bytes().to_vec());
        settings.ssh_command = split(format!("{}{more}", server.ssh_command())).unwrap();
        settings
    }

    #[test]
    fn a_login_serves_others_until_it_is_dropped() {
        let server = Sshd::start(&SshdOptions::default()).unwrap();
        let mut master = Master::log_in(settings(&server, ""), &NEVER).unwrap().unwrap();
        assert!(master.is_alive() && !master.shared.is_on_disk());
        let mut words = master.words();
        words.extend([server.host().to_owned(), "echo there".to_owned()]);
        let ssh = server.ssh_command().to_owned();
        let mut parts = ssh.split(' ');
        let through = |parts: &mut dyn Iterator<Item = &str>, words: &[String]| {
            let mut command = Command::new(parts.next().unwrap());
            command.args(parts).args(words).stdin(Stdio::null()).output().unwrap()
        };
        assert_eq!(through(&mut parts, &words).stdout, b"there\n");
        assert_eq!(server.log().matches("Accepted ").count(), 1);
        drop(master);
        let deadline = Instant::now() + Duration::from_secs(60);
        // It was told to end, and may still accept a session before it does. After that each ssh logs in by itself.
        while server.log().matches("Accepted ").count() == 1 {
            assert!(Instant::now() < deadline, "the login outlives who had it");
            through(&mut ssh.split(' '), &words);
        }
    }

    #[test]
    fn a_login_that_fails_or_is_not_wanted_any_more_ends() {
        let server = Sshd::start(&SshdOptions::default()).unwrap();
        let refused = Master::log_in(settings(&server, " -o PubkeyAuthentication=no"), &NEVER).unwrap_err();
        assert!(refused.to_string().contains("Permission denied"), "{refused}");
        let stopped = AtomicBool::new(true);
        // It outlives ssh. Whoever reads the output of the tests waits for all that have it.
        let slow = settings(&server, " -o ProxyCommand='sleep 90 2>/dev/null'");
        let began = Instant::now();
        assert!(matches!(Master::log_in(slow, &stopped), Err(SshError::TimedOut { .. })));
        assert!(began.elapsed() < Duration::from_secs(60));
        let mut other = settings(&server, "");
        other.ssh_command = vec!["dbclient".into()];
        assert!(Master::log_in(other, &NEVER).unwrap().is_none());
    }
}
