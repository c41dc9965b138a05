//! Answers that are longer than one frame, kept until the broker has fetched their pieces. Number, memory and time have limits.

use std::collections::BTreeMap;

use crate::message_form::MESSAGE_BYTES_MAX;
use crate::names::BrokerName;

/// The maximum number of bytes of all answers.
const BYTES_MAX: usize = MESSAGE_BYTES_MAX * 2;
/// The maximum number of answers.
const ANSWERS_MAX: usize = 64;
/// The number of sweeps after which an answer that nobody fetches is dropped.
const SWEEPS_MAX: u32 = 15;

/// The answers.
#[derive(Debug, Default)]
pub(super) struct KeptAnswers {
    answers: BTreeMap<u64, KeptAnswer>,
    bytes: usize,
}

#[derive(Debug)]
struct KeptAnswer {
    broker: BrokerName,
    data: Vec<u8>,
    sweeps: u32,
}

impl KeptAnswers {
    /// Keeps an answer for a broker. The oldest ones make room for it.
    pub(super) fn keep(&mut self, id: u64, broker: BrokerName, data: Vec<u8>) {
        self.forget(id);
        while !self.answers.is_empty()
            && (self.answers.len() >= ANSWERS_MAX || self.bytes.saturating_add(data.len()) > BYTES_MAX)
        {
            let oldest = self.answers.iter().max_by_key(|(_, answer)| answer.sweeps).map(|(id, _)| *id);
            self.forget(oldest.unwrap_or_default());
        }
        self.bytes += data.len();
        self.answers.insert(id, KeptAnswer { broker, data, sweeps: 0 });
    }

    /// Returns a piece of an answer. With its last piece the answer is dropped.
    pub(super) fn piece(&mut self, id: u64, broker: &BrokerName, at: u64, length: usize) -> Option<Vec<u8>> {
        let answer = self.answers.get_mut(&id).filter(|answer| answer.broker == *broker)?;
        let at = usize::try_from(at).ok().filter(|at| *at < answer.data.len())?;
        let ends = at.saturating_add(length).min(answer.data.len());
        answer.sweeps = 0;
        let piece = answer.data.get(at..ends)?.to_vec();
        if ends == answer.data.len() {
            self.forget(id);
        }
        Some(piece)
    }

    /// Drops what nobody has fetched for long. To be called every second.
    pub(super) fn sweep(&mut self) {
        self.answers.values_mut().for_each(|answer| answer.sweeps += 1);
        let old = self.answers.iter().filter(|(_, answer)| answer.sweeps > SWEEPS_MAX);
        for id in old.map(|(id, _)| *id).collect::<Vec<_>>() {
            self.forget(id);
        }
    }

    fn forget(&mut self, id: u64) {
        if let Some(answer) = self.answers.remove(&id) {
            self.bytes -= answer.data.len();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_fetched_by_its_broker_alone() {
        let (one, two) = (BrokerName::new("one").unwrap(), BrokerName::new("two").unwrap());
        let mut answers = KeptAnswers::default();
        answers.keep(7, one.clone(), b"abcde".to_vec());
        assert_eq!(answers.piece(7, &two, 2, 2), None);
        assert_eq!(answers.piece(8, &one, 2, 2), None);
        assert_eq!(answers.piece(7, &one, 5, 2), None);
        assert_eq!(answers.piece(7, &one, u64::MAX, 2), None);
        assert_eq!(answers.piece(7, &one, 2, 2), Some(b"cd".to_vec()));
        assert_eq!(answers.piece(7, &one, 4, 2), Some(b"e".to_vec()));
        assert_eq!((answers.answers.len(), answers.bytes), (0, 0));
    }

    #[test]
    fn number_memory_and_time_have_limits() {
        let one = BrokerName::new("one").unwrap();
        let mut answers = KeptAnswers::default();
        for id in 0..ANSWERS_MAX as u64 * 2 {
            answers.keep(id, one.clone(), vec![0; 10]);
            answers.sweep();
        }
        assert!(answers.answers.len() <= ANSWERS_MAX);
        (0..5).for_each(|id| answers.keep(id, one.clone(), vec![0; MESSAGE_BYTES_MAX]));
        assert!(answers.bytes <= BYTES_MAX && answers.answers.len() == 2);
        (0..=SWEEPS_MAX).for_each(|_| answers.sweep());
        assert_eq!((answers.answers.len(), answers.bytes), (0, 0));
    }
}
