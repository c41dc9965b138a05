//! Several ssh sessions for one login.
//!
//! The user answers questions at most once, for the first. A further session has a connection of its own where that
//! asks nothing, because it then has its own TCP stream, window and encrypting process; else, and where the first was seen
//! to ask, it goes through the connection of the first, which is started so that it can. Where the user's configuration shares connections
//! already, all sessions are left to it.
//!
//! A login takes some 18 round trips, a session of a login that is there takes 2. On a long way the first few further
//! sessions therefore go through the first login, each with a window of its own, and [further logins](super::logins) follow,
//! each for a few more.
//!
//! A server lets only so many connections in that have not logged in yet (`MaxStartups`), and newer ones punish whoever
//! opens too many. So connections are opened one after another, but on a long way two at a time.

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
use super::asking::Asking;
use super::child::SshChild;
use super::command::{self, LOGGED_IN, Program, with_nobody_to_ask, words_of_its_own};
use super::error::SshError;
use super::logins::{LOGIN_LIMIT, Logins};
use hakobu_core::prompts::Prompts;
use super::refusal::Refusal;
use super::said::{SAID_BYTES_MAX, each_piece};
use super::settings::SshSettings;
use super::shared::{self, Found, Shared, Sharing};
use super::spoken;
use super::start::{Started, start_with};

pub use super::command::Session;
pub use super::said::Said;

/// How often it is looked whether the waiting is to stop.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// A round trip from which on the first login is used to save time.
pub(crate) const LONG_WAY: Duration = Duration::from_millis(20);
/// So many sessions go through the first login then. OpenSSH has 2 MiB under way in each, and Linux lets a connection
/// have little more than that (measured: 20 MB/s by one at 100 ms, 28 MB/s by four).
const QUICK_MAX: usize = 2;
/// How long a server that refused a connection is left alone.
const PAUSE: Duration = Duration::from_secs(1);

/// A session, as a socket for both directions: it costs ssh less than two pipes, and nothing stands between.
#[derive(Debug)]
pub struct Pipe {
    /// To the far side and from it.
    pub socket: UnixStream,
    /// The ssh process; ended when dropped.
    pub ssh: SshChild,
    /// What ssh says on its standard error.
    pub said: Said,
}

/// The sessions of one login.
#[derive(Debug)]
pub struct Sessions {
    settings: SshSettings,
    sharing: Sharing,
    /// Words for an ssh that logs in.
    login: Vec<String>,
    /// Whether the far machine is so far away that logins take long.
    far_away: AtomicBool,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// The way through the first login, if it is ours.
    shared: Option<Shared>,
    /// Whether a connection of its own asks nothing; not known before it was tried.
    own: Option<bool>,
    /// What the sessions say that went through the first login to save time.
    quick: Vec<Said>,
    /// Sees whether the first login asks somebody.
    asking: Option<Asking>,
    /// Further logins, on a long way.
    logins: Option<Arc<Logins>>,
}

impl State {
    /// The way of a session that is to save time, while those before it have nothing to complain of.
    fn quick_way(&self) -> Option<&Shared> {
        let well = self.quick.len() < QUICK_MAX && self.quick.iter().all(|said| said.last_line().is_empty());
        self.shared.as_ref().filter(|_| well && self.own.is_none())
    }

    fn logins(&mut self, settings: &SshSettings) -> Arc<Logins> {
        self.logins.get_or_insert_with(|| Logins::new(settings)).clone()
    }
}

impl Drop for State {
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
    /// A host, user or ssh command that cannot be used.
    pub fn new(settings: SshSettings) -> Result<Self, SshError> {
        let Found { sharing, login } = shared::find(&settings)?;
        Ok(Self { settings, sharing, login, far_away: AtomicBool::new(false), state: Mutex::default() })
    }

    /// Opens the first session. ssh may ask the user for a password, on the terminal; its words reach the user.
    /// Returns before it has logged in: what the far side sends first tells.
    ///
    /// # Errors
    /// When ssh cannot be run.
    pub fn first(&self, session: Session<'_>) -> Result<Pipe, SshError> {
        let mut command = command::session(&self.settings, session, &self.for_the_first())?;
        let ear = spoken::prepare(&mut command);
        let spawned = spawn(&mut command);
        // Here its end of a terminal would stay open.
        drop(command);
        let (mut pipe, stderr) = spawned?;
        pipe.ssh = pipe.ssh.heard(spoken::listen(ear, stderr)?);
        self.watch(pipe.ssh.id());
        Ok(pipe)
    }

    /// Starts an agent, as [`start`](super::start) does, as the first session.
    ///
    /// # Errors
    /// As [`start`](super::start).
    pub fn start(&self, prompts: &mut dyn Prompts) -> Result<Started, SshError> {
        let words = self.for_the_first();
        let started = start_with(&self.settings, &words, prompts, |process| self.watch(process))?;
        self.settle();
        Ok(started)
    }

    /// To be called once the first session has answered: from then on nothing of it is on disk any more. The first
    /// call of [`further`](Self::further) does it as well.
    pub fn settle(&self) {
        let mut state = self.lock();
        let asks = state.asking.as_ref().is_some_and(Asking::settle);
        let Some(shared) = &mut state.shared else { return };
        shared.hold();
        // A server punishes logins that fail, and bars who has too many of them.
        if asks {
            state.own = Some(false);
        }
    }

