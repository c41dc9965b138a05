//! A run of which one end, or both, are SFTP servers, and the engine is here.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use hakobu_core::endpoint::Endpoint;
use hakobu_core::error::{Error, ErrorKind, Result};
use hakobu_core::event::Observer;
use hakobu_core::grant::Grant;
use hakobu_core::job::Job;
use hakobu_proto::control::{PathBytes, Ran};

use crate::live_limits::LiveLimits;
use crate::party::Party;
use crate::side::Side;
use crate::stop::Stop;

/// What a run is between.
pub(crate) struct Ends<'a> {
    pub source: &'a Party,
    /// The same as the source where both are on one machine.
    pub target: &'a Party,
    pub identity: [u8; 16],
    pub roots: Vec<PathBytes>,
    pub root: Vec<u8>,
    pub grant: Grant,
    pub limits: Arc<LiveLimits>,
}

/// Runs a job between these ends.
///
/// # Errors
/// When an end cannot be opened.
pub(crate) fn run(ends: Ends<'_>, job: Job, observer: &dyn Observer, cancel: Arc<AtomicBool>) -> Result<Ran> {
    let Ends { source, target, identity, roots, root, grant, limits } = ends;
    let here = Side::new(Stop::with_flag(cancel)).with_limits(limits);
    let _lock = here.lock(&job, &identity)?;
    let source: Box<dyn Endpoint> = match source {
        Party::Sftp(side) => side.source(&roots),
        Party::Here(side) => side.open_source(&roots, &job)?,
        Party::There(_) => return Err(apart()),
    };
    // A digest is taken here, where the content comes to.
    let target: Box<dyn Endpoint> = match target {
        Party::Sftp(_) if job.mode.is_digest() => Box::new(here.open_target(&root, &grant, &identity)?),
        Party::Sftp(side) => side.target(&root, grant, &identity, &job),
        Party::Here(side) => Box::new(side.open_target(&root, &grant, &identity)?),
        Party::There(_) => return Err(apart()),
    };
    Ok(here.run_between(&*source, &*target, &job, observer))
}

fn apart() -> Error {
    Error::new(ErrorKind::Usage, "running a job", "one end has an agent and the other has not")
}
