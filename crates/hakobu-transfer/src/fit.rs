//! Checks that the hosts can do what a copy requires, and reports what they will not keep, before any data moves.

use hakobu_core::capabilities::Capabilities;
use hakobu_core::error::{Error, Result};
use hakobu_core::event::{Event, Observer};
use hakobu_core::job::Job;
use hakobu_core::requirements::{MissingCapability, fits_passes, not_kept, not_shown};

use crate::host::Host;
use crate::opening::TransferHosts;

/// The first notice of every run that writes to a target where symbolic links may lead out of it.
const LINKS: &str = "SFTP protects only in part against symbolic links that others create meanwhile: each directory \
    is checked before and after it is used, but not in between";

/// The hosts of a copy, and their capabilities.
pub struct HostPair<'a> {
    source: &'a dyn Host,
    /// The target's host; the source's if both ends are on one host.
    target: &'a dyn Host,
    source_able: Capabilities,
    target_able: Capabilities,
}

impl<'a> HostPair<'a> {
    /// Asks the hosts for their capabilities.
    pub fn of(hosts: &'a TransferHosts) -> Self {
        let (source, target) = (&*hosts.source, hosts.target());
        Self { source, target, source_able: source.capabilities(), target_able: target.capabilities() }
    }

    /// Returns true if both ends can hash content, so that only differences are sent and received data is compared.
    pub fn hash(&self) -> bool {
        self.source_able.hashes && self.target_able.hashes
    }

    /// Refuses what these hosts cannot do.
    ///
    /// # Errors
    /// `Usage` or `Requirement`, naming the option and the end that does not support it.
    pub fn check(&self, job: &Job, has_passes: bool) -> Result<()> {
        job.fit(&self.source_able, &self.target_able).map_err(|misfit| self.refusal(misfit))?;
        match has_passes {
            true => fits_passes(&self.source_able, &self.target_able).map_err(|misfit| self.refusal(misfit)),
            false => Ok(()),
        }
    }

    fn refusal(&self, misfit: MissingCapability) -> Error {
        let end = if misfit.is_target { self.target } else { self.source };
        misfit.error(end.opener()).hint(end.way_out(misfit.need))
    }

    /// Reports what these hosts do not show of a source, and what they cannot keep of it.
    pub fn tell(&self, job: &Job, observer: &dyn Observer) {
        let tell = |why: Option<String>, what: &str, lost: &[String]| {
            let lost = (!lost.is_empty()).then(|| format!("{what}: {}", lost.join(", ")));
            for words in why.into_iter().chain(lost) {
                observer.event(Event::Notice { words });
            }
        };
        // A comparison or a digest writes nothing that could lack something.
        let writes = !job.mode.only_reads();
        let not_shown = |host: &dyn Host, able: &Capabilities| {
            let what = format!("the {} does not show", host.short_opener());
            tell(host.told_first(), &what, &not_shown(able));
        };
        if !self.source.has_agent() {
            not_shown(self.source, &self.source_able);
        }
        match self.target.has_agent() {
            false if writes => {
                let why = self.target.told_first();
                // Users who must not rely on the protection need to know that first.
                let why =
                    why.map(|why| if self.target_able.confines { why } else { format!("{LINKS}; {why}") });
                tell(why, "the target cannot preserve", &not_kept(&self.target_able, job.durable));
            }
            false if self.source.has_agent() => not_shown(self.target, &self.target_able),
            _ => {}
        }
    }
}
