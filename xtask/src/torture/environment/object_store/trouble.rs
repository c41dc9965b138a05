//! The faults of requests to a troubled store.

use super::super::super::rng::Rng;

/// The trouble of a store during a run.
#[derive(Debug)]
pub struct StoreTrouble {
    rng: Rng,
    percent: u64,
    may_stall: bool,
    /// The number of entries in a page of a listing.
    page: Option<u32>,
}

/// The fate of one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestFate {
    /// It is forwarded, after so many milliseconds.
    Forward(u64),
    /// It is answered with this status and code, and the server does not see it. The client is to wait so many seconds.
    Refuse(u16, &'static str, Option<u64>),
    /// The connection ends before the server has seen all of the request, by a reset or in order.
    CutRequest(CutManner),
    /// The server does what it is asked for, and the client gets so many thousandths of the answer.
    CutAnswer(u64, CutManner),
    /// The server does what it is asked for, and the client is told that it failed.
    Deny,
    /// A bit of content that is sent with a checksum changes on the way to the server.
    SpoilRequest,
    /// Nobody answers.
    Stall,
}

/// The end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CutManner {
    /// In order.
    End,
    /// By a reset.
    Reset,
}

impl StoreTrouble {
    /// Returns the trouble of a seed, which concerns about so many requests in a hundred.
    #[must_use]
    pub fn new(seed: u64, percent: u64) -> Self {
        let mut rng = Rng::new(seed);
        let page = rng.percent(60).then(|| rng.pick(&[1, 2, 3, 7, 20]));
        // A connection that stalls is given up after a minute.
        let may_stall = rng.percent(1);
        Self { rng, percent, may_stall, page }
    }

    /// Returns the number of entries in a page of a listing, if it is limited.
    #[must_use]
    pub fn page(&self) -> Option<u32> {
        self.page
    }

    /// Returns the fate of the next request.
    pub fn next(&mut self) -> RequestFate {
        if !self.rng.percent(self.percent) {
            return RequestFate::Forward(0);
        }
        if self.may_stall {
            self.may_stall = false;
            return RequestFate::Stall;
        }
        let manner = self.rng.pick(&[CutManner::End, CutManner::Reset]);
        match self.rng.below(14) {
            0 | 1 => RequestFate::Forward(self.rng.pick(&[5, 60, 300])),
            2 | 3 => RequestFate::Refuse(503, "SlowDown", self.rng.pick(&[None, None, Some(0), Some(1)])),
            4 => RequestFate::Refuse(500, "InternalError", None),
            5 => RequestFate::Refuse(429, "TooManyRequests", None),
            6 | 7 => RequestFate::CutRequest(manner),
            8..11 => RequestFate::CutAnswer(self.rng.pick(&[0, 10, 500, 990]), manner),
            11 | 12 => RequestFate::SpoilRequest,
            _ => RequestFate::Deny,
        }
    }
}
