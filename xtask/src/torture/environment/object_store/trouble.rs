//! The faults of requests to a troubled store.

use super::super::super::rng::Rng;

/// The trouble of a store during a run.
#[derive(Debug)]
pub struct StoreTrouble {
    rng: Rng,
    percent: u64,
}

/// The fate of one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestFate {
    /// It is forwarded, after so many milliseconds.
    Forward(u64),
    /// It is answered with this status and code, and the server does not see it.
    Refuse(u16, &'static str),
    /// The connection ends before the server has seen all of the request.
    CutRequest,
    /// The server does what it is asked for, and the client gets so many thousandths of the answer.
    CutAnswer(u64),
    /// The server does what it is asked for, and the client is told that it failed.
    Deny,
}

impl StoreTrouble {
    /// Returns the trouble of a seed, which concerns about so many requests in a hundred.
    #[must_use]
    pub fn new(seed: u64, percent: u64) -> Self {
        Self { rng: Rng::new(seed), percent }
    }

    /// Returns the fate of the next request.
    pub fn next(&mut self) -> RequestFate {
        if !self.rng.percent(self.percent) {
            return RequestFate::Forward(0);
        }
        match self.rng.below(12) {
            0 | 1 => RequestFate::Forward(self.rng.pick(&[5, 60, 300])),
            2 | 3 => RequestFate::Refuse(503, "SlowDown"),
            4 => RequestFate::Refuse(500, "InternalError"),
            5 => RequestFate::Refuse(429, "TooManyRequests"),
            6 | 7 => RequestFate::CutRequest,
            8..11 => RequestFate::CutAnswer(self.rng.pick(&[0, 10, 500, 990])),
            _ => RequestFate::Deny,
        }
    }
}
