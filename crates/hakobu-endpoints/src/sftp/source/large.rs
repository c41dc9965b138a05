//! Large files: each is opened once per lane, and its pieces are read on request, many at a time.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::future::{FutureExt, Shared};
use hakobu_core::endpoint::{PieceBuffer, SourceFile};
use hakobu_core::entry::EntryKind;
use hakobu_core::extent::{Extent, PIECE_BYTES};
use hakobu_core::{Error, ErrorKind, Result};

use crate::common::time_steps::TimeSteps;
use crate::local::errno::changed;
use crate::local::positioned::wrong_size;
use crate::sftp::read_file::check_version;
use crate::sftp::requests::{attrs, data};
use crate::sftp::sftp_root::SftpRoot;
use crate::sftp::wire::Handle;

/// A large file that stays open until nobody reads it any more.
pub(super) struct SftpOpenFile {
    sftp_root: Arc<SftpRoot>,
    pub(super) handle: Handle,
}

/// The opening of a file, for which all its readers wait.
type SourceOpening = Shared<Pin<Box<dyn Future<Output = Result<Arc<SftpOpenFile>>> + Send>>>;

/// The large file that a lane reads.
#[derive(Default)]
pub(super) struct OneOpen(Mutex<Option<(Arc<SourceFile>, SourceOpening)>>);

impl OneOpen {
    /// Returns the file, which is opened unless it is open or being opened. A failed opening is retried.
    pub(super) fn open(
        &self,
        sftp_root: &Arc<SftpRoot>,
        file: &Arc<SourceFile>,
        steps: &TimeSteps,
    ) -> SourceOpening {
        let mut open = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((is_open, opening)) = &*open
            && Arc::ptr_eq(is_open, file)
            && !matches!(opening.peek(), Some(Err(_)))
        {
            return opening.clone();
        }
        let (sftp_root, steps, wanted) = (Arc::clone(sftp_root), steps.clone(), Arc::clone(file));
        let opening: SourceOpening =
            async move { SftpOpenFile::open(sftp_root, &wanted, &steps).await.map(Arc::new) }
                .boxed()
                .shared();
        *open = Some((Arc::clone(file), opening.clone()));
        opening
    }

    /// Forgets the file. It is closed once all reads of it have ended.
    pub(super) fn forget(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

impl SftpOpenFile {
    /// Opens a file, which must be the listed version.
    async fn open(sftp_root: Arc<SftpRoot>, file: &SourceFile, steps: &TimeSteps) -> Result<Self> {
        steps.wait(&file.metadata);
        let (connection, whole) = (&sftp_root.server.connection, sftp_root.whole(&file.path));
        let (parent, _) = file.path.split_last().unwrap_or_default();
        sftp_root.check_way(&parent).await?;
        let glance = sftp_root.glance(&parent);
        let looked = connection.look(&whole);
        let opened = connection.open_to_read(&whole).await;
        let glanced = sftp_root.glanced(&parent, glance).await;
        let found = attrs(looked).await.map_err(|refusal| sftp_root.error("opening", refusal));
        let handle = opened.map_err(|refusal| sftp_root.error("opening", refusal))?;
        let opened = Self { sftp_root: Arc::clone(&sftp_root), handle };
        glanced?;
        if found?.is_none_or(|found| found.kind != EntryKind::File) {
            return Err(changed("opening"));
        }
        check_version(&opened.sftp_root, &opened.handle, &file.metadata).await?;
        Ok(opened)
    }

    /// Reads one piece.
    pub(super) async fn read(
        &self,
        file: &SourceFile,
        extent: Extent,
        buffer: &mut PieceBuffer,
    ) -> Result<()> {
        let length = usize::try_from(extent.length).unwrap_or(usize::MAX);
        if extent.length > PIECE_BYTES {
            return Err(Error::new(ErrorKind::Usage, "reading", "more than one piece"));
        }
        let connection = &self.sftp_root.server.connection;
        let part_bytes = part_bytes(self.sftp_root.server.read_bytes).min(length).max(1);
        let ask = |begin: usize, end: usize| {
            connection.read(&self.handle, extent.offset + begin as u64, end - begin)
        };
        let parts = (0..length).step_by(part_bytes).map(|begin| (begin, length.min(begin + part_bytes)));
        let parts: Vec<_> = parts.map(|(begin, end)| (begin, end, ask(begin, end))).collect();
        let mut filled = 0;
        for (begin, end, mut answer) in parts {
            loop {
                let part = data(answer, end - filled.max(begin)).await;
                let part = part.map_err(|refusal| self.sftp_root.error("reading", refusal))?;
                let space = buffer.room().get_mut(filled..filled + part.len());
                space.ok_or_else(|| changed("reading"))?.copy_from_slice(&part);
                filled += part.len();
                // A server may return less than requested, so the rest of the part is requested again.
                if filled == end || part.is_empty() {
                    break;
                }
                answer = ask(filled, end);
            }
            if filled < end {
                break;
            }
        }
        buffer.set_read(extent.offset, filled);
        if filled == length {
            return Ok(());
        }
        // Determines whether the file was truncated or never had its reported size.
        check_version(&self.sftp_root, &self.handle, &file.metadata).await?;
        Err(wrong_size("reading", extent.offset + filled as u64, file.metadata.size_bytes))
    }
}

impl Drop for SftpOpenFile {
    fn drop(&mut self) {
        drop(self.sftp_root.server.connection.close(&self.handle));
    }
}

/// Returns the length in bytes of the parts of a piece. All are equal, and none exceeds the server's limit.
fn part_bytes(max: usize) -> usize {
    let piece = PIECE_BYTES as usize;
    piece.div_ceil(piece.div_ceil(max.max(1)))
}
