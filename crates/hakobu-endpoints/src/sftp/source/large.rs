//! Large files: one piece after another, with those that follow under way already.

use std::collections::VecDeque;

use hakobu_core::endpoint::{PieceBuffer, SourceFile};
use hakobu_core::entry::Kind;
use hakobu_core::extent::{CHUNK_BYTES, Extent, PIECE_BYTES};
use hakobu_core::path::EntryPath;
use hakobu_core::{Error, ErrorKind, Result};

use crate::common::time_steps::TimeSteps;
use crate::local::fault::changed;
use crate::local::positioned::wrong_size;
use crate::sftp::connection::Answer;
use crate::sftp::reading::check_version;
use crate::sftp::requests::{attrs, data};
use crate::sftp::site::Site;
use crate::sftp::wire::Handle;

/// Files up to this size are read by one lane alone, which may ask beyond the chunk at hand.
const ALONE_BYTES: u64 = 2 * CHUNK_BYTES;
/// How much is asked for ahead.
const AHEAD_BYTES: u64 = CHUNK_BYTES;

/// A large file that is open.
pub(super) struct LargeReader {
    pub(super) root: u16,
    pub(super) path: EntryPath,
    pub(super) handle: Handle,
    /// What has been asked for, in order: where, how much, the answer.
    ahead: VecDeque<(u64, usize, Answer)>,
    /// Where the next question begins.
    next: u64,
}

impl LargeReader {
    /// Opens a file, which has to be as it was listed.
    pub(super) async fn open(site: &Site, file: &SourceFile, steps: &TimeSteps) -> Result<Self> {
        steps.wait(&file.metadata);
        let (connection, whole) = (&site.server.connection, site.whole(&file.path));
        let (parent, _) = file.path.split_last().unwrap_or_default();
        site.check_way(&parent).await?;
        let glance = site.glance(&parent);
        let looked = connection.look(&whole);
        let opened = connection.open_to_read(&whole).await;
        let glanced = site.glanced(&parent, glance).await;
        let found = attrs(looked).await.map_err(|refusal| site.error("opening", refusal));
        let handle = opened.map_err(|refusal| site.error("opening", refusal))?;
        let checked = match (glanced, found) {
            (Ok(()), Ok(Some(found))) if found.kind == Kind::File => {
                check_version(site, &handle, &file.metadata).await
            }
            (Ok(()), Ok(_)) => Err(changed("opening")),
            (Err(error), _) | (_, Err(error)) => Err(error),
        };
        if let Err(error) = checked {
            drop(connection.close(&handle));
            return Err(error);
        }
        let (root, path) = (file.root, file.path.clone());
        Ok(Self { root, path, handle, ahead: VecDeque::new(), next: 0 })
    }

    /// Reads one piece.
    pub(super) async fn read(
        &mut self,
        site: &Site,
        file: &SourceFile,
        extent: Extent,
        buffer: &mut PieceBuffer,
    ) -> Result<()> {
        if extent.length > PIECE_BYTES {
            return Err(Error::new(ErrorKind::Usage, "reading", "more than one piece"));
        }
        if self.ahead.front().is_none_or(|(offset, ..)| *offset != extent.offset) {
            self.ahead.clear();
            self.next = extent.offset;
        }
        let size_bytes = file.metadata.size_bytes;
        let until = match size_bytes <= ALONE_BYTES {
            true => extent.offset + AHEAD_BYTES,
            // What lies beyond the chunk is another lane's.
            false => extent.offset / CHUNK_BYTES * CHUNK_BYTES + CHUNK_BYTES,
        };
        self.ask(site, until.min(size_bytes).max(extent.end()), extent);
        let (room, mut filled) = (buffer.room(), 0);
        while filled < extent.length as usize {
            let Some((_, length, answer)) = self.ahead.pop_front() else { break };
            let part = data(answer, length).await.map_err(|refusal| site.error("reading", refusal))?;
            let end = filled + part.len();
            let space = room.get_mut(filled..end).ok_or_else(|| changed("reading"))?;
            space.copy_from_slice(&part);
            filled = end;
            if part.len() < length {
                // A server may give less than it was asked for: what follows is asked for anew.
                self.ahead.clear();
                if part.is_empty() {
                    break;
                }
                self.next = extent.offset + filled as u64;
                self.ask(site, extent.end(), extent);
            }
        }
        buffer.set_read(extent.offset, filled);
        if filled as u64 == extent.length {
            return Ok(());
        }
        // Whether it has been cut short, or never had its size.
        check_version(site, &self.handle, &file.metadata).await?;
        Err(wrong_size("reading", extent.offset + filled as u64, size_bytes))
    }

    /// Asks for all up to a place, in parts of which none lies in two pieces.
    fn ask(&mut self, site: &Site, until: u64, extent: Extent) {
        let part_bytes = part_bytes(site.server.read_bytes);
        while self.next < until {
            // Pieces begin at multiples of their size, or where the file was asked for out of the order.
            let piece_end = extent.offset + ((self.next - extent.offset) / PIECE_BYTES + 1) * PIECE_BYTES;
            let length = part_bytes.min(piece_end - self.next).min(until - self.next);
            let answer = site.server.connection.read(&self.handle, self.next, length as usize);
            self.ahead.push_back((self.next, length as usize, answer));
            self.next += length;
        }
    }
}

/// The length of parts of a piece, all equal, of which none is longer than the server gives.
fn part_bytes(max: usize) -> u64 {
    PIECE_BYTES.div_ceil(PIECE_BYTES.div_ceil(max as u64))
}
