//! Decides whether a run is retried: after which errors, for how long, and with which pauses.

use std::time::{Duration, Instant};

use hakobu_core::error::{Error, ErrorKind, ErrorStep};

/// The minimum and maximum time for logging in again.
const LOGIN_AGAIN_MIN: Duration = Duration::from_secs(15);
const LOGIN_AGAIN_MAX: Duration = Duration::from_secs(120);
/// The first pause. Each further one is twice as long.
const PAUSE_MIN: Duration = Duration::from_millis(500);
/// The longest pause before a lost connection is retried.
const PAUSE_MAX: Duration = Duration::from_secs(10);
/// The time for which a request to a store has been repeated before its error ends an attempt, if the limit allows that.
const REPEATED_MAX: Duration = Duration::from_secs(300);
/// The longest pause if no login has worked yet. A server may lock out clients that fail to log in too often.
const PAUSE_AT_LOGIN_MAX: Duration = Duration::from_secs(60);

/// The attempts of one run.
#[derive(Debug)]
pub struct Retries {
    /// The maximum time without a connection.
    limit: Duration,
    /// True if another attempt may follow a failed login: one has logged in before, or nobody waits.
    may_fail_to_log_in: bool,
    pause: Duration,
    lost_at: Option<Instant>,
    /// The reason why the connection was lost, in case nothing better is known at the end.
    lost_by: Option<Error>,
}

/// The consequence of an attempt that ended with an error.
#[derive(Debug, PartialEq, Eq)]
pub enum RetryDecision {
    /// No further attempt: the error is final.
    End,
    /// No further attempt: the connection was lost for too long. The error includes the cause of the loss.
    GiveUp(Error),
    /// Another attempt after this pause. The text is for the user.
    Again(Duration, String),
}

impl Retries {
    /// Returns the state before the first attempt. `unattended`: nobody waits, so even the first login is retried.
    pub fn new(limit: Duration, unattended: bool) -> Self {
        Self { limit, may_fail_to_log_in: unattended, pause: PAUSE_MIN, lost_at: None, lost_by: None }
    }

    /// Returns the maximum time for the login of the next attempt, unless it is the first.
    pub fn login_limit(&self, now: Instant) -> Option<Duration> {
        let left = |lost: Instant| self.limit.saturating_sub(now.saturating_duration_since(lost));
        self.lost_at.map(|lost| left(lost).clamp(LOGIN_AGAIN_MIN, LOGIN_AGAIN_MAX))
    }

    /// Decides what follows an attempt. `has_advanced`: the attempt has written something.
    pub fn after(&mut self, error: &Error, has_advanced: bool, now: Instant) -> RetryDecision {
        let may_fail_to_log_in = std::mem::replace(&mut self.may_fail_to_log_in, true);
        if !(error.may_retry() || may_fail_to_log_in && is_of_the_line(error)) {
            return RetryDecision::End;
        }
        // The time counts from the loss of the connection, and starts again whenever data was written.
        let repeated = match error.step {
            ErrorStep::Request => self.limit.min(REPEATED_MAX),
            _ => Duration::ZERO,
        };
        let began = now.checked_sub(repeated).unwrap_or(now);
        let since = self.lost_at.filter(|_| !has_advanced).unwrap_or(began);
        self.lost_at = Some(since);
        if error.may_retry() {
            self.lost_by = Some(error.clone());
        }
        if now.saturating_duration_since(since) + self.pause > self.limit {
            return RetryDecision::GiveUp(self.last_words(error));
        }
        let what = match error.kind {
            ErrorKind::Locked => {
                "the remote host has not noticed yet that the connection was lost".to_owned()
            }
            _ if error.step == ErrorStep::Login && (self.lost_by.is_none() || !error.may_retry()) => {
                format!("no login yet ({error})")
            }
            _ if error.step == ErrorStep::Request => format!("the store does not answer ({error})"),
            _ => format!("connection lost ({error})"),
        };
        let pause = self.pause;
        self.pause = (pause * 2).min(if self.lost_by.is_none() { PAUSE_AT_LOGIN_MAX } else { PAUSE_MAX });
        RetryDecision::Again(pause, format!("{what}; trying again in {:.1} s", pause.as_secs_f64()))
    }

    fn last_words(&self, error: &Error) -> Error {
        match self.lost_by.clone().filter(|_| !error.may_retry()) {
            Some(lost) => Error { detail: format!("{}; then {error}", lost.detail), ..lost },
            None => error.clone(),
        }
    }
}

