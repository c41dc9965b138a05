//! Harnesses: they make places, and endpoints of the kind under test on them.

use std::path::Path;

use hakobu_core::endpoint::{SourceEndpoint, TargetEndpoint};
use hakobu_core::grant::Grant;

/// A maker of places of the kind under test.
pub trait Harness {
    /// Makes a fresh, empty place.
    fn place(&self) -> Box<dyn Place>;

    /// Returns true if what is written can be read. Else only the cases apply that are about what is refused.
    fn keeps(&self) -> bool {
        true
    }

    /// Returns a place over a directory of this machine that exists already. Asked only of a harness whose places have a
    /// [`Place::directory`].
    fn over(&self, _directory: &Path) -> Option<Box<dyn Place>> {
        None
    }
}

/// A place that holds one tree. What is in it goes with it. Several endpoints may be open on it, one after another or at
/// once.
pub trait Place {
    /// Opens a target on it.
    fn target(&self, grant: Grant) -> Box<dyn TargetEndpoint>;

    /// Opens a source on it, with the place as its only root.
    fn source(&self) -> Box<dyn SourceEndpoint>;

    /// Returns the directory of this machine that the place is. Without one the cases that need a hand beside the traits
    /// are left out.
    fn directory(&self) -> Option<&Path> {
        None
    }
}
