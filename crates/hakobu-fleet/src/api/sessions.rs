//! Sessions of the page: who signed in, until when. They end with the control plane.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use aws_lc_rs::rand;
use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use hakobu_core::error::{Error, ErrorKind, Result};

use crate::ids::TokenId;
use crate::token::TokenRole;

/// The maximum number of sessions. Beyond it, the one that was idle longest ends.
pub const SESSIONS_MAX: usize = 1024;
/// The time after which a session that nobody uses ends.
const IDLE_MAX: Duration = Duration::from_secs(8 * 3600);
/// The time after which every session ends.
const AGE_MAX: Duration = Duration::from_secs(24 * 3600);
/// The use of the hash under which a session is kept.
const SESSION_CONTEXT: &str = "hakobu 2026-11-28 fleet session";

/// A session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageSession {
    /// The name of the token.
    pub label: String,
    /// The role.
    pub role: TokenRole,
    /// The token, whose end is that of the session; none if it was valid once.
    pub token: Option<TokenId>,
    began: Instant,
    used: Instant,
}

/// The sessions, by the hashes of their secrets.
#[derive(Debug, Default)]
pub struct SessionTable(BTreeMap<[u8; 32], PageSession>);

impl SessionTable {
    /// Begins a session. Returns its secret for the cookie.
    ///
    /// # Errors
    /// `Io` if the system gives no random numbers.
    pub fn begin(
        &mut self,
        label: String,
        role: TokenRole,
        token: Option<TokenId>,
        now: Instant,
    ) -> Result<String> {
        let mut bytes = [0; 32];
        rand::fill(&mut bytes).map_err(|_| {
            Error::new(ErrorKind::Io, "beginning a session", "the system gives no random numbers")
        })?;
        let secret = BASE64_URL_SAFE_NO_PAD.encode(bytes);
        self.0.retain(|_, session| session.is_valid(now));
        if self.0.len() >= SESSIONS_MAX {
            let idlest = self.0.iter().min_by_key(|(_, session)| session.used).map(|(key, _)| *key);
            idlest.map(|key| self.0.remove(&key));
        }
        self.0.insert(key(&secret), PageSession { label, role, token, began: now, used: now });
        Ok(secret)
    }

    /// Returns a session that has not ended, and notes that it is used.
    pub fn using(&mut self, secret: &str, now: Instant) -> Option<PageSession> {
        let key = key(secret);
        let session = self.0.get_mut(&key)?;
        if !session.is_valid(now) {
            self.0.remove(&key);
            return None;
        }
        session.used = now;
        Some(session.clone())
    }

    /// Ends a session.
    pub fn end(&mut self, secret: &str) {
        self.0.remove(&key(secret));
    }

    /// Ends the sessions of tokens that are not valid any more.
    pub fn retain_tokens(&mut self, is_valid: impl Fn(TokenId) -> bool) {
        self.0.retain(|_, session| session.token.is_none_or(&is_valid));
    }

    /// Returns the number of sessions.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns true if there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl PageSession {
    fn is_valid(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.began) < AGE_MAX
            && now.saturating_duration_since(self.used) < IDLE_MAX
    }
}

fn key(secret: &str) -> [u8; 32] {
    blake3::derive_key(SESSION_CONTEXT, secret.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_ends_by_itself_and_with_its_token() {
        let (mut sessions, now) = (SessionTable::default(), Instant::now());
        let mut begin = |token: u64, now| {
            let token = (token > 0).then(|| TokenId::new(token).unwrap());
            sessions.begin("x".to_owned(), TokenRole::Viewer, token, now).unwrap()
        };
        let (one, two, once) = (begin(1, now), begin(2, now), begin(0, now));
        assert_ne!(one, two);
        assert!(sessions.using(&one, now).is_some() && sessions.using("", now).is_none());
        sessions.retain_tokens(|token| token.get() != 1);
        assert!(sessions.using(&one, now).is_none() && sessions.using(&once, now).is_some());
        sessions.end(&once);
        assert!(sessions.using(&once, now).is_none());
        let mut later = now;
        for _ in 0..2 {
            later += IDLE_MAX - Duration::from_secs(1);
            assert!(sessions.using(&two, later).is_some());
        }
        assert!(sessions.using(&two, now + AGE_MAX).is_none(), "it is too old");
        let idle = sessions.begin("x".to_owned(), TokenRole::Admin, None, now).unwrap();
        assert!(sessions.using(&idle, now + IDLE_MAX).is_none());
    }

    #[test]
    fn sessions_are_bounded() {
        let (mut sessions, now) = (SessionTable::default(), Instant::now());
        let mut begin = |after: u64| {
            let now = now + Duration::from_millis(after);
            sessions.begin("x".to_owned(), TokenRole::Viewer, None, now).unwrap()
        };
        let first = begin(0);
        let second = begin(1);
        (2..=SESSIONS_MAX as u64).for_each(|number| {
            begin(number);
        });
        assert_eq!(sessions.len(), SESSIONS_MAX);
        assert!(sessions.using(&first, now).is_none() && sessions.using(&second, now).is_some());
    }
}
