//! Checks if names with one inode number are names of one file.

use super::*;
use crate::engine::inodes::{FirstName, NameRelation};
use crate::job::Removal;
use crate::pack::PACKED_FILE_BYTES_MAX;

impl Worker<'_> {
    /// Makes entries of a source listing that share the inode number of a different file entries of their own.
    pub(super) fn check_inodes(&mut self, origin: &Origin, listing: &mut Listing) -> Result<()> {
        let job = self.shared.setup.job;
        if !job.hard_links || !self.shared.able.hard_links || job.removal == Removal::Remove {
            return Ok(());
        }
        // A store tells an identity that is no number to be used again, and each name has a time of its own.
        if !self.shared.setup.source.capabilities().inodes {
            return Ok(());
        }
        for index in 0..listing.len() {
            let metadata = *listing.metadata(index);
            let Some(inode) = metadata.inode else { continue };
            let place = (origin.root, &origin.path, listing.name(index));
            let differs = match self.shared.links.inodes.meet(inode, place, &metadata) {
                NameRelation::Agrees => false,
                NameRelation::Differs => true,
                NameRelation::Apart => {
                    if metadata.kind != EntryKind::Directory {
                        self.lose_link(&origin.path, listing.name(index))?;
                    }
                    false
                }
                NameRelation::Perhaps(first) => {
                    let (directory, name) = (origin.path.clone(), listing.name(index).to_vec());
                    let other = FirstName { root: origin.root, directory, name, metadata };
                    match metadata.kind {
                        EntryKind::File => match self.have_same_content(&first, &other)? {
                            Some(same) => !same,
                            None => {
                                self.lose_link(&origin.path, listing.name(index))?;
                                true
                            }
                        },
                        _ => false,
                    }
                }
            };
            if differs && let Some(metadata) = listing.metadata_mut(index) {
                // It may have other names nevertheless.
                (metadata.inode, metadata.links, metadata.uncertain) = (None, 1, true);
            }
        }
        Ok(())
    }

    /// Counts a name that may belong to another file. This cannot be decided, so it becomes a file of its own.
    fn lose_link(&self, directory: &EntryPath, name: &[u8]) -> Result<()> {
        if !self.shared.setup.job.mode.only_reads() {
            let example = directory.join(name)?.as_bytes().to_vec();
            let loss = Loss { what: LossKind::HardLinks, count: 1, at_target: false, example };
            self.shared.record.losses(vec![loss]);
        }
        Ok(())
    }

    /// Returns true if two files of the source have the same content, and `None` if one of them cannot be read.
    fn have_same_content(&mut self, one: &FirstName, other: &FirstName) -> Result<Option<bool>> {
        let (one, other) = (self.content_digest(one)?, self.content_digest(other)?);
        Ok(one.zip(other).map(|(one, other)| one == other))
    }

    fn content_digest(&mut self, file: &FirstName) -> Result<Option<Digest>> {
        if file.metadata.size_bytes > PACKED_FILE_BYTES_MAX {
            return match self.large_digest(file) {
                Err(error) if error.is_fatal() => Err(error),
                digest => Ok(digest.ok()),
            };
        }
        let mut listing = Listing::with_capacity(1);
        listing.push(&file.name, file.metadata)?;
        let entries = vec![Pick { index: 0, replaces: false }];
        let picks = Arc::new(Picks { listing: Arc::new(listing), entries, target_name: None });
        let (root, directory) = (file.root, file.directory.clone());
        match self.ask_source(SourceOp::DigestPicks { root, directory, picks, key: None, stored: false }) {
            Ok(SourceOutcome::Digests(mut digests)) => Ok(digests.pop().and_then(Result::ok)),
            Ok(_) => Err(unexpected()),
            Err(error) if error.is_fatal() => Err(error),
            Err(_) => Ok(None),
        }
    }

    /// Computes the digest of a file too large for a pack. The file must be the listed version before and after.
    fn large_digest(&mut self, file: &FirstName) -> Result<Digest> {
        let FirstName { root, directory, name, metadata } = file;
        let size_bytes = metadata.size_bytes;
        let path = directory.join(name)?;
        let source = Arc::new(SourceFile { root: *root, path, metadata: *metadata, tolerant: false });
        let mut forest = Forest::new(size_bytes);
        let all = Extent { offset: 0, length: size_bytes };
        for (index, piece) in all.pieces().enumerate() {
            let (content, _, unreadable) = self.read_quietly(&source, piece, ChunkCursor::only(all))?;
            let value = piece_value(size_bytes, piece.offset, content.bytes());
            self.recycle(content);
            if !unreadable.is_empty() {
                return Err(Error::new(ErrorKind::Io, "reading", "some of it cannot be read"));
            }
            forest.add(index as u64, value);
        }
        self.ask_source(SourceOp::Revalidate { file: source, ask: ExtendedAsk::default() })?;
        forest.digest().ok_or_else(unexpected)
    }
}
