//! Logins besides the first, for a long round trip: each takes about 18 round trips, asks nobody, and then accepts a
//! few sessions within 2.
//!
//! They are made on separate threads, so they may begin before the sessions are needed.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::answer::printable;
use super::error::SshError;
use super::master::Master;
use super::settings::SshSettings;
use super::ssh_output::SshOutput;

/// The time limit of a login that asks nobody.
pub(super) const LOGIN_LIMIT: Duration = Duration::from_secs(30);
/// The number of sessions in one login. OpenSSH keeps 2 MiB in transit in each, and Linux allows a connection little
/// more than that (measured: 20 MB/s by one at 100 ms, 28 MB/s by four).
const SESSIONS_MAX: usize = 2;
/// The number of sessions prepared for a long run: with those through the first login they are enough for ten lanes.
const FORESEEN: usize = 8;
/// The number of sessions prepared if one is still waited for after the first login: the run may not need more.
const FORESEEN_BY_WAITING: usize = 6;
/// The number of logins made at a time: a server accepts only a limited number of connections that have not logged in
/// yet.
const AT_ONCE_MAX: usize = 2;
/// The time to wait until cancelled logins have ended.
const FAREWELL: Duration = Duration::from_secs(2);
/// The interval at which a waiting caller checks for a stop.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// The further logins of one run.
#[derive(Debug)]
pub(super) struct Logins {
    settings: SshSettings,
    state: Mutex<LoginsState>,
    changed: Condvar,
    ended: AtomicBool,
}

#[derive(Debug, Default)]
struct LoginsState {
    there: Vec<SharedLogin>,
    under_way: usize,
    /// The number of callers that wait for a session.
    waiting: usize,
    /// The number of sessions that will be needed.
    foreseen: usize,
    /// The reason why no more logins are made.
    refused: Option<String>,
}

#[derive(Debug)]
struct SharedLogin {
    master: Master,
    sessions: usize,
    /// The output of the sessions in it.
    said: Vec<SshOutput>,
}

impl SharedLogin {
    fn has_room(&mut self) -> bool {
        // If the server refuses a session, no more are requested in this login.
        self.sessions < SESSIONS_MAX
            && self.said.iter().all(|said| said.last_line().is_empty())
            && self.master.is_alive()
    }
}

impl LoginsState {
    /// Returns true if one more login should be made now.
    fn lacks_one(&self) -> bool {
        let coming = self.under_way * SESSIONS_MAX;
        let foreseen = self.there.len() * SESSIONS_MAX + coming < self.foreseen;
        self.refused.is_none() && self.under_way < AT_ONCE_MAX && (self.waiting > coming || foreseen)
    }
}

impl Logins {
    pub(super) fn new(settings: &SshSettings) -> Arc<Self> {
        let mut settings = settings.clone();
        settings.time_limit = settings.time_limit.min(LOGIN_LIMIT);
        Arc::new(Self {
            settings,
            state: Mutex::default(),
            changed: Condvar::new(),
            ended: AtomicBool::new(false),
        })
    }

    /// Begins with as many as a long run needs.
    pub(super) fn foresee(self: &Arc<Self>) {
        let mut state = self.lock();
        state.foreseen = FORESEEN;
        self.make(&mut state);
    }

    /// Waits until a login has room for a session. Returns its number, and the arguments for ssh.
    ///
    /// # Errors
    /// [`SshError::Further`] if logins are refused, or `stop` is set.
    pub(super) fn enter(self: &Arc<Self>, stop: &AtomicBool) -> Result<(usize, Vec<String>), SshError> {
        let mut state = self.lock();
        state.waiting += 1;
        let entered = loop {
            if let Some(number) = state.there.iter_mut().position(SharedLogin::has_room) {
                state.there[number].sessions += 1;
                break Ok((number, state.there[number].master.words()));
            }
            self.make(&mut state);
            let words = match &state.refused {
                _ if stop.load(Relaxed) => "stopped".to_owned(),
                Some(words) if state.under_way == 0 => words.clone(),
                _ => {
                    let waited = self.changed.wait_timeout(state, LOOK_EVERY);
                    state = waited.unwrap_or_else(PoisonError::into_inner).0;
                    continue;
                }
            };
            break Err(SshError::Further { host: printable(&self.settings.host), words });
        };
        state.waiting -= 1;
        entered
    }

    /// Registers the output of the session that was opened in the login.
    pub(super) fn listen(&self, number: usize, said: SshOutput) {
        if let Some(login) = self.lock().there.get_mut(number) {
            login.said.push(said);
        }
    }

    /// Makes no more logins, cancels those in progress, and waits briefly until they have removed their files.
    pub(super) fn end(&self) {
        self.ended.store(true, Relaxed);
        let state = self.lock();
        let waited = self.changed.wait_timeout_while(state, FAREWELL, |state| state.under_way > 0);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }

    fn make(self: &Arc<Self>, state: &mut LoginsState) {
        while state.lacks_one() {
            let logins = self.clone();
            let made =
                std::thread::Builder::new().name("ssh login".to_owned()).spawn(move || logins.log_in());
            match made {
                Ok(_) => state.under_way += 1,
                Err(error) => state.refused = Some(error.to_string()),
            }
        }
    }

    fn log_in(self: Arc<Self>) {
        let made = Master::log_in(self.settings.clone(), &self.ended);
        let mut state = self.lock();
        state.under_way -= 1;
        match made {
            Ok(Some(master)) if !self.ended.load(Relaxed) => {
                // A caller that still waits after a login was made probably has much to do.
                if state.waiting > 0 {
                    state.foreseen = state.foreseen.max(FORESEEN_BY_WAITING);
                }
                state.there.push(SharedLogin { master, sessions: 0, said: Vec::new() });
                self.make(&mut state);
            }
            Ok(_) => state.refused = Some("it is not available".to_owned()),
            Err(SshError::Further { words, .. }) => state.refused = Some(words),
            Err(error) => state.refused = Some(error.to_string()),
        }
        drop(state);
        self.changed.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, LoginsState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
