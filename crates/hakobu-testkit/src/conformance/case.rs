//! Cases: each is one thing that an endpoint has to do, and knows of which endpoints it can be asked.

use super::abilities::Abilities;
use super::bench::Bench;

/// One thing that an endpoint has to do.
pub struct Case {
    /// The sentence that says it; unique.
    pub name: &'static str,
    needs: &'static [Requirement],
    /// It is only about what is refused.
    is_of_refusals: bool,
    pub(super) run: fn(&Bench<'_>),
}

/// A condition without which a case says nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Requirement {
    /// Directories are entries of their own.
    Directories,
    /// An entry has the time that it was given.
    Times,
    /// Symbolic links can be made.
    Symlinks,
    /// Owner and time of symbolic links can be set.
    LinkAttributes,
    /// Owners can be set.
    Owners,
    /// Set-ID bits can be set.
    SetId,
    /// Files can be given further names.
    HardLinks,
    /// Listings tell inodes.
    Inodes,
    /// Directories are listed in order, in portions.
    Order,
    /// Named pipes can be made.
    SpecialFiles,
    /// Users' extended attributes are seen and set.
    UserAttributes,
    /// It is known how much room there is.
    Room,
    /// The user is root, who mounts file systems and gives files away.
    Root,
    /// The user is not root, who is refused nothing.
    NotRoot,
}

impl Requirement {
    fn is_met(self, abilities: &Abilities) -> bool {
        use hakobu_core::extended::Classes;
        let Abilities { target, source, .. } = abilities;
        let is_root = rustix::process::geteuid().is_root();
        match self {
            Self::Directories => target.directories && source.directories,
            Self::Times => abilities.keeps_times(),
            Self::Symlinks => target.symlinks,
            Self::LinkAttributes => target.symlinks && target.sets_links,
            Self::Owners => target.owners,
            Self::SetId => target.set_id,
            Self::HardLinks => target.hard_links,
            Self::Inodes => target.inodes && source.inodes,
            Self::Order => target.lists_in_order && source.lists_in_order,
            Self::SpecialFiles => target.special_files,
            Self::UserAttributes => {
                target.extended.contains(Classes::USER) && source.extended.contains(Classes::USER)
            }
            Self::Room => target.free_bytes.is_some(),
            Self::Root => is_root,
            Self::NotRoot => !is_root,
        }
    }
}

impl Case {
    pub(super) const fn new(name: &'static str, run: fn(&Bench<'_>)) -> Self {
        Self { name, needs: &[], is_of_refusals: false, run }
    }

    pub(super) const fn needs(self, needs: &'static [Requirement]) -> Self {
        Self { needs, ..self }
    }

    /// Says that it looks at nothing that was written, so that what keeps nothing can be asked as well.
    pub(super) const fn of_refusals(self) -> Self {
        Self { is_of_refusals: true, ..self }
    }

    pub(super) fn applies(&self, abilities: &Abilities) -> bool {
        (abilities.keeps || self.is_of_refusals) && self.needs.iter().all(|need| need.is_met(abilities))
    }
}
