//! Cases: each describes one duty of an endpoint, and its requirements on the endpoint.

use super::abilities::HarnessCapabilities;
use super::bench::Workplace;

/// One duty of an endpoint.
pub struct ConformanceCase {
    /// A unique sentence that describes the duty.
    pub name: &'static str,
    needs: &'static [Requirement],
    /// True if the case is only about refused operations.
    is_of_refusals: bool,
    pub(super) run: fn(&Workplace<'_>),
}

/// A requirement without which a case does not apply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Requirement {
    /// Directories are separate entries.
    Directories,
    /// A directory and another entry cannot have the same name.
    DistinctNames,
    /// A directory can be made before something is in it or its attributes are set.
    EmptyDirectories,
    /// Entries keep the time that was set.
    Times,
    /// Symbolic links can be created.
    Symlinks,
    /// Owner and time of symbolic links can be set.
    LinkAttributes,
    /// Owners can be set.
    Owners,
    /// Set-ID bits can be set.
    SetId,
    /// Hard links can be created.
    HardLinks,
    /// Listings include inodes.
    Inodes,
    /// Directories can be listed in order, in pages.
    Order,
    /// Named pipes can be created.
    SpecialFiles,
    /// User extended attributes can be read and set.
    UserAttributes,
    /// The free space is known.
    Room,
    /// The user is root, and can mount file systems and change owners.
    Root,
    /// The user is not root, for whom permissions would not apply.
    NotRoot,
}

impl Requirement {
    fn is_met(self, abilities: &HarnessCapabilities) -> bool {
        use hakobu_core::extended::Classes;
        let HarnessCapabilities { target, source, .. } = abilities;
        let is_root = rustix::process::geteuid().is_root();
        match self {
            Self::Directories => target.directories && source.directories,
            Self::DistinctNames => !target.shared_names,
            Self::EmptyDirectories => target.directories && !abilities.implies_directories(),
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

impl ConformanceCase {
    pub(super) const fn new(name: &'static str, run: fn(&Workplace<'_>)) -> Self {
        Self { name, needs: &[], is_of_refusals: false, run }
    }

    pub(super) const fn needs(self, needs: &'static [Requirement]) -> Self {
        Self { needs, ..self }
    }

    /// Marks a case that reads nothing back, so that it also applies to endpoints that keep nothing.
    pub(super) const fn of_refusals(self) -> Self {
        Self { is_of_refusals: true, ..self }
    }

    pub(super) fn applies(&self, abilities: &HarnessCapabilities) -> bool {
        (abilities.keeps || self.is_of_refusals) && self.needs.iter().all(|need| need.is_met(abilities))
    }
}
