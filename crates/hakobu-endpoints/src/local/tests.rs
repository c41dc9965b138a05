//! Runs the conformance suite over the local endpoints, with and without the features of new kernels.

use std::path::{Path, PathBuf};

use hakobu_core::endpoint::{SourceEndpoint, TargetEndpoint};
use hakobu_core::grant::Grant;
use hakobu_testkit::conformance::{Harness, TestPlace, case_names, run_all};
use tempfile::TempDir;

use super::{LocalSource, LocalTarget, SourceRoot, TargetOptions};

#[derive(Clone, Copy)]
struct Local {
    /// True to test without `openat2` and nameless files.
    plain: bool,
}

impl Harness for Local {
    fn place(&self) -> Box<dyn TestPlace> {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().to_owned();
        Box::new(LocalPlace { local: *self, path, _directory: Some(directory) })
    }

    fn over(&self, directory: &Path) -> Option<Box<dyn TestPlace>> {
        Some(Box::new(LocalPlace { local: *self, path: directory.to_owned(), _directory: None }))
    }
}

struct LocalPlace {
    local: Local,
    path: PathBuf,
    /// Removes the directory at the end, if this test created it.
    _directory: Option<TempDir>,
}

impl TestPlace for LocalPlace {
    fn target(&self, grant: Grant) -> Box<dyn TargetEndpoint> {
        let options = TargetOptions { job: [7; 32], durable: false, state: None };
        let open = if self.local.plain { LocalTarget::open_plain } else { LocalTarget::open };
        Box::new(open(&self.path, grant, options).unwrap())
    }

    fn source(&self) -> Box<dyn SourceEndpoint> {
        let open = if self.local.plain { LocalSource::open_plain } else { LocalSource::open };
        Box::new(open(&[SourceRoot { path: self.path.clone() }]).unwrap())
    }

    fn directory(&self) -> Option<&Path> {
        Some(&self.path)
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

#[test]
fn nearly_all_cases_apply_to_a_directory() {
    assert!(case_names(&Local { plain: false }).len() >= 80);
}
