//! Properties that a copy does not keep, counted by kind with one example each.

/// A property that the copy does not keep.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loss {
    /// The kind of property.
    pub what: LossKind,
    /// The number of entries.
    pub count: u64,
    /// True if the example is a path at the target, which detected the loss.
    pub at_target: bool,
    /// The path of one of the entries.
    pub example: Vec<u8>,
}

/// The kinds of properties that a copy may not keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum LossKind {
    /// Access control lists.
    Acl,
    /// Extended attributes other than access control lists.
    Xattr,
    /// Hard links that became separate files.
    HardLinks,
    /// Holes that were filled with zeros.
    Holes,
    /// Owner or group.
    Owner,
    /// Set-user-ID and set-group-ID bits, and file capabilities.
    SetId,
    /// The immutable or append-only flag of a file.
    Flags,
    /// Modification times that are finer than the target's resolution or beyond its range.
    Times,
}

impl LossKind {
    /// All kinds.
    pub const ALL: [Self; 8] = [
        Self::Acl,
        Self::Xattr,
        Self::HardLinks,
        Self::Holes,
        Self::Owner,
        Self::SetId,
        Self::Flags,
        Self::Times,
    ];

    /// Returns the kind with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// Returns the name used in reports and in `--require`.
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

    /// Returns true if the target detects the loss when the listings of both sides show it.
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

/// A counter of losses.
#[derive(Debug, Default)]
pub struct Losses(Vec<Loss>);

impl Losses {
    /// Counts one entry. `example` is called for its path if it is the first of its kind; `at_target` tells on which
    /// side that is.
    pub fn add(&mut self, what: LossKind, at_target: bool, example: impl FnOnce() -> Vec<u8>) {
        match self.0.iter_mut().find(|loss| loss.what == what) {
            Some(loss) => loss.count += 1,
            None => self.0.push(Loss { what, count: 1, at_target, example: example() }),
        }
    }

    /// Counts one entry for each of `others`.
    pub fn merge(&mut self, others: &[LossKind], at_target: bool, example: impl Fn() -> Vec<u8>) {
        others.iter().for_each(|&what| self.add(what, at_target, &example));
    }

    /// Returns what was counted.
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
