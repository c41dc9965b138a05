//! Begins with slices of directories, and with names of files that have further names: entries that another run has found.

use std::sync::Arc;

use super::*;
use crate::exchange::DirectorySlice;

/// The number of entries of a slice that one lane looks at, so that lanes share the waiting.
const NAMES_AT_ONCE: usize = 64;
/// The number of requests for attributes that wait for the target.
const TARGET_AT_ONCE: usize = 64;

impl Worker<'_> {
    /// Begins to copy a slice of a directory.
    pub(super) fn begin_slice(&mut self, slice: &DirectorySlice) {
        let node = DirectoryNode::of_slice(&slice.place);
        let task = |names: &[Vec<u8>]| DirectoryTask::new(node.clone(), TargetState::Named(names.to_vec()));
        let tasks: Vec<_> = slice.names.chunks(NAMES_AT_ONCE).map(task).collect();
        node.hold(tasks.len() as u64);
        self.shared.queue.add(tasks, Vec::new(), Vec::new());
        self.shared.queue.release(&node, self.counters);
    }

    /// Copies entries of a slice.
    pub(super) fn named(&mut self, node: &Arc<DirectoryNode>, names: &[Vec<u8>]) -> Result<()> {
        let names: Vec<&[u8]> = names.iter().map(Vec::as_slice).collect();
        self.join_named(node, &names)?;
        self.directories_done(1);
        Ok(())
    }

    /// Looks at entries of a directory at both ends, and compares them.
    pub(super) fn join_named(&mut self, node: &Arc<DirectoryNode>, names: &[&[u8]]) -> Result<()> {
        let origin = node.first().ok_or_else(unexpected)?;
        let place = |name: &&[u8]| Ok((origin.root, origin.path.join(name)?));
        let places = names.iter().map(place).collect::<Result<Vec<_>>>()?;
        let there = names.iter().map(|name| node.target.join(name)).collect::<Result<Vec<_>>>()?;
        let (mut source, mut target) =
            (Listing::with_capacity(names.len()), Listing::with_capacity(names.len()));
        self.enter(LaneStage::Scan);
        let found = self.stat_all(&places)?;
        self.leave(LaneStage::Scan);
        let there = self.stat_all_at_target(there)?;
        for (((name, (_, path)), found), there) in names.iter().zip(&places).zip(found).zip(there) {
            let both = match found {
                Ok(Some(metadata)) => there.map(|there| (metadata, there)),
                Ok(None) => Err(not_there()),
                Err(error) => Err(at_source(error)),
            };
            match both {
                Ok((metadata, there)) => {
                    source.push(name, metadata)?;
                    there.map(|there| target.push(name, there)).transpose()?;
                }
                Err(error) => self.fail_item(path, error)?,
            }
        }
        source.sort();
        target.sort();
        source.mark_exact();
        target.mark_exact();
        self.check_inodes(origin, &mut source)?;
        self.by_name(&mut source)?;
        let parts = [OriginListing::whole(0, source)];
        self.join(node, &parts, (Some(&target), &Prefetched::default()), None)
    }

    /// Asks the target for entries, with many requests in flight.
    fn stat_all_at_target(&mut self, paths: Vec<EntryPath>) -> Result<Vec<Result<Option<EntryMetadata>>>> {
        let detail = Detail { missed: Classes::NONE, ..self.detail() };
        let (mut found, mut asked) = (Vec::with_capacity(paths.len()), VecDeque::new());
        let mut left = paths.into_iter();
        loop {
            if asked.len() < TARGET_AT_ONCE
                && let Some(path) = left.next()
            {
                let stat = TargetOp::Stat { path: path.clone(), detail };
                asked.push_back((self.submit(stat, PendingPurpose::Told)?, path));
                continue;
            }
            let Some((ticket, path)) = asked.pop_front() else { return Ok(found) };
            match self.told(ticket)?.ok_or_else(stopped)? {
                Ok(TargetOutcome::Stat(there)) => found.push(Ok(there)),
                Ok(_) => return Err(unexpected()),
                Err(error) if error.is_fatal() => return Err(error),
                Err(error) => found.push(Err(at_target(error, &path))),
            }
        }
    }

    /// Lists a directory at the target, which removes the drafts that ended runs have left in it, or goes on with them. Nobody
    /// else may work on it.
    pub(super) fn clear_drafts(&mut self, directory: &EntryPath) -> Result<()> {
        // Stores have no drafts in directories.
        if self.shared.setup.target.capabilities().lists_in_order {
            return Ok(());
        }
        let detail = Detail { kinds_only: true, ..Detail::default() };
        let list = TargetOp::List { directories: vec![directory.clone()], budget: 0, detail };
        match self.ask_target(list) {
            Err(error) if error.is_fatal() => Err(error),
            // Whatever keeps it from being listed fails what follows as well, or there are no drafts in it.
            _ => Ok(()),
        }
    }
}