    fn watch(&self, process: u32) {
        self.lock().asking = Some(Asking::watch(process));
    }

    /// Says how long a question to the far machine takes.
    pub fn round_trip_is(&self, round_trip: Duration) {
        self.far_away.store(round_trip >= LONG_WAY, Relaxed);
    }

    /// Says that a long run is to come, which will want many sessions: on a long way, logins begin at once.
    pub fn foresee_many(&self) {
        let mut state = self.lock();
        if self.far_away.load(Relaxed) && state.own.is_none() && state.shared.is_some() {
            state.logins(&self.settings).foresee();
        }
    }

    /// Whether commands are better than forwarded ports: on a long way, where OpenSSH has half as much under way for a port
    /// (measured: 10 and 20 MB/s at 100 ms), unless the agent is another user's, whose program cannot be run again.
    #[must_use]
    pub fn prefer_commands(&self) -> bool {
        self.far_away.load(Relaxed) && !self.settings.sudo
    }

    /// Uses the first login no more to save time. Whether that is a change.
    pub fn leave_the_first(&self) -> bool {
        let used = !self.lock().quick.is_empty();
        used && self.far_away.swap(false, Relaxed)
    }

    /// Opens one more session, asking nobody, unless a `stop` is asked for first. It ends at the latest with the thread
    /// that opened it: an ssh whose standard output is gone may wait for ever. It may still fail when the far side should
    /// answer: its output ends then, and [`Pipe::said`] tells why.
    ///
    /// # Errors
    /// [`SshError::Further`] when the login fails; else as [`first`](Self::first).
    pub fn further(&self, session: Session<'_>, stop: &AtomicBool) -> Result<Pipe, SshError> {
        let program = command::program(&self.settings)?;
        if let (Program::Other, Session::Forward { .. }) = (program, session) {
            let why = "only OpenSSH's ssh can connect to a port of the far machine";
            let text = self.settings.ssh_command.clone();
            return Err(SshError::Unusable { what: "ssh command", text, why });
        }
        self.settle();
        // The lock is held while one logs in: never two at a time.
        let mut state = self.lock();
        // It may have been asked for while others logged in.
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
            && !matches!(session, Session::Forward { .. })
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
        // After one refusal no more are provoked where there is another way.
        if let Some(shared) = &state.shared {
            let words = shared.for_no_login(&self.settings);
            state.own = Some(false);
            return self.quiet(session, &words);
        }
        match refused {
            // A key that was not accepted is not accepted a second later.
            Some(SshError::Further { words, .. }) if Refusal::of(&words) != Some(Refusal::Login) => {
                wait(Instant::now() + PAUSE, stop);
                let opened = self.own(session, stop)?;
                state.own = Some(true);
                Ok(opened)
            }
            Some(error) => Err(error),
            None => Err(self.failed(&Said::default())),
        }
    }

    /// From now on further sessions go through the first login. Whether that is a change.
    ///
    /// A name may stand for several machines: a connection of its own then leads to another one than the first.
    pub fn share(&self) -> bool {
        let mut state = self.lock();
        state.shared.is_some() && state.own.replace(false) != Some(false)
    }

    /// Takes back a [`share`](Self::share) that did not help.
    pub fn share_no_more(&self) {
        self.lock().own = None;
    }

    /// The words for the first ssh. Each time it is another login.
    fn for_the_first(&self) -> Vec<String> {
        let mut state = self.lock();
        *state = State::default();
        if self.sharing == Sharing::Ours {
            state.shared = Shared::create();
        }
        let Some(shared) = &state.shared else { return Vec::new() };
        let mut words = shared.for_the_first();
        words.extend(self.login.iter().cloned());
        words
    }

    /// A connection of its own. Returns once it has logged in.
    fn own(&self, session: Session<'_>, stop: &AtomicBool) -> Result<Pipe, SshError> {
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

    /// A session by whatever connection ssh finds with these options.
    fn quiet(&self, session: Session<'_>, options: &[String]) -> Result<Pipe, SshError> {
        self.watched(session, options).map(|(opened, _)| opened)
    }

    /// Starts an ssh that has nobody to ask, and keeps its words.
    fn watched(&self, session: Session<'_>, options: &[String]) -> Result<(Pipe, Receiver<()>), SshError> {
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
            // An ssh that went through another's connection may have left its own end open there.
            let _ = near.shutdown(Shutdown::Both);
        };
        if let Err(error) = watch.spawn(listening) {
            let _ = opened.ssh.kill();
            return Err(SshError::Pipe(error));
        }
        Ok((opened, receiver))
    }

    fn failed(&self, said: &Said) -> SshError {
        SshError::Further { host: printable(&self.settings.host), words: said.last_words() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
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
    // Here its ends would stay open.
    command.stdin(Stdio::null()).stdout(Stdio::null());
    let mut child = spawned.map_err(|error| SshError::Spawn {
        command: command.get_program().to_string_lossy().into_owned(),
        error,
    })?;
    let stderr = child.stderr.take();
    let ssh = SshChild::at(child, near);
    Ok((Pipe { socket, ssh, said: Said::default() }, stderr))
}

/// Keeps what ssh says, to its end; says when it has logged in.
fn listen(stderr: Option<ChildStderr>, said: &Said, logged_in: &SyncSender<()>) {
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
