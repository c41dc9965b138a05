//! Harnesses: they create places, and endpoints of the kind under test on them.

use std::path::Path;

use hakobu_core::endpoint::{SourceEndpoint, TargetEndpoint};
use hakobu_core::grant::Grant;

/// Creates places of the kind under test.
pub trait Harness {
    /// Creates a new, empty place.
    fn place(&self) -> Box<dyn TestPlace>;

    /// Returns true if written data can be read back. Otherwise only cases about refused operations apply.
    fn keeps(&self) -> bool {
        true
    }

    /// Returns the names of cases that do not hold here, because the server behind the endpoint has rules of its own that
    /// no capability tells. They are not run.
    fn exceptions(&self) -> &'static [&'static str] {
        &[]
    }

    /// Returns a place over an existing directory on this machine. Only used if the harness's places have a
    /// [`TestPlace::directory`].
    fn over(&self, _directory: &Path) -> Option<Box<dyn TestPlace>> {
        None
    }
}

/// A place that holds one tree, which is removed with it. Several endpoints may be open on it, one after another or
/// at the same time.
pub trait TestPlace {
    /// Opens a target on the place.
    fn target(&self, grant: Grant) -> Box<dyn TargetEndpoint>;

    /// Opens a source with the place as its only root.
    fn source(&self) -> Box<dyn SourceEndpoint>;

    /// Returns the directory of the place on this machine. Without one, the cases that need direct access are
    /// omitted.
    fn directory(&self) -> Option<&Path> {
        None
    }
}
