//! A run of which one end, or both, are SFTP servers, and the engine is here.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use hakobu_core::endpoint::Endpoint;
use hakobu_core::error::{Error, ErrorKind, Result};
use hakobu_core::event::{Event, Observer};
use hakobu_core::grant::Grant;
use hakobu_core::job::{Job, Update};
use hakobu_proto::control::{PathBytes, Ran};

use super::losses;
use super::side::SftpSide;
use crate::live_limits::LiveLimits;
use crate::party::Party;
use crate::request::CopyRequest;
use crate::side::Side;
use crate::stop::Stop;

/// Said first of every run that writes to a server.
const LINKS: &str = "files are protected against links only as far as SFTP allows (each directory is looked at before it is used and \
                     after, but a server follows what is swapped in between)";

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

/// Refuses what the way cannot do, and says what it costs, before anything moves, unless that was `told` before.
///
/// # Errors
/// `Usage` or `Requirement`.
pub(crate) fn check(
    request: &CopyRequest,
    source: &Party,
    target: Option<&Party>,
    observer: &dyn Observer,
    told: bool,
) -> Result<()> {
    let target = target.unwrap_or(source);
    losses::check(request, source.sftp().is_some(), target.sftp())?;
    if told {
        return Ok(());
    }
    // A plan, a comparison or a digest writes nothing that could lack something.
    let writes = !request.mode.only_reads() && !request.mode.is_digest();
    let tell = |side: &SftpSide, what: &str, lost: &[&str], is_written: bool| {
        let why = match &side.why {
            Some(why) => format!("{}: over sftp, since there is no agent: {why}", side.host),
            None => format!("{}: over sftp, as asked", side.host),
        };
        // Who may not rely on it should know before anything else.
        let why = if is_written { format!("{LINKS}; {why}") } else { why };
        for words in [why, format!("{what}: {}", lost.join(", "))] {
            observer.event(Event::Notice { words });
        }
    };
    if let Some(side) = source.sftp() {
        tell(side, "what the server does not show", &losses::as_source(), false);
    }
    if let Some(side) = target.sftp().filter(|_| !writes && source.sftp().is_none()) {
        tell(side, "what the server does not show", &losses::as_source(), false);
    }
    if let Some(side) = target.sftp().filter(|_| writes) {
        let lost = losses::as_target(side.abilities(), side.is_root(), request.durable);
        tell(side, "what cannot be kept there", &lost, true);
    }
    Ok(())
}

/// Runs a job between these ends.
///
/// # Errors
/// When an end cannot be opened.
pub(crate) fn run(
    ends: Ends<'_>,
    mut job: Job,
    observer: &dyn Observer,
    cancel: Arc<AtomicBool>,
) -> Result<Ran> {
    let Ends { source, target, identity, roots, root, grant, limits } = ends;
    // Nobody hashes at the far end, so what changed goes as a whole.
    (job.update, job.blocks, job.clone) = (Update::Whole, false, false);
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
