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

use super::complaints::RUNNING;
use super::remote::Remote;
use hakobu_core::request::CopyRequest;
use hakobu_ssh::login;
use hakobu_ssh::with_nobody_to_ask;
use hakobu_ssh::{Asks, Master, SshError};

/// The most sessions at once in one login: sshd accepts ten (`MaxSessions`) by default.
pub(super) const SESSIONS_MAX: usize = 8;
/// The number of consecutive refusals after which separate connections are given up.
const REFUSALS_MAX: u32 = 3;
/// The interval at which the first separate connection is checked.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// The logins of a run.
#[derive(Debug, Default)]
pub(super) struct Login {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    first: First,
    own: Own,
}

/// The login that exists for the whole run.
#[derive(Debug, Default)]
enum First {
    #[default]
    Unknown,
    /// There can be none: not OpenSSH, or the user's own configuration shares logins.
    None,
    There(Box<Master>),
}

/// The state of separate connections: they must log in without a question.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Own {
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
pub(super) struct Door {
    /// The value of rsync's `-e`.
    shell: OsString,
    way: Way,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// With the user's ssh command as it is.
    Plain,
    /// Through the existing login.
    First,
    /// With a separate login.
    Own,
}

/// The result of an rsync, as far as the login is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// It logged in by itself, whatever came after.
    LoggedIn,
    /// The connection ended before that.
    Lost,
    /// It ended for another reason.
    Other,
}

/// The next step after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    GoOn,
    /// Repeat it, by another kind of login.
    Again,
    /// Repeat it, and from now on use the one login for all.
    AgainThroughOne,
}

impl Login {
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
    ) -> Result<Door> {
        loop {
            if stop.load(Relaxed) {
                return Err(Error::new(ErrorKind::Cancelled, RUNNING, "stopped as asked"));
            }
            let mut state = self.lock();
            if let First::There(master) = &mut state.first
                && !master.is_alive()
            {
                state.first = First::Unknown;
            }
            if let First::Unknown = state.first {
                // The lock is held meanwhile: there is one login for all.
                let again = was_reached || request.unattended;
                state.first = log_in(request, remote.host(), again, stop)?;
                // A server penalizes failed logins, and bars a client with too many of them.
                if matches!(&state.first, First::There(master) if master.has_asked()) {
                    state.own = Own::Refused;
                }
            }
            let State { first: First::There(master), own } = &mut *state else {
                let shell = remote.plain_shell(&request.ssh, was_reached);
                return Ok(Door { shell, way: Way::Plain });
            };
            let (words, way) = match (is_lane, *own) {
                (true, Own::Trying) => {
                    drop(state);
                    std::thread::sleep(LOOK_EVERY);
                    continue;
                }
                (false, _) | (true, Own::Refused) => (master.through(), Way::First),
                (true, Own::Untried) => {
                    *own = Own::Trying;
                    (master.beside(), Way::Own)
                }
                (true, Own::Work { .. }) => (master.beside(), Way::Own),
            };
            let words = words.map_err(|error| of_ssh(&error))?;
            return Ok(Door { shell: remote.shell(words), way });
        }
    }

    /// Records that an rsync that used `door` has ended, or has logged in.
    pub fn learn(&self, door: &Door, outcome: Outcome) -> Next {
        if door.way != Way::Own {
            return Next::GoOn;
        }
        let mut state = self.lock();
        let (own, next) = match (state.own, outcome) {
            (Own::Refused, Outcome::LoggedIn) => (Own::Refused, Next::GoOn),
            (_, Outcome::LoggedIn) => (Own::Work { refusals: 0 }, Next::GoOn),
            (Own::Trying, Outcome::Lost) => (Own::Refused, Next::AgainThroughOne),
            (Own::Work { refusals }, Outcome::Lost) if refusals + 1 >= REFUSALS_MAX => {
                (Own::Refused, Next::AgainThroughOne)
            }
            (Own::Work { refusals }, Outcome::Lost) => (Own::Work { refusals: refusals + 1 }, Next::GoOn),
            (own, Outcome::Lost) => (own, Next::Again),
            (Own::Trying, Outcome::Other) => (Own::Untried, Next::GoOn),
            (own, Outcome::Other) => (own, Next::GoOn),
        };
        state.own = own;
        next
    }

    /// Returns the most lanes that may work at once.
    pub fn lanes_max(&self) -> usize {
        if self.lock().own == Own::Refused { SESSIONS_MAX } else { usize::MAX }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Door {
    /// Adds the login to rsync's arguments.
    pub fn prepare(&self, command: &mut Command) {
        command.arg("-e").arg(&self.shell);
        if self.way != Way::Plain {
            // An ssh that uses another's connection ends with the terminal, even if that signal is ignored.
            with_nobody_to_ask(command);
        }
    }
}

/// Logs in. With `again`, a failure counts as a lost connection, because the login worked before or nobody waits for
/// it.
fn log_in(request: &CopyRequest, host: &SshHost, again: bool, stop: &AtomicBool) -> Result<First> {
    let settings = login::Login::of(request, host).settings();
    match Master::log_in(settings, Asks::User, stop) {
        Ok(Some(master)) => Ok(First::There(Box::new(master))),
        Ok(None) => Ok(First::None),
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

    fn door(way: Way) -> Door {
        Door { shell: OsString::new(), way }
    }

    fn login(own: Own) -> Login {
        Login { state: Mutex::new(State { own, ..State::default() }) }
    }

    #[test]
    fn the_first_refusal_is_the_last() {
        let login = login(Own::Trying);
        assert_eq!(login.lanes_max(), usize::MAX);
        assert_eq!(login.learn(&door(Way::First), Outcome::Lost), Next::GoOn);
        assert_eq!(login.learn(&door(Way::Own), Outcome::Lost), Next::AgainThroughOne);
        assert_eq!(login.lanes_max(), SESSIONS_MAX);
        // Others were in progress.
        assert_eq!(login.learn(&door(Way::Own), Outcome::Lost), Next::Again);
        assert_eq!(login.learn(&door(Way::Own), Outcome::LoggedIn), Next::GoOn);
        assert_eq!(login.lanes_max(), SESSIONS_MAX);
    }

    #[test]
    fn where_one_got_in_a_single_refusal_means_little() {
        let login = login(Own::Trying);
        let door = door(Way::Own);
        login.learn(&door, Outcome::LoggedIn);
        for _ in 0..3 {
            assert_eq!(login.learn(&door, Outcome::Lost), Next::GoOn);
            assert_eq!(login.learn(&door, Outcome::Lost), Next::GoOn);
            login.learn(&door, Outcome::LoggedIn);
        }
        let next = [(); 3].map(|()| login.learn(&door, Outcome::Lost));
        assert_eq!(next, [Next::GoOn, Next::GoOn, Next::AgainThroughOne]);
    }

    #[test]
    fn what_ended_for_another_reason_is_tried_again() {
        let login = login(Own::Trying);
        assert_eq!(login.learn(&door(Way::Own), Outcome::Other), Next::GoOn);
        assert_eq!(login.lock().own, Own::Untried);
    }
}
