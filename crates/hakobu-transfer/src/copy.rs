//! The entry point of a copy: passes a request to the module that carries it out.

use hakobu_core::error::Result;

use crate::carryover::Carryover;
use crate::deletion;
use crate::passes;
use crate::transfer::run_once;
use hakobu_core::outcome::{RunEnvironment, Transfer};
use hakobu_core::request::CopyRequest;

/// Carries out a copy. All errors are in the result.
pub fn copy(request: &CopyRequest, surroundings: &mut RunEnvironment<'_>) -> Transfer {
    copy_after(request, 0, surroundings)
}

/// Runs a copy after others, in which `created` entries were made at the target. The target did not have these before, so they do
/// not raise the number of entries that may be deleted.
pub fn copy_after(request: &CopyRequest, created: u64, surroundings: &mut RunEnvironment<'_>) -> Transfer {
    if hakobu_rsync::concerns(request) {
        return hakobu_rsync::run(request, surroundings);
    }
    match (&request.passes, &request.deletion) {
        (Some(passes), _) => passes::run(request, passes, surroundings),
        (None, Some(deletion)) => deletion::run(request, deletion, created, surroundings),
        (None, None) => run_once(request, surroundings, &mut Carryover::default()),
    }
}

/// Returns true if the installed rsync transfers the data. Its limits cannot change while it runs.
///
/// # Errors
/// `Usage` or `Requirement` if rsync would be used but cannot do what is requested.
pub fn is_moved_by_rsync(request: &CopyRequest) -> Result<bool> {
    let concerned = hakobu_rsync::concerns(request);
    if concerned {
        hakobu_rsync::check(request)?;
    }
    Ok(concerned)
}
