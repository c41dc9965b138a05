//! Chooses how the ssh of each rsync logs in, so that the user is asked at most once.
//!
//! One login exists for the whole run, and single operations (examining, listing, the last pass) go through it. Lanes
//! have separate connections, because each then has its own window and encrypting process, unless the one login was
//! seen to ask somebody, or the first separate connection shows that it would. Otherwise they go through the one login
//! too.

use std::ffi::OsString;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hakobu_core::error::{Error, ErrorKind, Result};
use hakobu_core::location::SshHost;

use super::remote::Remote;
use super::rsync_errors::RUNNING;
use hakobu_core::request::CopyRequest;
use hakobu_ssh::login;
use hakobu_ssh::with_nobody_to_ask;
use hakobu_ssh::{Master, PromptOwner, SshError};

/// The most sessions at once in one login: sshd accepts ten (`MaxSessions`) by default.
pub(super) const SESSIONS_MAX: usize = 8;
/// The number of consecutive refusals after which separate connections are given up.
const REFUSALS_MAX: u32 = 3;
/// The interval at which the first separate connection is checked.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// The logins of a run.
#[derive(Debug, Default)]
pub(super) struct RsyncLogins {
    state: Mutex<LoginState>,
}

#[derive(Debug, Default)]
struct LoginState {
    first: SharedRunLogin,
    own: SeparateLogins,
}

/// The login that exists for the whole run.
#[derive(Debug, Default)]
enum SharedRunLogin {
    #[default]
    Unknown,
    /// There can be none: not OpenSSH, or the user's own configuration shares logins.
    None,
    There(Box<Master>),
}

/// The state of separate connections: they must log in without a question.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum SeparateLogins {
    #[default]
    Untried,
    /// One is being tried.
    Trying,
    /// They work; since then, this many in a row were refused.
    Work {
        refusals: u32,
    },
    Refused,
}

/// The login that one rsync uses.
#[derive(Debug)]
pub(super) struct RsyncLogin {
    /// The value of rsync's `-e`.
    shell: OsString,
    way: LoginMethod,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LoginMethod {
    /// With the user's ssh command as it is.
    Plain,
    /// Through the existing login.
    First,
    /// With a separate login.
    Own,
}

/// The result of an rsync, as far as the login is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LoginOutcome {
    /// It logged in by itself, whatever came after.
    LoggedIn,
    /// The connection ended before that.
    Lost,
    /// It ended for another reason.
    Other,
}

/// The next step after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LoginStep {
    GoOn,
    /// Repeat it, by another kind of login.
    Again,
    /// Repeat it, and from now on use the one login for all.
    AgainThroughOne,
}

impl RsyncLogins {
    /// Returns the login for one rsync, of a lane or not. Waits while another lane tries if separate connections work.
    ///
    /// # Errors
    /// The login fails, or a stop is requested.
    pub fn enter(
        &self,
        request: &CopyRequest,
        remote: &Remote,
        is_lane: bool,
        was_reached: bool,
        stop: &AtomicBool,
    ) -> Result<RsyncLogin> {
        loop {
            if stop.load(Relaxed) {
                return Err(Error::new(ErrorKind::Cancelled, RUNNING, "stopped as asked"));
            }
            let mut state = self.lock();
            if let SharedRunLogin::There(master) = &mut state.first
                && !master.is_alive()
            {
                state.first = SharedRunLogin::Unknown;
            }
            if let SharedRunLogin::Unknown = state.first {
                // The lock is held meanwhile: there is one login for all.
                let again = was_reached || request.unattended;
                state.first = log_in(request, remote.host(), again, stop)?;
                // A server penalizes failed logins, and bars a client with too many of them.
                if matches!(&state.first, SharedRunLogin::There(master) if master.has_asked()) {
                    state.own = SeparateLogins::Refused;
                }
            }
            let LoginState { first: SharedRunLogin::There(master), own } = &mut *state else {
                let shell = remote.plain_shell(&request.ssh, was_reached);
                return Ok(RsyncLogin { shell, way: LoginMethod::Plain });
            };
            let (words, way) = match (is_lane, *own) {
                (true, SeparateLogins::Trying) => {
                    drop(state);
                    std::thread::sleep(LOOK_EVERY);
                    continue;
                }
                (false, _) | (true, SeparateLogins::Refused) => (master.through(), LoginMethod::First),
                (true, SeparateLogins::Untried) => {
                    *own = SeparateLogins::Trying;
                    (master.beside(), LoginMethod::Own)
                }
                (true, SeparateLogins::Work { .. }) => (master.beside(), LoginMethod::Own),
            };
            let words = words.map_err(|error| of_ssh(&error))?;
            return Ok(RsyncLogin { shell: remote.shell(words), way });
        }
    }

