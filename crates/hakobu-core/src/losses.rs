//! What a copy does not keep, counted by kind with one example each.

/// Something that the copy does not keep.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loss {
    /// What: `xattr`, `acl`, `hard_links`, `holes`, `owner`, `set_id`, `flags`, `times`.
    pub what: LossKind,
    /// How many entries.
    pub count: u64,
    /// Whether the example is a path at the target, whose side noticed it.
    pub at_target: bool,
    /// One of them.
    pub example: Vec<u8>,
}

/// The kinds of things that a copy may not keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum LossKind {
    /// Access control lists.
    Acl,
    /// Extended attributes other than access control lists.
    Xattr,
    /// Names of one inode that became files of their own.
    HardLinks,
    /// Holes that were filled with zeros.
    Holes,
    /// Owner or group.
    Owner,
    /// Set-user-ID and set-group-ID bits, and capabilities of programs.
    SetId,
    /// That a file is immutable, or can only be appended to.
    Flags,
    /// Times of the last change, in a finer step or beyond the range that is kept.
    Times,
}

impl LossKind {
    /// The name in reports and in `--require`.
    pub fn name(self) -> &'static str {
        match self {
            LossKind::Acl => "acl",
            LossKind::Xattr => "xattr",
            LossKind::HardLinks => "hardlinks",
            LossKind::Holes => "holes",
            LossKind::Owner => "owner",
            LossKind::SetId => "setid",
            LossKind::Flags => "flags",
            LossKind::Times => "times",
        }
    }

    /// Whether it is noticed by the side of the target where both sides' listings show it.
    pub fn is_of_target(self) -> bool {
        match self {
            LossKind::Acl
            | LossKind::Xattr
            | LossKind::HardLinks
            | LossKind::Holes
            | LossKind::Flags
            | LossKind::Times => false,
            LossKind::Owner | LossKind::SetId => true,
        }
    }
}

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
