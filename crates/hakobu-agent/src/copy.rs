//! The entrance: a request goes to the mover that it is for.

use hakobu_core::error::Result;

use crate::carryover::Carryover;
use hakobu_core::outcome::{Surroundings, Transfer};
use hakobu_core::request::CopyRequest;
use crate::transfer::run_once;
use crate::deletion;
use crate::passes;
use crate::rsync;

/// Copies. Everything that went wrong is in the result.
pub fn copy(request: &CopyRequest, surroundings: &mut Surroundings<'_>) -> Transfer {
    if rsync::concerns(request) {
        return rsync::run(request, surroundings);
    }
    match (&request.passes, &request.deletion) {
        (Some(passes), _) => passes::run(request, passes, surroundings),
        (None, Some(deletion)) => deletion::run(request, deletion, surroundings),
        (None, None) => run_once(request, surroundings, &mut Carryover::default()),
    }
}

/// Whether the installed rsync moves the data. It is held to limits from its start to its end.
///
/// # Errors
/// `Usage` or `Requirement`: it would, and cannot do what is asked for.
pub fn is_moved_by_rsync(request: &CopyRequest) -> Result<bool> {
    let concerned = rsync::concerns(request);
    if concerned {
        rsync::check(request)?;
    }
    Ok(concerned)
}
