//! Several ssh sessions for one login.
//!
//! The user answers questions at most once, for the first. A further session has a connection of its own where that
//! asks nothing, because it then has its own TCP stream, window and encrypting process; else it goes through the
//! connection of the first, which is started so that it can. Where the user's configuration shares connections
//! already, all sessions are left to it.
//!
//! A login takes some 18 round trips, a session of a login that is there takes 2. On a long way the first few further
//! sessions therefore go through the first login, each with a window of its own, and connections of their own follow.
//!
//! A server lets only so many connections in that have not logged in yet (`MaxStartups`), and newer ones punish whoever
//! opens too many. So connections are opened one after another, but on a long way two at a time once one has come about.

use std::io::{self, ErrorKind, Read};
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{ChildStderr, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::answer::printable;
use super::child::SshChild;
use super::command::{self, Program};
use super::shared::{self, Shared, Sharing};
use super::{Prompts, SshError, SshSettings, Started, start_with};

/// How long a login that asks nothing may take.
const LOGIN_LIMIT: Duration = Duration::from_secs(30);
/// How often it is looked whether the waiting is to stop.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// A round trip from which on the first login is used to save time.
pub(crate) const LONG_WAY: Duration = Duration::from_millis(20);
/// So many sessions go through the first login then. OpenSSH has 2 MiB under way in each, and Linux lets a connection
/// have little more than that (measured: 20 MB/s by one at 100 ms, 28 MB/s by four).
const QUICK_MAX: usize = 2;
/// How long a server that refused a connection is left alone.
const PAUSE: Duration = Duration::from_secs(1);
/// A line that was cut says nothing by itself. ssh asks the far side then, which answers however busy it is with data.
const ALIVE: [&str; 2] = ["ServerAliveInterval=10", "ServerAliveCountMax=3"];
/// So much of what ssh says is kept.
const SAID_BYTES_MAX: usize = 4096;
/// What ssh is made to say here once it has logged in.
const LOGGED_IN: &str = "hakobu-ssh-has-logged-in";

/// What runs in a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Session<'a> {
    /// A subsystem of the server: `ssh -s HOST sftp`.
    Subsystem(&'a str),
    /// A connection from the far machine to a port that it reaches: `ssh -W address:port HOST`. Only OpenSSH has it.
    Forward {
        /// As the far machine knows it.
        address: &'a str,
        /// The port.
        port: u16,
    },
    /// A command for the far login shell.
    Command(&'a str),
}

/// A session's two ends. Fields drop in this order, so that ssh ends by itself.
#[derive(Debug)]
pub struct Pipe {
    /// To the far side.
    pub stdin: ChildStdin,
    /// From the far side.
    pub stdout: ChildStdout,
    /// The ssh process; ended when dropped.
    pub ssh: SshChild,
    /// What ssh says on its standard error.
    pub said: Said,
}

/// What an ssh process has said, the last words of it. Nothing of a first session, whose words reach the user.
#[derive(Debug, Clone, Default)]
pub struct Said(Arc<Mutex<Words>>);

#[derive(Debug, Default)]
struct Words {
    bytes: Vec<u8>,
    are_all: bool,
}

impl Said {
    /// The last line so far that says why something failed, else the last at all; printable, and empty when there is
    /// none.
    #[must_use]
    pub fn last_line(&self) -> String {
        let said = self.lock();
        let mut lines =
            said.bytes.split(|&byte| byte == b'\n').map(printable).rev().filter(|line| !line.is_empty());
        let last = lines.next().unwrap_or_default();
        // The line after it only says that something did.
        let why = lines.find(|line| line.starts_with("channel ") && line.contains("open failed"));
        why.unwrap_or(last)
    }

    /// Whether nothing more will be said. A connection may be seen to end before the words that tell why are read.
    #[must_use]
    pub fn is_all(&self) -> bool {
        self.lock().are_all
    }

    fn add(&self, bytes: &[u8]) {
        let mut said = self.lock();
        said.bytes.extend_from_slice(bytes);
        let surplus = said.bytes.len().saturating_sub(SAID_BYTES_MAX);
        said.bytes.drain(..surplus);
    }

    fn end(&self) {
        self.lock().are_all = true;
    }

    fn lock(&self) -> MutexGuard<'_, Words> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The sessions of one login.
#[derive(Debug)]
pub struct Sessions {
    settings: SshSettings,
    sharing: Sharing,
    /// Options that find a line that was cut, where the user's do not.
    alive: &'static [&'static str],
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
}

impl State {
    /// The way of a session that is to save time, while those before it have nothing to complain of.
    fn quick_way(&self) -> Option<&Shared> {
        let well = self.quick.len() < QUICK_MAX && self.quick.iter().all(|said| said.last_line().is_empty());
        self.shared.as_ref().filter(|_| well && self.own.is_none())
    }
}

/// Sets a command's standard input and output.
type Ends<'a> = &'a mut dyn FnMut(&mut Command) -> io::Result<Option<UnixStream>>;

/// One ssh under way.
struct Opened {
    stdin: Option<ChildStdin>,
    stdout: Option<ChildStdout>,
    ssh: SshChild,
    said: Said,
}

impl Sessions {
    /// Finds out how sessions can share a login. Opens none.
    ///
    /// # Errors
    /// A host, user or ssh command that cannot be used.
    pub fn new(settings: SshSettings) -> Result<Self, SshError> {
        let (sharing, watched) = shared::sharing(&settings)?;
        let alive = if watched { &[][..] } else { &ALIVE[..] };
        Ok(Self { settings, sharing, alive, far_away: AtomicBool::new(false), state: Mutex::default() })
    }

    /// Opens the first session. ssh may ask the user for a password, on the terminal; its words reach the user.
    /// Returns before it has logged in: what the far side sends first tells.
    ///
    /// # Errors
    /// When ssh cannot be run.
    pub fn first(&self, session: Session<'_>) -> Result<Pipe, SshError> {
        let mut command = command::session(&self.settings, session, &self.for_the_first())?;
        command.stderr(Stdio::inherit());
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        pipe(self.spawn(&mut command)?)
    }

    /// Starts an agent, as [`start`](super::start) does, as the first session.
    ///
    /// # Errors
    /// As [`start`](super::start).
    pub fn start(&self, prompts: &mut dyn Prompts) -> Result<Started, SshError> {
        let started = start_with(&self.settings, &self.for_the_first(), prompts)?;
        self.settle();
        Ok(started)
    }

    /// To be called once the first session has answered: from then on nothing of it is on disk any more. The first
    /// call of [`further`](Self::further) does it as well.
    pub fn settle(&self) {
        if let Some(shared) = &mut self.lock().shared {
            shared.hold();
        }
    }

    /// Says how long a question to the far machine takes.
    pub fn round_trip_is(&self, round_trip: Duration) {
        self.far_away.store(round_trip >= LONG_WAY, Relaxed);
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
        pipe(self.open(session, stop, &mut |command| {
            command.stdin(Stdio::piped()).stdout(Stdio::piped());
            Ok(None)
        })?)
    }

    /// As [`further`](Self::further), with a socket for both directions, so that nothing stands between it and ssh.
    ///
    /// # Errors
    /// As [`further`](Self::further), or when no file descriptor is left.
    pub fn further_socket(
        &self,
        session: Session<'_>,
        stop: &AtomicBool,
    ) -> Result<(UnixStream, SshChild, Said), SshError> {
        let mut socket = None;
        let opened = self.open(session, stop, &mut |command| {
            // For each try another: the one before is shut when its ssh ends.
            let (near, far) = UnixStream::pair()?;
            command.stdin(OwnedFd::from(far.try_clone()?)).stdout(OwnedFd::from(far));
            let to_shut = near.try_clone()?;
            socket = Some(near);
            Ok(Some(to_shut))
        })?;
        match socket {
            Some(socket) => Ok((socket, opened.ssh, opened.said)),
            None => Err(SshError::Pipe(ErrorKind::BrokenPipe.into())),
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
        words.extend(shared::words(self.alive));
        words
    }

    /// Opens a session in the first way that works; `ends` sets its standard input and output, and gives the socket at
    /// their other end, if it is one.
    fn open(&self, session: Session<'_>, stop: &AtomicBool, ends: Ends<'_>) -> Result<Opened, SshError> {
        let program = command::program(&self.settings)?;
        if let (Program::Other, Session::Forward { .. }) = (program, session) {
            let why = "only OpenSSH's ssh can connect to a port of the far machine";
            let text = self.settings.ssh_command.clone();
            return Err(SshError::Unusable { what: "ssh command", text, why });
        }
        self.settle();
        // The lock is held while one logs in: mostly never two at a time.
        let mut state = self.lock();
        if program == Program::Other {
            return self.quiet(session, &[], ends);
        }
        if self.sharing == Sharing::Theirs {
            return self.quiet(session, &shared::words(&["ControlMaster=no", "BatchMode=yes"]), ends);
        }
        if self.far_away.load(Relaxed)
            && !matches!(session, Session::Forward { .. })
            && let Some(shared) = state.quick_way()
        {
            let opened = self.quiet(session, &shared.for_further(), ends)?;
            state.quick.push(opened.said.clone());
            return Ok(opened);
        }
        let mut refused = None;
        if state.own == Some(true) && self.far_away.load(Relaxed) {
            drop(state);
            match self.own(session, stop, ends) {
                Ok(opened) => return Ok(opened),
                Err(error) => refused = Some(error),
            }
            state = self.lock();
        } else if state.own != Some(false) {
            match self.own(session, stop, ends) {
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
            let words = shared.for_further();
            state.own = Some(false);
            return self.quiet(session, &words, ends);
        }
        match refused {
            // A key that was not accepted is not accepted a second later.
            Some(SshError::Further { words, .. }) if !words.contains("Permission denied") => {
                wait(Instant::now() + PAUSE, stop);
                let opened = self.own(session, stop, ends)?;
                state.own = Some(true);
                Ok(opened)
            }
            Some(error) => Err(error),
            None => Err(self.failed(&Said::default())),
        }
    }

    /// A connection of its own. Returns once it has logged in.
    fn own(&self, session: Session<'_>, stop: &AtomicBool, ends: Ends<'_>) -> Result<Opened, SshError> {
        // The login shell that runs this may be csh, which reads `>&2` in its own way.
        let say = format!("LocalCommand=sh -c 'echo {LOGGED_IN} >&2'");
        let options = ["BatchMode=yes", "ControlPath=none", "PermitLocalCommand=yes", &say];
        let options = [&options[..], self.alive].concat();
        let (mut opened, logged_in) = self.watched(session, &shared::words(&options), ends)?;
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
    fn quiet(&self, session: Session<'_>, options: &[String], ends: Ends<'_>) -> Result<Opened, SshError> {
        self.watched(session, options, ends).map(|(opened, _)| opened)
    }

    /// Starts an ssh that has nobody to ask, and keeps its words.
    fn watched(
        &self,
        session: Session<'_>,
        options: &[String],
        ends: Ends<'_>,
    ) -> Result<(Opened, Receiver<()>), SshError> {
        let mut command = command::session(&self.settings, session, options)?;
        let near = ends(&mut command)?;
        command.stderr(Stdio::piped());
        // A jump host's ssh does not know of BatchMode, and must find nobody to ask either.
        hakobu_sys::process::without_terminal(&mut command);
        command.env("SSH_ASKPASS_REQUIRE", "never").env_remove("SSH_ASKPASS").env_remove("DISPLAY");
        let (mut opened, stderr) = self.spawn_with_words(&mut command)?;
        let (sender, receiver) = mpsc::sync_channel(1);
        let said = opened.said.clone();
        let watch = std::thread::Builder::new().name("ssh words".to_owned());
        let listening = move || {
            listen(stderr, &said, &sender);
            said.end();
            // An ssh that went through another's connection may have left its own end open there.
            let _ = near.map(|near| near.shutdown(Shutdown::Both));
        };
        if let Err(error) = watch.spawn(listening) {
            let _ = opened.ssh.kill();
            return Err(SshError::Pipe(error));
        }
        Ok((opened, receiver))
    }

    fn spawn_with_words(&self, command: &mut Command) -> Result<(Opened, Option<ChildStderr>), SshError> {
        let mut child = command.spawn().map_err(|error| SshError::Spawn {
            command: command.get_program().to_string_lossy().into_owned(),
            error,
        })?;
        let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        Ok((Opened { stdin, stdout, ssh: SshChild::new(child), said: Said::default() }, stderr))
    }

    fn spawn(&self, command: &mut Command) -> Result<Opened, SshError> {
        self.spawn_with_words(command).map(|(opened, _)| opened)
    }

    fn failed(&self, said: &Said) -> SshError {
        let words = match said.last_line() {
            line if line.is_empty() => "ssh did not say why".to_owned(),
            line => format!("ssh says {line:?}"),
        };
        SshError::Further { host: printable(&self.settings.host), words }
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

fn pipe(opened: Opened) -> Result<Pipe, SshError> {
    let Opened { stdin: Some(stdin), stdout: Some(stdout), ssh, said } = opened else {
        return Err(SshError::Pipe(ErrorKind::BrokenPipe.into()));
    };
    Ok(Pipe { stdin, stdout, ssh, said })
}

/// Keeps what ssh says, to its end; says when it has logged in.
fn listen(stderr: Option<ChildStderr>, said: &Said, logged_in: &SyncSender<()>) {
    let Some(mut stderr) = stderr else { return };
    let mut piece = [0; 1024];
    let mut line = Vec::new();
    loop {
        let count = match stderr.read(&mut piece) {
            Ok(0) => break,
            Ok(count) => count,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(_) => break,
        };
        for &byte in piece.get(..count).unwrap_or_default() {
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
    }
    said.add(&line);
}

#[cfg(test)]
mod tests;