/// Returns true if an error that is usually final may come from a recently lost connection: the host cannot be
/// reached for a login yet, or the agent of the previous attempt still waits for its controller.
fn is_of_the_line(error: &Error) -> bool {
    error.kind == ErrorKind::Locked || error.step == ErrorStep::Login
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(kind: ErrorKind, during: &'static str) -> Error {
        Error::new(kind, during, "why")
    }

    fn no_login() -> Error {
        error(ErrorKind::Io, "starting").in_step(ErrorStep::Login)
    }

    fn pause(next: &RetryDecision) -> Option<f64> {
        match next {
            RetryDecision::Again(pause, _) => Some(pause.as_secs_f64()),
            _ => None,
        }
    }

    #[test]
    fn only_what_may_come_back_is_tried_again() {
        use ErrorKind::*;
        let tried = |unattended: bool, error: &Error, earlier: bool| {
            let (mut retries, now) = (Retries::new(Duration::from_secs(30), unattended), Instant::now());
            if earlier {
                let lost = retries.after(&self::error(ConnectionLost, "reading"), false, now);
                assert_eq!(pause(&lost), Some(0.5));
            }
            pause(&retries.after(error, false, now)).is_some()
        };
        for kind in [ConnectionLost, TimedOut] {
            assert!(tried(false, &error(kind, "reading"), false), "{kind:?}");
        }
        for kind in [
            BeyondGrant,
            Cancelled,
            Conflict,
            Corrupt,
            Io,
            NoInodes,
            NoSpace,
            NotFound,
            PermissionDenied,
            Protocol,
            ReadOnly,
            Refused,
            Requirement,
            SourceChanged,
            SourceVanished,
            Unsupported,
            Usage,
        ] {
            for (unattended, earlier) in [(false, false), (true, false), (false, true)] {
                assert!(!tried(unattended, &error(kind, "reading"), earlier), "{kind:?}");
            }
        }
        // A user who cannot log in is told at once, unless a login has worked before or nobody is there to be told.
        for of_the_line in [no_login(), error(Locked, "locking the job")] {
            assert!(!tried(false, &of_the_line, false), "{of_the_line}");
            assert!(tried(true, &of_the_line, false) && tried(false, &of_the_line, true), "{of_the_line}");
        }
    }

    #[test]
    fn pauses_grow_until_the_time_is_over() {
        let (mut retries, began) = (Retries::new(Duration::from_secs(30), false), Instant::now());
        let lost = error(ErrorKind::ConnectionLost, "reading");
        let mut now = began;
        let mut pauses = Vec::new();
        while let RetryDecision::Again(pause, words) = retries.after(&lost, false, now) {
            assert!(words.starts_with("connection lost (reading: why); trying again in "), "{words}");
            pauses.push(pause.as_secs_f64());
            now += pause;
        }
        assert_eq!(pauses, [0.5, 1.0, 2.0, 4.0, 8.0, 10.0]);
        // Written data restarts the time.
        assert_eq!(pause(&retries.after(&lost, true, now)), Some(10.0));
        assert_eq!(retries.login_limit(now), Some(Duration::from_secs(30)));
        assert_eq!(retries.login_limit(now + Duration::from_secs(29)), Some(LOGIN_AGAIN_MIN));
        assert_eq!(Retries::new(Duration::ZERO, false).login_limit(now), None);
        assert_eq!(
            Retries::new(Duration::ZERO, false).after(&lost, true, now),
            RetryDecision::GiveUp(lost.clone()),
            "--retry-for 0s"
        );
    }

    #[test]
    fn a_login_that_never_worked_is_tried_ever_more_seldom() {
        let (mut retries, mut now) = (Retries::new(Duration::from_secs(3600), true), Instant::now());
        let no_login = no_login();
        let mut last = 0.0;
        for _ in 0..10 {
            let next = retries.after(&no_login, false, now);
            assert!(
                matches!(&next, RetryDecision::Again(_, words) if words.starts_with("no login yet (")),
                "{next:?}"
            );
            last = pause(&next).unwrap();
            now += Duration::from_secs_f64(last);
        }
        assert!((last - 60.0).abs() < f64::EPSILON);
    }

    #[test]
    fn a_request_to_a_store_has_been_repeated_already() {
        let lost = error(ErrorKind::ConnectionLost, "reading").in_step(ErrorStep::Request);
        let now = Instant::now() + Duration::from_secs(7200);
        let after = |limit: u64, later: u64| {
            let mut retries = Retries::new(Duration::from_secs(limit), true);
            let first = retries.after(&lost, true, now);
            if later == 0 { first } else { retries.after(&lost, false, now + Duration::from_secs(later)) }
        };
        assert_eq!(after(30, 0), RetryDecision::GiveUp(lost.clone()));
        assert!(
            matches!(after(3600, 0), RetryDecision::Again(_, words) if words.starts_with("the store does not answer"))
        );
        assert!(pause(&after(3600, 3290)).is_some());
        assert_eq!(after(3600, 3310), RetryDecision::GiveUp(lost.clone()));
    }

    #[test]
    fn why_it_was_lost_is_said_in_the_end() {
        let (mut retries, now) = (Retries::new(Duration::from_secs(30), false), Instant::now());
        assert!(pause(&retries.after(&error(ErrorKind::ConnectionLost, "reading"), false, now)).is_some());
        let late = now + Duration::from_secs(40);
        let RetryDecision::GiveUp(given) = retries.after(&no_login(), false, late) else {
            panic!("it goes on")
        };
        assert_eq!(given.kind, ErrorKind::ConnectionLost);
        assert_eq!(given.to_string(), "reading: why; then starting: why");
        let locked = retries.after(&error(ErrorKind::Locked, "locking"), true, late);
        assert!(matches!(locked, RetryDecision::Again(_, words) if words.contains("has not noticed yet")));
    }
}
