//! The properties of entries that a run does not promise.

/// The properties of an entry that are not promised.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UnpromisedProperties {
    /// The owner.
    pub owner: bool,
    /// All of the mode.
    pub mode: bool,
    /// Set-ID bits.
    pub set_id: bool,
    /// Fewer permissions than expected.
    pub narrower: bool,
    /// The time.
    pub mtime: bool,
    /// Extended attributes other than access control lists.
    pub xattrs: bool,
    /// Access control lists.
    pub acl: bool,
    /// Everything, including existence.
    pub all: bool,
}

impl UnpromisedProperties {
    /// Returns the value that allows any attributes.
    pub fn of_any_attributes() -> Self {
        Self {
            owner: true,
            mode: true,
            set_id: true,
            narrower: false,
            mtime: true,
            xattrs: true,
            acl: true,
            all: false,
        }
    }
}
