//! Several ssh sessions for one login.
//!
//! The user answers questions at most once, for the first session. A further session has its own connection if that
//! requires no question, because it then has its own TCP stream, window and encrypting process. Otherwise, and if the
//! first was seen to ask, it goes through the connection of the first, which is started so that it can be shared. If
//! the user's configuration shares connections already, all sessions are left to it.
//!
//! A login takes about 18 round trips, a session in an existing login takes 2. With a long round trip, the first few
//! further sessions therefore go through the first login, each with its own window, and [further logins](super::logins)
//! follow, each for a few more.
//!
//! A server accepts only a limited number of connections that have not logged in yet (`MaxStartups`), and newer ones
//! penalize clients that open too many. Connections are therefore opened one after another; with a long round trip, two
//! at a time.

use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{ChildStderr, Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::answer::printable;
use super::child::SshChild;
use super::command::{self, LOGGED_IN, Program, with_nobody_to_ask, words_of_its_own};
use super::error::SshError;
use super::logins::{LOGIN_LIMIT, Logins};
use super::peer_output;
use super::prompt_watcher::PromptWatcher;
use super::refusal::StartRefusal;
use super::settings::SshSettings;
use super::shared_login::{self, LoginSocket, Sharing, SshConfigFacts};
use super::ssh_output::{SAID_BYTES_MAX, each_piece};
use super::start::{RunningAgent, start_with};
use hakobu_core::prompts::Prompts;
use hakobu_core::shell;

pub use super::command::SessionCommand;
pub use super::ssh_output::SshOutput;

/// The interval at which a stop is checked for.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// The round trip from which on the first login is used to save time.
pub const LONG_WAY: Duration = Duration::from_millis(20);
/// The number of sessions that then go through the first login. OpenSSH keeps 2 MiB in transit in each, and Linux
/// allows a connection little more than that (measured: 20 MB/s by one at 100 ms, 28 MB/s by four).
const QUICK_MAX: usize = 2;
/// The pause after a server refused a connection.
const PAUSE: Duration = Duration::from_secs(1);

/// A session, as a socket for both directions: it costs ssh less than two pipes, and nothing is in between.
#[derive(Debug)]
pub struct Pipe {
    /// The stream to and from the remote side.
    pub socket: UnixStream,
    /// The ssh process. It is ended when dropped.
    pub ssh: SshChild,
    /// The standard error output of ssh.
    pub said: SshOutput,
}

/// The sessions of one login.
#[derive(Debug)]
pub struct Sessions {
    settings: SshSettings,
    sharing: Sharing,
    /// Arguments for an ssh that logs in.
    login: Vec<String>,
    /// True if the remote host is so far away that logins take long.
    far_away: AtomicBool,
    state: Mutex<SessionState>,
}

#[derive(Debug, Default)]
struct SessionState {
    /// The first login, if hakobu can share it.
    shared: Option<LoginSocket>,
    /// True if a separate connection requires no question; `None` before it was tried.
    own: Option<bool>,
    /// The output of the sessions that went through the first login to save time.
    quick: Vec<SshOutput>,
    /// The watch for questions during the first login.
    asking: Option<PromptWatcher>,
    /// Further logins, with a long round trip.
    logins: Option<Arc<Logins>>,
}

impl SessionState {
    /// Returns the first login for a session that is to save time, unless earlier ones have reported errors.
    fn quick_way(&self) -> Option<&LoginSocket> {
        let well = self.quick.len() < QUICK_MAX && self.quick.iter().all(|said| said.last_line().is_empty());
        self.shared.as_ref().filter(|_| well && self.own.is_none())
    }

    fn logins(&mut self, settings: &SshSettings) -> Arc<Logins> {
        self.logins.get_or_insert_with(|| Logins::new(settings)).clone()
    }
}

impl Drop for SessionState {
    fn drop(&mut self) {
        if let Some(logins) = &self.logins {
            logins.end();
        }
    }
}

impl Sessions {
    /// Finds out how sessions can share a login. Opens none.
    ///
    /// # Errors
    /// The host, user or ssh command cannot be used.
    pub fn new(settings: SshSettings) -> Result<Self, SshError> {
        let SshConfigFacts { sharing, login } = shared_login::find(&settings)?;
        Ok(Self { settings, sharing, login, far_away: AtomicBool::new(false), state: Mutex::default() })
    }

    /// Opens the first session. ssh may ask the user for a password on the terminal; its output is shown to the user.
    /// Returns before it has logged in: the first data from the remote side shows that it has.
    ///
    /// # Errors
    /// ssh cannot be run.
    pub fn first(&self, session: SessionCommand<'_>) -> Result<Pipe, SshError> {
        let mut command = command::session(&self.settings, session, &self.for_the_first())?;
        let ear = peer_output::prepare(&mut command);
        let spawned = spawn(&mut command);
        // The command would keep its end of a terminal open.
        drop(command);
        let (mut pipe, stderr) = spawned?;
        pipe.ssh = pipe.ssh.heard(peer_output::listen(ear, stderr)?);
        self.watch(pipe.ssh.id());
        Ok(pipe)
    }

    /// Starts an agent, as [`start`](super::start) does, as the first session.
    ///
    /// # Errors
    /// The errors of [`start`](super::start).
    pub fn start(&self, prompts: &mut dyn Prompts) -> Result<RunningAgent, SshError> {
        let words = self.for_the_first();
        let started = start_with(&self.settings, &words, prompts, |process| self.watch(process))?;
        self.settle();
        Ok(started)
    }

    /// Must be called once the first session has answered: from then on nothing of it is on disk. The first call of
    /// [`further`](Self::further) does it too.
    pub fn settle(&self) {
        let mut state = self.lock();
        let asks = state.asking.as_ref().is_some_and(PromptWatcher::settle);
        let Some(shared) = &mut state.shared else { return };
        shared.hold();
        // A server penalizes failed logins, and bars a client with too many of them.
        if asks {
            state.own = Some(false);
        }
    }

    fn watch(&self, process: u32) {
        self.lock().asking = Some(PromptWatcher::watch(process));
    }

    /// Records the round trip of a request to the remote host.
    pub fn round_trip_is(&self, round_trip: Duration) {
        self.far_away.store(round_trip >= LONG_WAY, Relaxed);
    }

    /// Prepares for a long run that will need many sessions: with a long round trip, logins begin at once.
    pub fn foresee_many(&self) {
        let mut state = self.lock();
        if self.far_away.load(Relaxed) && state.own.is_none() && state.shared.is_some() {
            state.logins(&self.settings).foresee();
        }
    }

    /// Returns true if commands are better than forwarded ports. That is the case with a long round trip, since OpenSSH
    /// keeps half as much in transit for a port (measured: 10 and 20 MB/s at 100 ms), unless the agent runs as another
    /// user, whose program cannot be run again.
    #[must_use]
    pub fn prefer_commands(&self) -> bool {
        self.far_away.load(Relaxed) && !self.settings.sudo
    }

    /// Stops using the first login to save time. Returns true if that is a change.
    pub fn leave_the_first(&self) -> bool {
        let used = !self.lock().quick.is_empty();
        used && self.far_away.swap(false, Relaxed)
    }

    /// Opens one more session, asking nobody, unless `stop` is set first. It ends at the latest with the thread that
    /// opened it: an ssh whose standard output is gone may wait forever. It may still fail later, when the remote side
    /// should answer: its output then ends, and [`Pipe::said`] contains the reason.
    ///
    /// # Errors
    /// [`SshError::Further`] if the login fails; otherwise the errors of [`first`](Self::first).
    pub fn further(&self, session: SessionCommand<'_>, stop: &AtomicBool) -> Result<Pipe, SshError> {
        let program = command::program(&self.settings);
        if let (Program::Other, SessionCommand::Forward { .. }) = (program, session) {
            let why = "only OpenSSH's ssh can connect to a port of the far machine";
            let text = shell::quote_all(&self.settings.ssh_command);
            return Err(SshError::Unusable { what: "ssh command", text, why });
        }
        self.settle();
        // The lock is held during a login, so there are never two at a time.
        let mut state = self.lock();
        // A stop may have been requested while others logged in.
        if stop.load(Relaxed) {
            let words = "stopped".to_owned();
            return Err(SshError::Further { host: printable(&self.settings.host), words });
        }
        if program == Program::Other {
            return self.quiet(session, &[]);
        }
        if self.sharing == Sharing::Theirs {
            return self.quiet(session, &command::words(&["ControlMaster=no", "BatchMode=yes"]));
        }
        if self.far_away.load(Relaxed)
            && !matches!(session, SessionCommand::Forward { .. })
            && let Some(shared) = state.quick_way()
        {
            let opened = self.quiet(session, &shared.for_further())?;
            state.quick.push(opened.said.clone());
            return Ok(opened);
        }
        let mut refused = None;
        if self.far_away.load(Relaxed) && state.own != Some(false) && state.shared.is_some() {
            let logins = state.logins(&self.settings);
            drop(state);
            match logins.enter(stop) {
                Ok((number, words)) => {
                    let opened = self.quiet(session, &words)?;
                    logins.listen(number, opened.said.clone());
                    return Ok(opened);
                }
                Err(error) => refused = Some(error),
            }
            state = self.lock();
        } else if state.own != Some(false) {
            match self.own(session, stop) {
                Ok(opened) => {
                    state.own = Some(true);
                    return Ok(opened);
                }
                Err(error) => refused = Some(error),
            }
        }
        if let Some(error) = refused.take_if(|_| stop.load(Relaxed)) {
            return Err(error);
        }
        // After one refusal, no more are provoked if there is an alternative.
        if let Some(shared) = &state.shared {
            let words = shared.for_no_login(&self.settings);
            state.own = Some(false);
            return self.quiet(session, &words);
        }
        match refused {
            // A key that was not accepted is not accepted a second later.
            Some(SshError::Further { words, .. })
                if StartRefusal::of(&words) != Some(StartRefusal::Login) =>
            {
                wait(Instant::now() + PAUSE, stop);
                let opened = self.own(session, stop)?;
                state.own = Some(true);
                Ok(opened)
            }
            Some(error) => Err(error),
            None => Err(self.failed(&SshOutput::default())),
        }
    }

    /// Sends further sessions through the first login. Returns true if that is a change.
    ///
    /// A name may stand for several hosts: a separate connection could then reach another one than the first.
    pub fn share(&self) -> bool {
        let mut state = self.lock();
        state.shared.is_some() && state.own.replace(false) != Some(false)
    }

    /// Reverts a [`share`](Self::share) that did not help.
    pub fn share_no_more(&self) {
        self.lock().own = None;
    }

    /// Returns the arguments for the first ssh. Each call begins another login.
    fn for_the_first(&self) -> Vec<String> {
        let mut state = self.lock();
        *state = SessionState::default();
        if self.sharing == Sharing::Ours {
            state.shared = LoginSocket::create();
        }
        let Some(shared) = &state.shared else { return Vec::new() };
        let mut words = shared.for_the_first();
        words.extend(self.login.iter().cloned());
        words
    }

    /// Opens a separate connection. Returns once it has logged in.
    fn own(&self, session: SessionCommand<'_>, stop: &AtomicBool) -> Result<Pipe, SshError> {
        let (mut opened, logged_in) = self.watched(session, &words_of_its_own(&self.login))?;
        let deadline = Instant::now() + LOGIN_LIMIT.min(self.settings.time_limit);
        loop {
            match logged_in.recv_timeout(LOOK_EVERY) {
                Ok(()) => return Ok(opened),
                Err(RecvTimeoutError::Timeout) if stop.load(Relaxed) => opened.said.add(b"\nstopped"),
                Err(RecvTimeoutError::Timeout) if Instant::now() < deadline => continue,
                Err(RecvTimeoutError::Timeout) => opened.said.add(b"\nno login in time"),
                // It has ended, or is about to.
                Err(RecvTimeoutError::Disconnected) => {}
            }
            break;
        }
        let _ = opened.ssh.kill();
        Err(self.failed(&opened.said))
    }

    /// Opens a session over the connection that ssh finds with these options.
    fn quiet(&self, session: SessionCommand<'_>, options: &[String]) -> Result<Pipe, SshError> {
        self.watched(session, options).map(|(opened, _)| opened)
    }

    /// Starts an ssh that asks nobody, and keeps its output.
    fn watched(
        &self,
        session: SessionCommand<'_>,
        options: &[String],
    ) -> Result<(Pipe, Receiver<()>), SshError> {
        let mut command = command::session(&self.settings, session, options)?;
        command.stderr(Stdio::piped());
        with_nobody_to_ask(&mut command);
        let (mut opened, stderr) = spawn(&mut command)?;
        let (sender, receiver) = mpsc::sync_channel(1);
        let (said, near) = (opened.said.clone(), opened.socket.try_clone()?);
        let watch = std::thread::Builder::new().name("ssh words".to_owned());
        let listening = move || {
            listen(stderr, &said, &sender);
            said.end();
            // An ssh that used another's connection may have left its end open there.
            let _ = near.shutdown(Shutdown::Both);
        };
        if let Err(error) = watch.spawn(listening) {
            let _ = opened.ssh.kill();
            return Err(SshError::Pipe(error));
        }
        Ok((opened, receiver))
    }

    fn failed(&self, said: &SshOutput) -> SshError {
        SshError::Further { host: printable(&self.settings.host), words: said.last_words() }
    }

    fn lock(&self) -> MutexGuard<'_, SessionState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn wait(until: Instant, stop: &AtomicBool) {
    while Instant::now() < until && !stop.load(Relaxed) {
        std::thread::sleep(LOOK_EVERY);
    }
}

/// Starts an ssh with a socket as its standard input and output.
fn spawn(command: &mut Command) -> Result<(Pipe, Option<ChildStderr>), SshError> {
    let (socket, far) = UnixStream::pair()?;
    let near = socket.try_clone()?;
    command.stdin(OwnedFd::from(far.try_clone()?)).stdout(OwnedFd::from(far));
    let spawned = command.spawn();
    // The command would keep its ends of the socket open.
    command.stdin(Stdio::null()).stdout(Stdio::null());
    let mut child = spawned.map_err(|error| SshError::Spawn {
        command: command.get_program().to_string_lossy().into_owned(),
        error,
    })?;
    let stderr = child.stderr.take();
    let ssh = SshChild::at(child, near);
    Ok((Pipe { socket, ssh, said: SshOutput::default() }, stderr))
}

/// Keeps ssh's output until its end, and reports when it has logged in.
fn listen(stderr: Option<ChildStderr>, said: &SshOutput, logged_in: &SyncSender<()>) {
    let mut line = Vec::new();
    each_piece(stderr, |piece| {
        for &byte in piece {
            if byte != b'\n' && line.len() < SAID_BYTES_MAX {
                line.push(byte);
                continue;
            }
            if line == LOGGED_IN.as_bytes() {
                let _ = logged_in.try_send(());
            } else {
                line.push(byte);
                said.add(&line);
            }
            line.clear();
        }
    });
    said.add(&line);
}

#[cfg(test)]
mod tests;
