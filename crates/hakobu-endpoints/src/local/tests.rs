//! The local endpoints pass the conformance suite, with what a new kernel offers and without.

use std::path::Path;

use hakobu_core::endpoint::{SourceEndpoint, TargetEndpoint};
use hakobu_core::grant::Grant;
use hakobu_testkit::conformance::{Harness, run_all};

use super::{LocalSource, LocalTarget, SourceRoot, TargetOptions};

struct Local {
    /// Without `openat2` and nameless files.
    plain: bool,
}

impl Harness for Local {
    fn target(&self, root: &Path, grant: Grant) -> Box<dyn TargetEndpoint> {
        let options = TargetOptions { job: [7; 32], durable: false, state: None };
        let open = if self.plain { LocalTarget::open_plain } else { LocalTarget::open };
        Box::new(open(root, grant, options).unwrap())
    }

    fn source(&self, root: &Path) -> Option<Box<dyn SourceEndpoint>> {
        let open = if self.plain { LocalSource::open_plain } else { LocalSource::open };
        Some(Box::new(open(&[SourceRoot { path: root.to_path_buf() }]).unwrap()))
    }
}

#[test]
fn local_endpoints_conform() {
    run_all(&Local { plain: false });
}

#[test]
fn local_endpoints_conform_on_an_old_system() {
    run_all(&Local { plain: true });
}
