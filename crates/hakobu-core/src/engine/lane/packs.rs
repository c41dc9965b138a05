//! Packs of small files: fetched from the source, stored at the target.

use super::*;

impl Worker<'_> {
    pub(super) fn pack(&mut self, task: &PackTask) -> Result<()> {
        let origin = task.node.origins.get(task.origin).ok_or_else(unexpected)?;
        let buffer = self.target.pack_buffer();
        self.enter(Stage::Read);
        let fetched = self.ask_source(Operation::Fetch {
            root: origin.root,
            directory: origin.path.clone(),
            target: task.node.target.clone(),
            picks: task.picks.clone(),
            buffer,
        });
        self.leave(Stage::Read);
        let fetched = match fetched {
            Ok(Outcome::Fetched(fetched)) => fetched,
            Ok(_) => return Err(unexpected()),
            Err(error) if error.is_fatal() => return Err(error),
            Err(error) => {
                let all = 0..task.picks.entries.len() as u32;
                Fetched { failures: all.map(|pick| (pick, error.clone())).collect(), ..Fetched::default() }
            }
        };
        let Fetched { pack, packed, failures, losses, content_bytes } = fetched;
        // What is neither packed nor failed would be lost without a word.
        if packed.len() + failures.len() != task.picks.entries.len() {
            return Err(unexpected());
        }
        for (pick, error) in failures {
            self.fail_pick(&origin.path, &task.picks, pick, at_source(error));
        }
        self.shared.record.losses(losses);
        self.counters.source_read_bytes.add(content_bytes);
        if packed.is_empty() {
            self.task_done(&task.node);
            return Ok(());
        }
        let task = PackTask { node: task.node.clone(), origin: task.origin, picks: task.picks.clone() };
        let pending = Pending::Stored { task, packed, content_bytes };
        self.submit(Operation::Store { pack }, pending).map(drop)
    }

    /// An entry of a pack could not be stored at the target.
    pub(super) fn fail_stored(
        &self,
        (node, directory): (&Node, &EntryPath),
        picks: &Picks,
        pick: u32,
        error: Error,
    ) {
        let name = picks.target_name.as_deref().unwrap_or_else(|| name_of(picks, pick));
        let error = match node.target.join(name) {
            Ok(target) => at_target(error, &target),
            Err(_) => error,
        };
        self.fail_pick(directory, picks, pick, error);
    }

    pub(super) fn fail_pick(&self, directory: &EntryPath, picks: &Picks, pick: u32, error: Error) {
        let name = name_of(picks, pick);
        let path = directory.join(name).unwrap_or_else(|_| directory.clone());
        fail(self.shared, self.counters, failure(path, error));
    }

    pub(super) fn stored(
        &mut self,
        (task, packed, content_bytes): (PackTask, Vec<u32>, u64),
        failures: Vec<(u32, Error)>,
    ) -> Result<()> {
        let PackTask { node, origin, picks } = task;
        let directory = &node.origins.get(origin).ok_or_else(unexpected)?.path;
        check_indices(&failures, packed.len())?;
        let (mut counts, mut stored_bytes) = ([0u64; 2], content_bytes);
        for pick in &packed {
            let replaces = picks.entries.get(*pick as usize).is_some_and(|pick| pick.replaces);
            counts[usize::from(replaces)] += 1;
        }
        for (record, error) in failures {
            if let Some(&pick) = packed.get(record as usize) {
                let replaces = picks.entries.get(pick as usize).is_some_and(|pick| pick.replaces);
                counts[usize::from(replaces)] -= 1;
                stored_bytes = stored_bytes.saturating_sub(content_of(&picks, pick));
                self.fail_stored((&node, directory), &picks, pick, error);
            }
        }
        self.counters.entries_created.add(counts[0]);
        self.counters.entries_updated.add(counts[1]);
        self.counters.target_written_bytes.add(stored_bytes);
        self.task_done(&node);
        Ok(())
    }

    /// A pack or big file is done, one way or the other.
    pub(super) fn task_done(&self, node: &Arc<Node>) {
        self.shared.queue.release(node, self.counters);
        self.shared.queue.complete(1);
    }
}

/// The name of an entry at the source.
fn name_of(picks: &Picks, pick: u32) -> &[u8] {
    picks.entries.get(pick as usize).map_or(&b""[..], |pick| picks.listing.name(pick.index as usize))
}

/// How many bytes of content an entry brings into a pack: the text of a link does not count.
fn content_of(picks: &Picks, pick: u32) -> u64 {
    let metadata = picks.entries.get(pick as usize).map(|pick| picks.listing.metadata(pick.index as usize));
    metadata.filter(|metadata| metadata.kind == Kind::File).map_or(0, |metadata| metadata.size_bytes)
}
