//! What makes endpoints of the kind under test.

use std::path::Path;

use hakobu_core::endpoint::{SourceEndpoint, TargetEndpoint};
use hakobu_core::grant::Grant;

/// Makes endpoints of the kind under test.
pub trait Harness {
    /// A fresh target over the existing directory `root`.
    fn target(&self, root: &Path, grant: Grant) -> Box<dyn TargetEndpoint>;

    /// A fresh source with `root` as its only root; `None` when there are no such sources.
    fn source(&self, root: &Path) -> Option<Box<dyn SourceEndpoint>>;
}
