//! One lane of a source: how each operation is performed.

use std::sync::Arc;

use hakobu_core::digest::Digest;
use hakobu_core::endpoint::{ListingPage, Picks, PieceBuffer, SourceFile, SourceOp, SourceOutcome};
use hakobu_core::entry::{EntryKind, EntryMetadata};
use hakobu_core::extent::Extent;
use hakobu_core::path::EntryPath;
use hakobu_core::tag::{TagKey, Tagger};
use hakobu_core::{Error, ErrorKind, Result};

use super::fetch::fetch;
use super::large::OneOpen;
use crate::common::future_lane::{LaneWork, PendingOperation};
use crate::common::time_steps::TimeSteps;
use crate::local::errno::{changed, place};
use crate::local::positioned::wrong_size;
use crate::sftp::list::{list_all, list_whole};
use crate::sftp::read_file;
use crate::sftp::requests::{attrs, data};
use crate::sftp::sftp_root::SftpRoot;

/// The state with which a lane of a source reads.
pub(crate) struct SftpSourceReader {
    pub(super) sftp_roots: Vec<Arc<SftpRoot>>,
    pub(super) steps: TimeSteps,
    pub(super) large: OneOpen,
}

impl LaneWork for SftpSourceReader {
    type Op = SourceOp;

    fn held_bytes(_operation: &SourceOp) -> usize {
        0
    }

    fn start(self: Arc<Self>, operation: SourceOp) -> PendingOperation<SourceOutcome> {
        Box::pin(async move { Some(self.answer(operation).await) })
    }
}

impl SftpSourceReader {
    fn sftp_root(&self, root: u16) -> Result<&Arc<SftpRoot>> {
        let missing = || Error::new(ErrorKind::Usage, "reading", format!("the source has no root {root}"));
        self.sftp_roots.get(usize::from(root)).ok_or_else(missing)
    }

    async fn answer(&self, operation: SourceOp) -> Result<SourceOutcome> {
        match operation {
            SourceOp::Stat { root, path, detail: _ } => {
                self.sftp_root(root)?.inspect(&path).await.map(SourceOutcome::Stat)
            }
            SourceOp::List { root, directories, budget, detail: _ } => {
                let listings =
                    list_all(self.sftp_root(root)?, directories, budget, |_| Ok(()), |_, _| ()).await;
                Ok(SourceOutcome::Listed(listings))
            }
            // The whole directory at once: a portion would have to discard parts that were requested in advance.
            SourceOp::Page { root, directory, .. } => {
                let listing = list_whole(self.sftp_root(root)?, &directory).await?;
                Ok(SourceOutcome::Page(ListingPage { listing, ..ListingPage::default() }))
            }
            SourceOp::ReadPack { root, directory, target, picks, from, ask: _, buffer } => {
                let sftp_root = self.sftp_root(root)?;
                let fetched =
                    fetch((sftp_root, &self.steps), (&directory, &target), (&picks, from), buffer).await;
                Ok(SourceOutcome::Pack(fetched))
            }
            SourceOp::Read { file, extent, buffer } => {
                self.read(&file, extent, buffer).await.map_err(|error| error.at(&file.path))
            }
            SourceOp::Revalidate { file, ask: _ } => {
                self.confirm(&file).await.map_err(|error| error.at(&file.path))
            }
            SourceOp::DigestPicks { root, directory, picks, key, .. } => {
                self.digests(self.sftp_root(root)?, &directory, &picks, key).await.map(SourceOutcome::Digests)
            }
            // Version 3 has no extended attributes, and no names of accounts.
            SourceOp::Extended { .. } => Ok(SourceOutcome::Extended { extended: None, losses: Vec::new() }),
            SourceOp::Names { accounts } => Ok(SourceOutcome::Names(vec![None; accounts.len()])),
            SourceOp::FindHole { .. }
            | SourceOp::ReadStream { .. }
            | SourceOp::Open { .. }
            | SourceOp::OpenPicks { .. } => {
                let words = "an sftp server cannot do that";
                Err(Error::new(ErrorKind::Unsupported, "working on the source", words))
            }
        }
    }

    /// Checks that a file is still the listed version.
    async fn confirm(&self, file: &Arc<SourceFile>) -> Result<SourceOutcome> {
        let sftp_root = self.sftp_root(file.root)?;
        let (connection, size_bytes) = (&sftp_root.server.connection, file.metadata.size_bytes);
        let open = self.large.open(sftp_root, file, &self.steps).await?;
        self.large.forget();
        // Reads beyond the end before checking the version, to distinguish a growing file from one with a wrong size.
        let more = connection.read(&open.handle, size_bytes, 1);
        let now = connection.look(&sftp_root.whole(&file.path));
        drop(open);
        let more = data(more, 1).await.map_err(|refusal| sftp_root.error("reading", refusal))?;
        match attrs(now).await.map_err(|refusal| sftp_root.error("looking at", refusal))? {
            Some(now) if !file.metadata.same_version(&now) => Err(changed("reading")),
            Some(_) if more.is_empty() => Ok(SourceOutcome::Extended { extended: None, losses: Vec::new() }),
            Some(_) => Err(wrong_size("reading", size_bytes + 1, size_bytes)),
            None => Err(changed("reading")),
        }
    }

    async fn digests(
        &self,
        sftp_root: &SftpRoot,
        directory: &EntryPath,
        picks: &Picks,
        key: Option<TagKey>,
    ) -> Result<Vec<Result<Digest>>> {
        sftp_root.check_way(directory).await?;
        let tagger = key.map(Tagger::new).transpose()?;
        let tagger = tagger.as_ref();
        let listing = &picks.listing;
        let name = |index: u32| (index as usize) < listing.len();
        if !picks.entries.iter().all(|pick| name(pick.index)) {
            return Err(Error::new(ErrorKind::Usage, "reading", "an entry that is not in the listing"));
        }
        let digest = |index: usize| {
            let (name, metadata): (&[u8], EntryMetadata) = (listing.name(index), *listing.metadata(index));
            let (whole, at) = (sftp_root.in_directory(directory, name), place(directory, name));
            async move {
                // Reading a symbolic link changes only its access time.
                let listed = Some(&metadata)
                    .filter(|metadata| matches!(metadata.kind, EntryKind::File | EntryKind::Symlink));
                read_file::digest((sftp_root, &whole), listed, tagger).await.map_err(|error| error.at(&at))
            }
        };
        Ok(read_file::at_once(picks.entries.iter().map(|pick| digest(pick.index as usize))).await)
    }

    /// Reads one piece.
    async fn read(
        &self,
        file: &Arc<SourceFile>,
        extent: Extent,
        mut buffer: PieceBuffer,
    ) -> Result<SourceOutcome> {
        let open = self.large.open(self.sftp_root(file.root)?, file, &self.steps).await?;
        open.read(file, extent, &mut buffer).await?;
        Ok(SourceOutcome::Read(buffer))
    }
}