    /// Records that an rsync that used `door` has ended, or has logged in.
    pub fn learn(&self, door: &RsyncLogin, outcome: LoginOutcome) -> LoginStep {
        if door.way != LoginMethod::Own {
            return LoginStep::GoOn;
        }
        let mut state = self.lock();
        let (own, next) = match (state.own, outcome) {
            (SeparateLogins::Refused, LoginOutcome::LoggedIn) => (SeparateLogins::Refused, LoginStep::GoOn),
            (_, LoginOutcome::LoggedIn) => (SeparateLogins::Work { refusals: 0 }, LoginStep::GoOn),
            (SeparateLogins::Trying, LoginOutcome::Lost) => {
                (SeparateLogins::Refused, LoginStep::AgainThroughOne)
            }
            (SeparateLogins::Work { refusals }, LoginOutcome::Lost) if refusals + 1 >= REFUSALS_MAX => {
                (SeparateLogins::Refused, LoginStep::AgainThroughOne)
            }
            (SeparateLogins::Work { refusals }, LoginOutcome::Lost) => {
                (SeparateLogins::Work { refusals: refusals + 1 }, LoginStep::GoOn)
            }
            (own, LoginOutcome::Lost) => (own, LoginStep::Again),
            (SeparateLogins::Trying, LoginOutcome::Other) => (SeparateLogins::Untried, LoginStep::GoOn),
            (own, LoginOutcome::Other) => (own, LoginStep::GoOn),
        };
        state.own = own;
        next
    }

    /// Returns the most lanes that may work at once.
    pub fn lanes_max(&self) -> usize {
        if self.lock().own == SeparateLogins::Refused { SESSIONS_MAX } else { usize::MAX }
    }

    fn lock(&self) -> MutexGuard<'_, LoginState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl RsyncLogin {
    /// Adds the login to rsync's arguments.
    pub fn prepare(&self, command: &mut Command) {
        command.arg("-e").arg(&self.shell);
        if self.way != LoginMethod::Plain {
            // An ssh that uses another's connection ends with the terminal, even if that signal is ignored.
            with_nobody_to_ask(command);
        }
    }
}

/// Logs in. With `again`, a failure counts as a lost connection, because the login worked before or nobody waits for
/// it.
fn log_in(request: &CopyRequest, host: &SshHost, again: bool, stop: &AtomicBool) -> Result<SharedRunLogin> {
    let settings = login::SshMethod::of(request, host).settings();
    match Master::log_in(settings, PromptOwner::User, stop) {
        Ok(Some(master)) => Ok(SharedRunLogin::There(Box::new(master))),
        Ok(None) => Ok(SharedRunLogin::None),
        Err(_) if stop.load(Relaxed) => Err(Error::new(ErrorKind::Cancelled, RUNNING, "stopped as asked")),
        Err(error @ (SshError::Login { .. } | SshError::TimedOut { .. })) if again => {
            Err(Error { kind: ErrorKind::ConnectionLost, ..of_ssh(&error) })
        }
        Err(error) => Err(of_ssh(&error)),
    }
}

fn of_ssh(error: &SshError) -> Error {
    Error::new(ErrorKind::Io, "logging in", error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn door(way: LoginMethod) -> RsyncLogin {
        RsyncLogin { shell: OsString::new(), way }
    }

    fn login(own: SeparateLogins) -> RsyncLogins {
        RsyncLogins { state: Mutex::new(LoginState { own, ..LoginState::default() }) }
    }

    #[test]
    fn the_first_refusal_is_the_last() {
        let login = login(SeparateLogins::Trying);
        assert_eq!(login.lanes_max(), usize::MAX);
        assert_eq!(login.learn(&door(LoginMethod::First), LoginOutcome::Lost), LoginStep::GoOn);
        assert_eq!(login.learn(&door(LoginMethod::Own), LoginOutcome::Lost), LoginStep::AgainThroughOne);
        assert_eq!(login.lanes_max(), SESSIONS_MAX);
        // Others were in progress.
        assert_eq!(login.learn(&door(LoginMethod::Own), LoginOutcome::Lost), LoginStep::Again);
        assert_eq!(login.learn(&door(LoginMethod::Own), LoginOutcome::LoggedIn), LoginStep::GoOn);
        assert_eq!(login.lanes_max(), SESSIONS_MAX);
    }

    #[test]
    fn where_one_got_in_a_single_refusal_means_little() {
        let login = login(SeparateLogins::Trying);
        let door = door(LoginMethod::Own);
        login.learn(&door, LoginOutcome::LoggedIn);
        for _ in 0..3 {
            assert_eq!(login.learn(&door, LoginOutcome::Lost), LoginStep::GoOn);
            assert_eq!(login.learn(&door, LoginOutcome::Lost), LoginStep::GoOn);
            login.learn(&door, LoginOutcome::LoggedIn);
        }
        let next = [(); 3].map(|()| login.learn(&door, LoginOutcome::Lost));
        assert_eq!(next, [LoginStep::GoOn, LoginStep::GoOn, LoginStep::AgainThroughOne]);
    }

    #[test]
    fn what_ended_for_another_reason_is_tried_again() {
        let login = login(SeparateLogins::Trying);
        assert_eq!(login.learn(&door(LoginMethod::Own), LoginOutcome::Other), LoginStep::GoOn);
        assert_eq!(login.lock().own, SeparateLogins::Untried);
    }
}
