//! What a copy does not keep, counted by kind with one example each.

use crate::endpoint::{Loss, LossKind};

/// Losses being counted.
#[derive(Debug, Default)]
pub struct Losses(Vec<Loss>);

impl Losses {
    /// Counts one entry; `example` is asked for its path, on the side of the target or not, if it is the first of its
    /// kind.
    pub fn add(&mut self, what: LossKind, at_target: bool, example: impl FnOnce() -> Vec<u8>) {
        match self.0.iter_mut().find(|loss| loss.what == what) {
            Some(loss) => loss.count += 1,
            None => self.0.push(Loss { what, count: 1, at_target, example: example() }),
        }
    }

    /// Counts all of `others` too.
    pub fn merge(&mut self, others: &[LossKind], at_target: bool, example: impl Fn() -> Vec<u8>) {
        others.iter().for_each(|&what| self.add(what, at_target, &example));
    }

    /// What was counted.
    pub fn finish(self) -> Vec<Loss> {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_example_is_kept_of_each_kind() {
        let mut losses = Losses::default();
        losses.add(LossKind::Acl, false, || b"a".to_vec());
        losses.add(LossKind::Acl, true, || b"b".to_vec());
        let expected = Loss { what: LossKind::Acl, count: 2, at_target: false, example: b"a".to_vec() };
        assert_eq!(losses.finish(), [expected]);
    }
}
