//! Directories that are copied without being known as a whole.

use super::*;
use crate::handle::Cursor;

/// A directory that the target lacks is read in portions of about so many entries: the first of a million is
/// copied soon, and memory does not grow with the directory.
const PORTION_ENTRIES: usize = 8192;

impl Worker<'_> {
    /// Whether a directory can be copied without being known as a whole. Plans, and what people read, are in order, and
    /// where the target ignores case all names have to be compared.
    pub(super) fn may_take_portions(&self, node: &Node) -> bool {
        let job = self.shared.setup.job;
        let writes = !job.dry_run && !job.mode.only_reads() && job.removal != Removal::Remove;
        let whole = matches!(&node.origins[..], [origin] if origin.only.is_none());
        writes && whole && !self.shared.setup.target.capabilities().names.ignores_case
    }

    pub(super) fn scan_portion(
        &mut self,
        origin: &Origin,
        from: Option<Cursor>,
        detail: Detail,
    ) -> Result<(Listing, Option<Cursor>)> {
        let (root, directory, entries) = (origin.root, origin.path.clone(), PORTION_ENTRIES);
        let portion = SourceOp::Portion { root, directory, from, entries, detail };
        let SourceOutcome::Portion(mut listing, rest) = self.ask_source(portion)? else {
            return Err(unexpected());
        };
        self.leave_drafts_out(origin, &listing);
        self.refuse_twins(origin, &mut listing)?;
        self.fail_refused(&listing);
        self.check_inodes(origin, &mut listing)?;
        self.by_name(&mut listing)?;
        Ok((listing, rest))
    }

    /// Brings over the next entries of a directory of which nothing is at the target, or the first, and leaves the rest
    /// to whoever comes next.
    pub(super) fn portion(&mut self, node: &Arc<Node>, from: Option<Cursor>) -> Result<()> {
        let Some(origin) = node.origins.first() else { return Err(unexpected()) };
        self.enter(Stage::Scan);
        let scanned = self.scan_portion(origin, from, self.new_detail());
        self.leave(Stage::Scan);
        match scanned {
            Ok((listing, rest)) => {
                // The rest is pending before what was found can be done.
                node.hold(u64::from(rest.is_some()));
                self.join(node, &[Part::whole(0, listing)], None, &Prefetched::default())?;
                if let Some(rest) = rest {
                    let task = DirectoryTask { node: node.clone(), target: TargetState::Rest(rest) };
                    self.shared.queue.put_back(task);
                    return Ok(());
                }
            }
            Err(error) if error.is_fatal() => return Err(error),
            Err(error) => {
                node.fail();
                fail(self.shared, self.counters, failure(origin.named(), at_source(error)));
                self.shared.queue.release(node, self.counters);
            }
        }
        self.directories_done(1);
        Ok(())
    }
}
