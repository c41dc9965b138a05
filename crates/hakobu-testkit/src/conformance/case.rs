//! A case: one thing that an endpoint has to do, and who can run it.

use super::bench::Bench;

/// One thing that an endpoint has to do.
pub struct Case {
    /// What it is about; unique.
    pub name: &'static str,
    needs: Needs,
    pub(super) run: fn(&Bench<'_>),
}

/// Who can run a case.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Needs {
    Anyone,
    /// It mounts a file system or gives files away.
    Root,
    /// Root is refused nothing.
    NotRoot,
}

impl Case {
    pub(super) const fn new(name: &'static str, run: fn(&Bench<'_>)) -> Self {
        Self { name, needs: Needs::Anyone, run }
    }

    pub(super) const fn root(name: &'static str, run: fn(&Bench<'_>)) -> Self {
        Self { name, needs: Needs::Root, run }
    }

    pub(super) const fn not_root(name: &'static str, run: fn(&Bench<'_>)) -> Self {
        Self { name, needs: Needs::NotRoot, run }
    }

    pub(super) fn applies(&self) -> bool {
        let root = rustix::process::geteuid().is_root();
        match self.needs {
            Needs::Anyone => true,
            Needs::Root => root,
            Needs::NotRoot => !root,
        }
    }
}
