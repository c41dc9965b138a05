//! A login that opens no session of its own and is shared: by hakobu's ssh processes, and by programs that start ssh
//! themselves, such as rsync.

use std::io::ErrorKind;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use hakobu_core::stopping;
use hakobu_sys::process::ends_with_this_thread;

use super::answer::printable;
use super::child::SshChild;
use super::command::{self, PLAIN_PIPE, with_nobody_to_ask, words_of_its_own};
use super::error::SshError;
use super::peer_output::PeerOutput;
use super::prompt_watcher::PromptWatcher;
use super::settings::SshSettings;
use super::shared_login::{self, LoginSocket, Sharing, SshConfigFacts};
use super::ssh_output::{SshOutput, each_piece};

/// The interval at which the login is checked.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// The person who may be asked for a password or other input that ssh needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PromptOwner {
    /// The user, on the terminal or as the environment specifies. ssh's output is shown.
    User,
    /// Nobody. ssh's output is kept for the error.
    Nobody,
}

/// A login that others share. The user is asked at most once for all of them. Dropping it ends them.
#[derive(Debug)]
pub struct Master {
    settings: SshSettings,
    /// Arguments for an ssh that logs in.
    login: Vec<String>,
    has_asked: bool,
    shared: LoginSocket,
    ssh: SshChild,
}

