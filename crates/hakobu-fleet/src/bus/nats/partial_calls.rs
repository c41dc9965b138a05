//! Requests of brokers that arrive in pieces. Their number and memory have limits, for each broker and in all.

use std::collections::BTreeMap;

use crate::message_form::MESSAGE_BYTES_MAX;
use crate::names::BrokerName;

/// The maximum number of requests of one broker.
const OF_BROKER_MAX: usize = 4;
/// The maximum number of requests.
const CALLS_MAX: usize = 64;
/// The maximum number of bytes of all of them.
const BYTES_MAX: usize = MESSAGE_BYTES_MAX * 2;
/// The number of sweeps after which a request without a new piece is dropped.
const SWEEPS_MAX: u32 = 15;

/// The requests that are not complete.
#[derive(Debug, Default)]
pub(super) struct PartialCalls {
    calls: BTreeMap<(BrokerName, u64), PartialCall>,
    bytes: usize,
}

#[derive(Debug)]
struct PartialCall {
    length: usize,
    data: Vec<u8>,
    /// The number of sweeps since the last piece.
    sweeps: u32,
}

/// The consequence of a piece.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum PieceOutcome {
    /// Others are missing.
    Taken,
    /// The request is complete.
    Complete(Vec<u8>),
    /// The pieces before it are not here.
    Again,
    /// A limit is exceeded.
    TooMuch,
}

impl PartialCalls {
    /// Takes a piece of a request with a number, a length, and the place of the piece in it.
    pub(super) fn take(
        &mut self,
        broker: &BrokerName,
        (id, length, at): (u64, u64, u64),
        piece: &[u8],
    ) -> PieceOutcome {
        let key = (broker.clone(), id);
        let lengths = (usize::try_from(length), usize::try_from(at));
        let (Ok(length), Ok(at)) = lengths else { return PieceOutcome::TooMuch };
        let ends = at.saturating_add(piece.len());
        if length > MESSAGE_BYTES_MAX || ends > length || piece.is_empty() {
            self.forget(&key);
            return PieceOutcome::TooMuch;
        }
        if at == 0 {
            self.forget(&key);
            let of_broker = self.calls.keys().filter(|(name, _)| name == broker).count();
            if of_broker >= OF_BROKER_MAX || self.calls.len() >= CALLS_MAX {
                return PieceOutcome::TooMuch;
            }
            self.calls.insert(key.clone(), PartialCall { length, data: Vec::new(), sweeps: 0 });
        }
        let Some(call) = self.calls.get_mut(&key) else { return PieceOutcome::Again };
        if call.data.len() != at || call.length != length {
            self.forget(&key);
            return PieceOutcome::Again;
        }
        if self.bytes.saturating_add(piece.len()) > BYTES_MAX {
            self.forget(&key);
            return PieceOutcome::TooMuch;
        }
        self.bytes += piece.len();
        call.data.extend_from_slice(piece);
        call.sweeps = 0;
        match ends == length {
            true => PieceOutcome::Complete(self.forget(&key)),
            false => PieceOutcome::Taken,
        }
    }

    /// Drops what has been waiting for long. To be called every second.
    pub(super) fn sweep(&mut self) {
        self.calls.values_mut().for_each(|call| call.sweeps += 1);
        let old = self.calls.iter().filter(|(_, call)| call.sweeps > SWEEPS_MAX);
        for key in old.map(|(key, _)| key.clone()).collect::<Vec<_>>() {
            self.forget(&key);
        }
    }

    fn forget(&mut self, key: &(BrokerName, u64)) -> Vec<u8> {
        let data = self.calls.remove(key).map(|call| call.data).unwrap_or_default();
        self.bytes -= data.len();
        data
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn broker(name: &str) -> BrokerName {
        BrokerName::new(name).unwrap()
    }

    #[test]
    fn pieces_make_a_request() {
        let (mut calls, one) = (PartialCalls::default(), broker("one"));
        assert_eq!(calls.take(&one, (7, 5, 0), b"ab"), PieceOutcome::Taken);
        assert_eq!(calls.take(&broker("two"), (7, 5, 2), b"cde"), PieceOutcome::Again);
        assert_eq!(calls.take(&one, (7, 5, 2), b"cd"), PieceOutcome::Taken);
        assert_eq!(calls.take(&one, (7, 5, 4), b"e"), PieceOutcome::Complete(b"abcde".to_vec()));
        // Repeated after a lost answer: from the beginning.
        assert_eq!(calls.take(&one, (7, 5, 4), b"e"), PieceOutcome::Again);
        assert_eq!((calls.calls.len(), calls.bytes), (0, 0));
    }

    #[test]
    fn wrong_pieces_end_a_request() {
        let one = broker("one");
        for (wrong, outcome) in [
            ((1, 5, 1), PieceOutcome::Again),
            ((1, 6, 2), PieceOutcome::Again),
            ((1, 5, 4), PieceOutcome::TooMuch),
            ((1, u64::MAX, 2), PieceOutcome::TooMuch),
            ((1, 5, u64::MAX), PieceOutcome::TooMuch),
            ((1, MESSAGE_BYTES_MAX as u64 + 1, 0), PieceOutcome::TooMuch),
        ] {
            let mut calls = PartialCalls::default();
            assert_eq!(calls.take(&one, (1, 5, 0), b"ab"), PieceOutcome::Taken);
            assert_eq!(calls.take(&one, wrong, b"cd"), outcome, "{wrong:?}");
            assert_eq!((calls.calls.len(), calls.bytes), (0, 0), "{wrong:?}");
        }
        assert_eq!(PartialCalls::default().take(&one, (1, 0, 0), b""), PieceOutcome::TooMuch);
    }

    #[test]
    fn number_memory_and_time_have_limits() {
        let mut calls = PartialCalls::default();
        let one = broker("one");
        for id in 0..OF_BROKER_MAX as u64 {
            assert_eq!(calls.take(&one, (id, 9, 0), b"a"), PieceOutcome::Taken);
        }
        assert_eq!(calls.take(&one, (99, 9, 0), b"a"), PieceOutcome::TooMuch);
        for number in 0..CALLS_MAX {
            calls.take(&broker(&format!("b{number}")), (1, 9, 0), b"a");
        }
        assert_eq!(calls.calls.len(), CALLS_MAX);
        (0..=SWEEPS_MAX).for_each(|_| calls.sweep());
        assert_eq!((calls.calls.len(), calls.bytes), (0, 0));
        let piece = vec![0; MESSAGE_BYTES_MAX - 1];
        let outcomes: Vec<_> =
            (0..3).map(|id| calls.take(&one, (id, MESSAGE_BYTES_MAX as u64, 0), &piece)).collect();
        assert_eq!(outcomes, [PieceOutcome::Taken, PieceOutcome::Taken, PieceOutcome::TooMuch]);
        assert!(calls.bytes <= BYTES_MAX);
    }
}
