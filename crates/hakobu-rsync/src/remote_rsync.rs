//! Runs rsync against the remote endpoint: the installed program, the options that both sides accept, and the password.

use std::ffi::OsString;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use hakobu_core::error::{Error, ErrorKind, Result};
use hakobu_core::event::{Event, Observer};
use hakobu_core::losses::LossKind;
use hakobu_core::path::lossy;

use super::child::{self, RsyncEvent, RsyncExit, RsyncInput};
use super::options::{OmittedOption, Options, RsyncPurpose};
use super::output::{RsyncMessage, parse};
use super::remote::Remote;
use super::rsync_errors::{Verdict, failures, is_absence, verdict};
use hakobu_core::prompts::{Prompts, Secret};
use hakobu_core::request::{CopyRequest, Transport};

/// The program.
const RSYNC: &str = "rsync";
/// The oldest version that works.
const OLDEST: (u32, u32) = (3, 0);
/// More options than there are cannot be refused one after another.
const REFUSALS_MAX: usize = 40;
/// The time for which a full daemon is retried silently.
const FULL_FOR: Duration = Duration::from_secs(2);
/// The description of a password that the user typed.
const TYPED: &str = "the password that was typed";
/// The number of times that a password is asked for.
const PASSWORDS_MAX: u32 = 3;

/// The source, the target and the list of names for one rsync.
#[derive(Clone, Debug, Default)]
pub(super) struct RsyncOrder {
    pub from: OsString,
    pub to: OsString,
    /// The names for `--files-from`, each terminated by a NUL.
    pub names: Option<Vec<u8>>,
}

/// The access to one remote endpoint.
pub(super) struct RemoteAccess<'a> {
    pub request: &'a CopyRequest,
    pub observer: &'a dyn Observer,
    pub cancel: &'a AtomicBool,
    pub remote: Remote,
    /// True if the source is on this host.
    pub outward: bool,
    pub version: RsyncVersion,
    options: Mutex<Options>,
    secret: Mutex<Option<Secret>>,
    /// True if the endpoint was reached at least once.
    reached: AtomicBool,
    /// The duration of an rsync that had next to nothing to do.
    setup_ns: AtomicU64,
}

/// The version of the installed rsync.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct RsyncVersion {
    pub number: (u32, u32, u32),
    /// The newest protocol that it supports.
    pub protocol: u32,
}

impl<'a> RemoteAccess<'a> {
    /// Finds the installed rsync.
    ///
    /// # Errors
    /// `NotFound` if there is none; `Unsupported` if it is too old, or another program with that name.
    pub fn find(
        request: &'a CopyRequest,
        remote: Remote,
        outward: bool,
        observer: &'a dyn Observer,
        cancel: &'a AtomicBool,
    ) -> Result<Self> {
        let version = installed(cancel)?;
        let options = Mutex::new(Options::new(request, outward, version.number >= (3, 1, 0)));
        let (secret, reached, setup_ns) = (Mutex::default(), AtomicBool::new(false), AtomicU64::new(0));
        Ok(Self { request, observer, cancel, remote, outward, version, options, secret, reached, setup_ns })
    }

    /// Reports why rsync moves the data, and what differs from other transports.
    pub fn tell(&self) {
        let asked = self.request.transport == Transport::Rsync;
        let why = match asked {
            true => "as asked",
            false => "the other end is a module of an rsync daemon, which only rsync can use",
        };
        let (major, minor, patch) = self.version.number;
        let protocol = self.version.protocol;
        self.decided(
            "way: rsync",
            format!("{why}; version {major}.{minor}.{patch} is here, protocol {protocol}"),
        );
        if self.outward {
            let reason = "a file with holes has fewer blocks than bytes here, and looking for holes in all others costs \
                          the receiver";
            self.decided("rsync --sparse: for files with holes only", reason.to_owned());
        }
    }

    /// Reports a decision, for `--why`.
    pub fn decided(&self, choice: &str, reason: String) {
        self.observer.event(Event::Decision { choice: choice.to_owned(), reason });
    }

