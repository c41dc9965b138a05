//! Computes digests of files in a tree, without involving the target.

use super::chunks::Values;
use super::*;

impl Worker<'_> {
    /// Computes the digests of small files.
    pub(super) fn hash_pack(&mut self, task: &PackTask) -> Result<()> {
        let PackTask { node, origin, picks, .. } = task;
        let from = node.origins.get(*origin).ok_or_else(unexpected)?;
        let (root, directory) = (from.root, from.path.clone());
        self.enter(LaneStage::Read);
        let stored = self.shared.uses_kept_digests();
        let ask = SourceOp::DigestPicks { root, directory, picks: picks.clone(), key: None, stored };
        let digests = self.ask_source(ask);
        self.leave(LaneStage::Read);
        let count = picks.entries.len();
        let digests = match digests {
            Ok(SourceOutcome::Digests(digests)) if digests.len() == count => digests,
            Ok(_) => return Err(unexpected()),
            Err(error) if error.is_fatal() => return Err(error),
            Err(error) => vec![Err(error); count],
        };
        for (index, digest) in digests.into_iter().enumerate() {
            match digest {
                Ok(digest) => {
                    let listed = picks.entries[index].index as usize;
                    let path = from.path.join(picks.listing.name(listed))?;
                    let size_bytes = picks.listing.metadata(listed).size_bytes;
                    self.counters.source_read_bytes.add(size_bytes);
                    self.counters.bytes_kept.add(size_bytes);
                    self.hashed(&path, digest);
                }
                Err(error) if error.kind == ErrorKind::Unsupported && stored => {
                    self.hash_large(node, from, picks, index)?;
                }
                Err(error) => self.fail_pick(node, *origin, picks, (index as u32, at_source(error)))?,
            }
        }
        self.task_done(node);
        Ok(())
    }

    /// Adds a task to compute the digest of a large file, whose store keeps none.
    fn hash_large(
        &mut self,
        node: &Arc<DirectoryNode>,
        from: &Origin,
        picks: &Picks,
        index: usize,
    ) -> Result<()> {
        let listed = picks.entries[index].index as usize;
        let (name, metadata) = (picks.listing.name(listed), *picks.listing.metadata(listed));
        let target = node.target.join(picks.target_name.as_deref().unwrap_or(name))?;
        let tolerant = self.shared.setup.job.skip_unreadable;
        let source = SourceFile { root: from.root, path: from.path.join(name)?, metadata, tolerant };
        let draft = draft_numbers(&mut self.next_draft)();
        let how = LargeFileMode { kind: DraftKind::Sink, replaces: false, named: false, digest: true };
        let file = LargeFile::new(node.clone(), source, target, draft, how);
        node.hold(1);
        self.shared.queue.add(Vec::new(), Vec::new(), vec![Arc::new(file)]);
        Ok(())
    }

    /// Computes the value of one chunk of a large file.
    pub(super) fn hash_chunk(&mut self, file: &Arc<LargeFile>, reading: ChunkCursor) -> Result<()> {
        let extent = reading.chunk;
        let mut values = Values::new();
        for piece in extent.pieces() {
            let (content, _) = self.read_piece(file, piece, reading)?;
            values.push(piece_value(file.size_bytes(), piece.offset, content.bytes()));
            self.leave(LaneStage::Hash);
            self.recycle(content);
        }
        file.add_values(extent.offset, values.all());
        self.counters.bytes_kept.add(extent.length);
        let progress = file.count_done(1);
        self.end_file(file.clone(), progress)
    }

    /// Ends a large file after all of its chunks are done or given up.
    pub(super) fn end_hashed(&mut self, file: &Arc<LargeFile>) -> Result<()> {
        if !file.has_failed() {
            let ask = ExtendedAsk::default();
            match self.ask_source(SourceOp::Revalidate { file: file.source.clone(), ask }) {
                Err(error) if error.is_fatal() => return Err(error),
                Err(error) => fail(self.shared, self.counters, failure(&file.source.path, at_source(error))),
                Ok(_) => match file.digest() {
                    Some(digest) => self.hashed(&file.source.path, digest),
                    None => return Err(unexpected()),
                },
            }
        }
        self.abandoned(file);
        Ok(())
    }

    fn hashed(&self, path: &EntryPath, digest: Digest) {
        self.counters.entries_unchanged.add(1);
        self.shared.setup.observer.event(Event::Digest { path: path.as_bytes().to_vec(), digest });
    }
}