impl Master {
    /// Logs in. Returns `None` if hakobu cannot share logins: with another program than OpenSSH, or a configuration
    /// that shares them already.
    ///
    /// # Errors
    /// [`SshError::Login`] if ssh could not log in, or [`SshError::Further`] if nobody is asked; [`SshError::TimedOut`]
    /// after the time limit or if `stop` is set; or the host, user or ssh command cannot be used.
    pub fn log_in(
        settings: SshSettings,
        asks: PromptOwner,
        stop: &AtomicBool,
    ) -> Result<Option<Self>, SshError> {
        let SshConfigFacts { sharing, login } = shared_login::find(&settings)?;
        if sharing != Sharing::Ours {
            return Ok(None);
        }
        let Some(shared) = LoginSocket::create() else { return Ok(None) };
        let mut words = shared.for_the_first();
        words.extend(login.iter().cloned());
        words.push("-N".to_owned());
        if asks == PromptOwner::Nobody {
            words.extend(command::words(&["BatchMode=yes"]));
        }
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let mut command = command::question(&settings, &words)?;
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let (said, is_in) = (SshOutput::default(), Arc::new(AtomicBool::new(asks == PromptOwner::Nobody)));
        match asks {
            PromptOwner::User => ends_with_this_thread(&mut command),
            PromptOwner::Nobody => with_nobody_to_ask(&mut command),
        }
        let ssh = spawn(command, said.clone(), is_in.clone())?;
        let asking = (asks == PromptOwner::User).then(|| PromptWatcher::watch(ssh.id()));
        let mut master = Self { settings, login, has_asked: false, shared, ssh };
        let waited = master.wait(stop);
        master.has_asked = asking.is_some_and(|asking| asking.settle());
        match waited {
            Err(SshError::Login { host, .. }) if asks == PromptOwner::Nobody => {
                Err(SshError::Further { host, words: said.last_words() })
            }
            Err(error) => Err(error),
            Ok(()) => {
                is_in.store(true, Relaxed);
                Ok(Some(master))
            }
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

    /// Returns true if somebody was seen to be asked for it: another login would be refused, or ask as well.
    #[must_use]
    pub fn has_asked(&self) -> bool {
        self.has_asked
    }

    /// Returns true if the connection still exists.
    pub fn is_alive(&mut self) -> bool {
        matches!(self.ssh.wait(Duration::ZERO), Ok(None))
    }

    /// Returns the ssh command for programs that use the login. It asks nobody, and does not log in if the session is
    /// refused.
    ///
    /// # Errors
    /// The ssh command cannot be used.
    pub fn through(&self) -> Result<Vec<String>, SshError> {
        let words = self.shared.for_no_login(&self.settings);
        self.with_plain_pipe(words)
    }

    /// Returns the ssh command for programs that log in without asking anybody. Its first line on standard error is
    /// then [`LOGGED_IN`](super::LOGGED_IN).
    ///
    /// # Errors
    /// The errors of [`through`](Self::through).
    pub fn beside(&self) -> Result<Vec<String>, SshError> {
        self.with_plain_pipe(words_of_its_own(&self.login))
    }

    fn with_plain_pipe(&self, mut words: Vec<String>) -> Result<Vec<String>, SshError> {
        words.extend(PLAIN_PIPE.map(str::to_owned));
        command::with_options(&self.settings, &words)
    }
}

impl Drop for Master {
    fn drop(&mut self) {
        self.ssh.tell_to_end();
    }
}

/// Starts the process from a thread that lives as long as it does, so that it does not outlive this process in any
/// case: it has no input whose end it would notice.
fn spawn(mut command: Command, said: SshOutput, is_silent: Arc<AtomicBool>) -> Result<SshChild, SshError> {
    let (sender, receiver) = mpsc::sync_channel(1);
    std::thread::Builder::new().name("ssh words".to_owned()).spawn(move || match command.spawn() {
        Ok(mut child) => {
            let stderr = child.stderr.take();
            let _ = sender.send(Ok(SshChild::new(child)));
            let mut spoken = PeerOutput::on_stderr();
            each_piece(stderr, |words| {
                said.add(words);
                // Later it reports on sessions, whose own ssh prints the same.
                if !is_silent.load(Relaxed) {
                    spoken.add(words);
                }
            });
            spoken.end();
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
    use hakobu_testkit::sshd::{Sshd, SshdOptions};

    use super::*;
    use crate::LOGGED_IN;

    static NEVER: AtomicBool = AtomicBool::new(false);

    fn settings(server: &Sshd, more: &str) -> SshSettings {
        let mut settings = SshSettings::new(server.host().as_bytes().to_vec());
        settings.ssh_command = format!("{}{more}", server.ssh_command());
        settings
    }

    fn run(words: &[String], server: &Sshd) -> std::process::Output {
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).args([server.host(), "echo there"]).stdin(Stdio::null()).output().unwrap()
    }

    #[test]
    fn others_go_through_it_or_beside_it_until_it_ends() {
        let server = Sshd::start(&SshdOptions::default()).unwrap();
        let logins = || server.log().matches("Accepted ").count();
        let mut master = Master::log_in(settings(&server, ""), PromptOwner::User, &NEVER).unwrap().unwrap();
        assert!(master.is_alive() && !master.shared.is_on_disk());
        let through = master.through().unwrap();
        assert_eq!(run(&through, &server).stdout, b"there\n");
        assert_eq!(logins(), 1);
        let ran = run(&master.beside().unwrap(), &server);
        assert_eq!(ran.stdout, b"there\n");
        assert_eq!(String::from_utf8_lossy(&ran.stderr).trim(), LOGGED_IN);
        assert_eq!(logins(), 2);
        drop(master);
        // It was told to end, and may still accept a session before it does.
        let deadline = Instant::now() + Duration::from_secs(60);
        while run(&through, &server).status.success() {
            assert!(Instant::now() < deadline, "the login outlives who had it");
        }
        assert_eq!(logins(), 2);
    }

    #[test]
    fn a_session_that_is_refused_is_no_reason_to_log_in() {
        let config_lines = vec!["MaxSessions 0".to_owned()];
        let server = Sshd::start(&SshdOptions { config_lines, ..SshdOptions::default() }).unwrap();
        let master = Master::log_in(settings(&server, ""), PromptOwner::User, &NEVER).unwrap().unwrap();
        let ran = run(&master.through().unwrap(), &server);
        assert!(!ran.status.success());
        let said = String::from_utf8_lossy(&ran.stderr);
        assert!(said.contains("mux_client_request_session: session request failed"), "{said}");
        assert_eq!(server.log().matches("Accepted ").count(), 1, "{}", server.log());
    }

    #[test]
    fn a_login_that_fails_or_is_not_wanted_any_more_ends() {
        let server = Sshd::start(&SshdOptions::default()).unwrap();
        let refused =
            Master::log_in(settings(&server, " -o PubkeyAuthentication=no"), PromptOwner::User, &NEVER)
                .unwrap_err();
        assert!(matches!(refused, SshError::Login { .. }), "{refused}");
        let alone = settings(&server, " -o PubkeyAuthentication=no");
        let refused = Master::log_in(alone, PromptOwner::Nobody, &NEVER).unwrap_err();
        assert!(refused.to_string().contains("Permission denied"), "{refused}");
        let stopped = AtomicBool::new(true);
        let slow = settings(&server, " -o ProxyCommand='sleep 600'");
        let began = Instant::now();
        assert!(matches!(Master::log_in(slow, PromptOwner::User, &stopped), Err(SshError::TimedOut { .. })));
        assert!(began.elapsed() < Duration::from_secs(60));
        let mut other = settings(&server, "");
        other.ssh_command = "dbclient".to_owned();
        assert!(Master::log_in(other, PromptOwner::User, &NEVER).unwrap().is_none());
    }
}