    /// Returns true if an rsync has reached the remote endpoint.
    pub fn is_reached(&self) -> bool {
        self.reached.load(Relaxed)
    }

    /// Returns the time to start and end an rsync, besides the transfer.
    pub fn setup(&self) -> Duration {
        Duration::from_nanos(self.setup_ns.load(Relaxed))
    }

    /// Returns the losses due to refused options.
    pub fn losses(&self) -> Vec<LossKind> {
        self.options().losses()
    }

    /// Returns true if hard links are kept.
    pub fn keeps_hard_links(&self) -> bool {
        self.options().keeps_hard_links()
    }

    fn options(&self) -> MutexGuard<'_, Options> {
        self.options.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs one rsync, and repeats it without an option that is refused and not essential.
    ///
    /// # Errors
    /// Errors unrelated to the remote endpoint: no rsync, a stop; or `--require` cannot be met.
    pub fn run(
        &self,
        purpose: RsyncPurpose,
        order: &RsyncOrder,
        each: &mut dyn FnMut(RsyncMessage),
    ) -> Result<Verdict> {
        for _ in 0..REFUSALS_MAX {
            let stop = || self.cancel.load(Relaxed);
            let mut has_spoken = false;
            let mut heard = |heard: RsyncEvent<'_>| {
                let said = match heard {
                    RsyncEvent::Line(line) => parse(line),
                    RsyncEvent::Traffic(bytes) => return each(RsyncMessage::Traffic(bytes)),
                };
                has_spoken |= said.is_some();
                said.into_iter().for_each(&mut *each);
            };
            let counts = matches!(purpose, RsyncPurpose::Batch { .. }).then_some(self.outward);
            let given = RsyncInput { input: order.names.clone(), counts };
            let began = Instant::now();
            let command = self.command(purpose, order);
            let ended = child::run(command, given, &stop, &mut heard)?;
            if matches!(purpose, RsyncPurpose::Top { .. }) {
                self.setup_ns.store(began.elapsed().as_nanos() as u64, Relaxed);
            }
            let verdict = judged(purpose, &ended, has_spoken).at(&self.remote.name());
            let Verdict::OptionRefused(name) = verdict else {
                if matches!(verdict, Verdict::Done | Verdict::Partly(_)) {
                    self.reached.store(true, Relaxed);
                }
                return Ok(verdict);
            };
            self.do_without(&name)?;
        }
        Err(Error::new(ErrorKind::Unsupported, "agreeing on options", "rsync refuses one after the other"))
    }

    fn command(&self, purpose: RsyncPurpose, order: &RsyncOrder) -> Command {
        let mut command = Command::new(RSYNC);
        // Names are bytes, times are in UTC, and messages are in the expected language.
        command.env("LC_ALL", "C").env("TZ", "UTC");
        // These variables would change how names are sent, or where drafts are.
        for name in ["RSYNC_PARTIAL_DIR", "RSYNC_OLD_ARGS", "RSYNC_PROTECT_ARGS", "RSYNC_ICONV"] {
            command.env_remove(name);
        }
        command.args(self.options().arguments(purpose));
        if self.outward || purpose != RsyncPurpose::Remove || !Path::new(&order.from).is_absolute() {
            // For a local-only run, rsync does not accept this option.
            command.arg("--contimeout=30");
            // Both sides begin with several short messages, each of which would otherwise wait for the delayed
            // acknowledgement of the one before.
            command.arg("--sockopts=TCP_NODELAY");
            self.identify(&mut command);
        }
        command.arg(&order.from).arg(&order.to);
        command
    }

    /// Passes the password so that nobody else can read it.
    fn identify(&self, command: &mut Command) {
        let secret = self.secret.lock().unwrap_or_else(PoisonError::into_inner);
        match (&*secret, &self.request.password_file) {
            (Some(secret), _) => {
                use std::os::unix::ffi::OsStrExt;
                command.env("RSYNC_PASSWORD", std::ffi::OsStr::from_bytes(secret.expose()));
            }
            (None, Some(file)) => {
                let mut argument = OsString::from("--password-file=");
                argument.push(file);
                command.arg(argument);
            }
            // With an empty password, rsync does not ask by itself on each connection.
            (None, None) if std::env::var_os("RSYNC_PASSWORD").is_none() => {
                command.env("RSYNC_PASSWORD", "");
            }
            (None, None) => {}
        }
    }

    /// Omits an option that was refused.
    fn do_without(&self, name: &str) -> Result<()> {
        let shown = lossy(name.as_bytes());
        let dropped = self.options().leave_out(name);
        match dropped {
            OmittedOption::Before => {}
            OmittedOption::Now(Some(loss)) if self.request.require.contains(&loss) => {
                let words = format!("--require {} is not met: rsync there refuses {shown}", loss.name());
                return Err(Error::new(ErrorKind::Requirement, "agreeing on options", words));
            }
            OmittedOption::Now(Some(loss)) => {
                let words = format!("rsync there refuses {shown}: {} is not kept", loss.name());
                self.observer.event(Event::Notice { words });
            }
            OmittedOption::Now(None) => {
                let reason = "one of the two sides does not take it".to_owned();
                self.decided(&format!("rsync without {shown}"), reason);
            }
            OmittedOption::Needed if name.starts_with("--delete") => {
                let words = "the daemon refuses to delete (refuse options in rsyncd.conf, or a version before 3.1); \
                    everything else was copied, as by hakobu copy";
                return Err(Error::new(ErrorKind::Unsupported, "deleting", words));
            }
            OmittedOption::Needed => {
                let words = format!("rsync, here or there, refuses {shown}, which is required");
                return Err(Error::new(ErrorKind::Unsupported, "agreeing on options", words));
            }
        }
        Ok(())
    }

    /// Runs like [`RemoteAccess::run`], for single operations: asks for a password if one is required, and retries after a lost
    /// or refused connection for as long as the request allows. Returns the failures of single entries.
    ///
    /// # Errors
    /// The errors of [`RemoteAccess::run`], and errors of the remote side that concern the whole operation.
    pub fn run_patiently(
        &self,
        purpose: RsyncPurpose,
        order: &RsyncOrder,
        prompts: &mut dyn Prompts,
        each: &mut dyn FnMut(RsyncMessage),
    ) -> Result<Vec<(Vec<u8>, Error)>> {
        let began = Instant::now();
        let (mut asked, mut pause) = (0, Duration::from_millis(500));
        let mut news = RsyncProgress::default();
        loop {
            news.begin();
            let mut heard = |said: RsyncMessage| {
                news.hear(&said);
                each(said);
            };
            let error = match self.run(purpose, order, &mut heard)? {
                Verdict::Done => return Ok(Vec::new()),
                Verdict::Partly(failures) => return Ok(failures),
                Verdict::AuthFailed(error) => {
                    asked += 1;
                    self.ask(asked, error, prompts)?;
                    continue;
                }
                Verdict::Fatal(error) => return Err(error),
                Verdict::Lost(error) if !self.is_reached() && !self.request.unattended => return Err(error),
                Verdict::Lost(error) => error,
                // The previous connection may still count.
                Verdict::Full(_) if began.elapsed() < FULL_FOR => {
                    self.pause(Duration::from_millis(100))?;
                    continue;
                }
                Verdict::Full(max) => self.full(max),
                Verdict::OptionRefused(name) => {
                    return Err(Error::new(ErrorKind::Unsupported, "agreeing on options", name));
                }
            };
            if news.at.elapsed() + pause > self.request.retry_for {
                return Err(error);
            }
            let words = format!("{error}; trying again in {:.1} s", pause.as_secs_f64());
            self.observer.event(Event::Notice { words });
            self.pause(pause)?;
            pause = (pause * 2).min(Duration::from_secs(10));
        }
    }

    /// Returns the error of a full remote side.
    pub fn full(&self, max: Option<u32>) -> Error {
        let max = max.map(|max| format!(" ({max})")).unwrap_or_default();
        let words = format!("the daemon's max connections{max} are in use by others");
        Error::new(ErrorKind::ConnectionLost, "connecting to", words).at(self.remote.name())
    }

    /// Waits, unless a stop is requested.
    ///
    /// # Errors
    /// `Cancelled`.
    pub fn pause(&self, time: Duration) -> Result<()> {
        let end = Instant::now() + time;
        while Instant::now() < end {
            if self.cancel.load(Relaxed) {
                return Err(Error::new(ErrorKind::Cancelled, "copying", "stopped as asked"));
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(())
    }

    /// Asks the user for the module's password.
    fn ask(&self, attempt: u32, error: Error, prompts: &mut dyn Prompts) -> Result<()> {
        let given = self.given_password();
        let words = refused_words(self.remote.user(), given.as_deref());
        let error = Error { detail: format!("{}; {words}", error.detail), ..error };
        let typed = given.as_deref() == Some(TYPED);
        if given.is_some() && !typed || attempt > PASSWORDS_MAX || self.is_reached() {
            return Err(error);
        }
        let Some(secret) = prompts.rsync_password(&self.remote.asks(), attempt) else { return Err(error) };
        *self.secret.lock().unwrap_or_else(PoisonError::into_inner) = Some(secret);
        Ok(())
    }

    /// Describes the origin of the password that the daemon was given, if any.
    fn given_password(&self) -> Option<String> {
        let typed = self.secret.lock().unwrap_or_else(PoisonError::into_inner).is_some();
        let set = std::env::var_os("RSYNC_PASSWORD").is_some_and(|set| !set.is_empty());
        match &self.request.password_file {
            _ if typed => Some(TYPED.to_owned()),
            Some(file) => Some(format!("the password in {}", lossy(file.as_os_str().as_encoded_bytes()))),
            None => set.then(|| "the password in RSYNC_PASSWORD".to_owned()),
        }
    }
}

/// Returns the advice after the daemon rejected this user with this password, which is described by its origin.
fn refused_words(user: Option<&str>, password: Option<&str>) -> String {
    match (user, password) {
        (Some(user), Some(password)) => format!(
            "it refuses the user {user} with {password}; see `auth users` and the `secrets file` of the \
             module in rsyncd.conf there (the file has a line {user}:PASSWORD, and only its owner may read it)"
        ),
        // rsync uses the name of the user who runs it.
        (None, Some(password)) => format!(
            "it refuses {password} for the user who runs hakobu; name the module's user: \
             rsync://USER@host/module"
        ),
        (_, None) => {
            "give user and password: rsync://user@host/module with --password-file FILE or RSYNC_PASSWORD"
                .to_owned()
        }
    }
}

/// Tracks the progress of a repeated rsync: the last time that it reported more than all attempts before.
struct RsyncProgress {
    at: Instant,
    /// The bytes and entries of this attempt, and the most of any attempt.
    now: (u64, u64),
    most: (u64, u64),
}

impl Default for RsyncProgress {
    fn default() -> Self {
        Self { at: Instant::now(), now: (0, 0), most: (0, 0) }
    }
}

impl RsyncProgress {
    fn begin(&mut self) {
        self.now = (0, 0);
    }

    fn hear(&mut self, said: &RsyncMessage) {
        match said {
            RsyncMessage::Bytes(bytes) => self.now.0 = self.now.0.max(*bytes),
            _ => self.now.1 += 1,
        }
        if self.now.0 > self.most.0 || self.now.1 > self.most.1 {
            self.at = Instant::now();
            self.most = (self.most.0.max(self.now.0), self.most.1.max(self.now.1));
        }
    }
}

/// Interprets the end of an rsync.
fn judged(purpose: RsyncPurpose, ended: &RsyncExit, has_spoken: bool) -> Verdict {
    match verdict(ended.status, &ended.complaints) {
        // If a path does not exist, some versions report that and then fail at the end of the connection. Without a
        // line that names it, the path would seem to be empty.
        Verdict::Lost(_)
            if purpose.only_reads()
                && !has_spoken
                && is_absence(&ended.complaints)
                && !failures(&ended.complaints).is_empty() =>
        {
            Verdict::Partly(failures(&ended.complaints))
        }
        verdict => verdict,
    }
}

/// Asks the installed rsync for its version.
fn installed(cancel: &AtomicBool) -> Result<RsyncVersion> {
    let mut command = Command::new(RSYNC);
    command.arg("--version").env("LC_ALL", "C").stdin(Stdio::null());
    let mut first = None;
    let stop = || cancel.load(Relaxed);
    child::run(command, RsyncInput::default(), &stop, &mut |heard| {
        if let RsyncEvent::Line(line) = heard {
            first.get_or_insert_with(|| String::from_utf8_lossy(line).into_owned());
        }
    })?;
    let first = first.unwrap_or_default();
    let version = read_version(&first).filter(|version| (version.number.0, version.number.1) >= OLDEST);
    version.ok_or_else(|| {
        let words = format!(
            "the rsync on PATH calls itself `{}`; rsync of samba.org, version {}.{} or newer, is needed",
            lossy(first.as_bytes()),
            OLDEST.0,
            OLDEST.1
        );
        Error::new(ErrorKind::Unsupported, "looking at the installed rsync", words)
    })
}

/// Parses `rsync  version 3.2.7  protocol version 31`.
fn read_version(line: &str) -> Option<RsyncVersion> {
    let mut words = line.split_ascii_whitespace();
    if words.next()? != Path::new(RSYNC).to_str()? || words.next()? != "version" {
        return None;
    }
    let mut parts =
        words.next()?.trim_start_matches('v').split(|c: char| !c.is_ascii_digit()).map(str::parse);
    let mut next = || parts.next().and_then(std::result::Result::ok).unwrap_or(0);
    let number = (next(), next(), next());
    let protocol = line.rsplit(' ').next()?.parse().ok()?;
    Some(RsyncVersion { number, protocol })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_not_said_before_is_news() {
        let mut news = RsyncProgress::default();
        let is_news = |news: &mut RsyncProgress, said| {
            let before = news.most;
            news.hear(&said);
            news.most != before
        };
        assert!(
            is_news(&mut news, RsyncMessage::Bytes(5))
                && is_news(&mut news, RsyncMessage::Skipped(Vec::new()))
        );
        news.begin();
        assert!(
            !is_news(&mut news, RsyncMessage::Bytes(5))
                && !is_news(&mut news, RsyncMessage::Skipped(Vec::new()))
        );
        assert!(
            is_news(&mut news, RsyncMessage::Bytes(6))
                && is_news(&mut news, RsyncMessage::Skipped(Vec::new()))
        );
    }

    #[test]
    fn a_user_and_a_password_that_are_refused_are_not_asked_for_again() {
        let both = refused_words(Some("joe"), Some("the password in /s"));
        assert!(both.contains("joe") && both.contains("/s") && both.contains("secrets file"), "{both}");
        let nobody = refused_words(None, Some(TYPED));
        assert!(nobody.contains("rsync://USER@"), "{nobody}");
        for advice in [both, nobody] {
            assert!(!advice.contains("give user and password"), "{advice}");
        }
        assert!(refused_words(Some("joe"), None).starts_with("give user and password"));
    }

    #[test]
    fn versions_are_read() {
        let read = |line| read_version(line).map(|version| (version.number, version.protocol));
        assert_eq!(read("rsync  version 3.5.0  protocol version 32"), Some(((3, 5, 0), 32)));
        assert_eq!(read("rsync  version 3.0.9  protocol version 30"), Some(((3, 0, 9), 30)));
        assert_eq!(read("rsync  version v3.2.4pre1  protocol version 31"), Some(((3, 2, 4), 31)));
        assert_eq!(read("openrsync: protocol version 29"), None);
        assert_eq!(read(""), None);
    }
}
