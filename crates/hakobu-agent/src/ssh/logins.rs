//! Logins besides the first, on a long way: each takes some 18 round trips, asks nobody, and then lets a few sessions in
//! within 2.
//!
//! They are made on threads of their own, so they may begin before the sessions are wanted.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::answer::printable;
use super::error::SshError;
use super::master::{Asks, Master};
use super::said::Said;
use super::settings::SshSettings;

/// How long a login that asks nothing may take.
pub(super) const LOGIN_LIMIT: Duration = Duration::from_secs(30);
/// So many sessions go through one login. OpenSSH has 2 MiB under way in each, and Linux lets a connection have little
/// more than that (measured: 20 MB/s by one at 100 ms, 28 MB/s by four).
const SESSIONS_MAX: usize = 2;
/// So many sessions are foreseen: with those through the first login they are enough for ten lanes.
const FORESEEN: usize = 8;
/// The same where somebody waits although one has been made: the run may have no use for more.
const FORESEEN_BY_WAITING: usize = 6;
/// So many are made at a time: a server lets only so many in that have not logged in yet.
const AT_ONCE_MAX: usize = 2;
/// How long it is waited until logins that are broken off have ended.
const FAREWELL: Duration = Duration::from_secs(2);
/// How often who waits looks whether the waiting is to stop.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// The further logins of one run.
#[derive(Debug)]
pub(super) struct Logins {
    settings: SshSettings,
    state: Mutex<State>,
    changed: Condvar,
    ended: AtomicBool,
}

#[derive(Debug, Default)]
struct State {
    there: Vec<Login>,
    under_way: usize,
    /// Who waits for a session.
    waiting: usize,
    /// So many sessions will be wanted.
    foreseen: usize,
    /// Why no more are made.
    refused: Option<String>,
}

#[derive(Debug)]
struct Login {
    master: Master,
    sessions: usize,
    /// What those say that are there.
    said: Vec<Said>,
}

impl Login {
    fn has_room(&mut self) -> bool {
        // A server that lets too few in is not asked again.
        self.sessions < SESSIONS_MAX
            && self.said.iter().all(|said| said.last_line().is_empty())
            && self.master.is_alive()
    }
}

impl State {
    /// Whether one more is to be made now.
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

    /// Begins with as many as a long run will want.
    pub(super) fn foresee(self: &Arc<Self>) {
        let mut state = self.lock();
        state.foreseen = FORESEEN;
        self.make(&mut state);
    }

    /// Waits until one has room for a session. Gives its number, and the words for ssh.
    ///
    /// # Errors
    /// [`SshError::Further`] when they are refused, or a `stop` was asked for.
    pub(super) fn enter(self: &Arc<Self>, stop: &AtomicBool) -> Result<(usize, Vec<String>), SshError> {
        let mut state = self.lock();
        state.waiting += 1;
        let entered = loop {
            if let Some(number) = state.there.iter_mut().position(Login::has_room) {
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

    /// The session that went in there says so.
    pub(super) fn listen(&self, number: usize, said: Said) {
        if let Some(login) = self.lock().there.get_mut(number) {
            login.said.push(said);
        }
    }

    /// Makes no more, breaks off those under way, and waits a little until they have cleared away what they had made.
    pub(super) fn end(&self) {
        self.ended.store(true, Relaxed);
        let state = self.lock();
        let waited = self.changed.wait_timeout_while(state, FAREWELL, |state| state.under_way > 0);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }

    fn make(self: &Arc<Self>, state: &mut State) {
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
        let made = Master::log_in(self.settings.clone(), Asks::Nobody, &self.ended);
        let mut state = self.lock();
        state.under_way -= 1;
        match made {
            Ok(Some(master)) if !self.ended.load(Relaxed) => {
                // Who waits after one login has been made has much to do.
                if state.waiting > 0 {
                    state.foreseen = state.foreseen.max(FORESEEN_BY_WAITING);
                }
                state.there.push(Login { master, sessions: 0, said: Vec::new() });
                self.make(&mut state);
            }
            Ok(_) => state.refused = Some("it is not to be had".to_owned()),
            Err(SshError::Further { words, .. }) => state.refused = Some(words),
            Err(error) => state.refused = Some(error.to_string()),
        }
        drop(state);
        self.changed.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
