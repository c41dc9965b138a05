//! A draft: a large file that several lanes write under a name that is left out of listings.

use std::collections::BTreeSet;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};

use futures_util::future::Shared as SharedFuture;
use hakobu_core::endpoint::{DraftKind, DraftParameters};
use hakobu_core::extent::UNKNOWN_BYTES;
use hakobu_core::path::EntryPath;
use hakobu_core::tag::Tagger;
use hakobu_core::{Error, ErrorKind, Result};

use crate::common::range_set::RangeSet;
use crate::sftp::wire::Handle;

/// A file that is not yet visible under its final name, or one that is only compared.
pub(crate) struct SftpDraft {
    /// The final path.
    pub(crate) path: EntryPath,
    /// The absolute path of the draft, or of the file that is compared.
    pub(crate) whole: Vec<u8>,
    pub(crate) kind: DraftKind,
    /// True if it will be sparse, so that its size does not tell the space that it needs.
    pub(crate) sparse: bool,
    /// The tagger for values of pieces, if these are tags.
    pub(crate) tagger: Option<Tagger>,
    progress: Mutex<SftpDraftProgress>,
}

struct SftpDraftProgress {
    /// The size in bytes; `UNKNOWN_BYTES` for a stream that has not ended.
    size_bytes: u64,
    taken: RangeSet,
    taken_bytes: u64,
    open: bool,
    failed: Option<Error>,
}

impl SftpDraft {
    pub(crate) fn new(begin: &DraftParameters, whole: Vec<u8>, size_bytes: u64) -> Result<Self> {
        let progress = SftpDraftProgress {
            size_bytes,
            taken: RangeSet::default(),
            taken_bytes: 0,
            open: true,
            failed: None,
        };
        let (path, kind, sparse) = (begin.path.clone(), begin.kind, begin.sparse);
        let tagger = begin.tag_key.map(Tagger::new).transpose()?;
        Ok(Self { path, whole, kind, sparse, tagger, progress: Mutex::new(progress) })
    }

    fn progress(&self) -> MutexGuard<'_, SftpDraftProgress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn is_open(&self) -> bool {
        self.progress().open
    }

    /// Takes a range for writing. Each byte can be taken once.
    pub(crate) fn take(&self, offset: u64, length: u64) -> Result<()> {
        let mut progress = self.progress();
        let end = offset.checked_add(length).filter(|end| *end <= progress.size_bytes);
        let Some(end) = end.filter(|_| self.kind != DraftKind::Compare) else {
            return Err(Error::new(ErrorKind::Protocol, "writing", "bytes beyond the end of the draft"));
        };
        if length > 0 && !progress.taken.take(offset, end) {
            return Err(Error::new(ErrorKind::Protocol, "writing", "bytes that were written before"));
        }
        progress.taken_bytes += length;
        Ok(())
    }

    /// Sets the size of a stream that has ended.
    pub(crate) fn set_size(&self, size_bytes: u64) -> Result<()> {
        let mut progress = self.progress();
        if progress.size_bytes != UNKNOWN_BYTES || progress.taken.end() > size_bytes {
            return Err(Error::new(ErrorKind::Protocol, "ending a stream", "it has another size"));
        }
        progress.size_bytes = size_bytes;
        Ok(())
    }

    pub(crate) fn size_bytes(&self) -> u64 {
        self.progress().size_bytes
    }

    /// Stores the error of a failed write.
    pub(crate) fn fail(&self, error: Error) {
        self.progress().failed.get_or_insert(error);
    }

    pub(crate) fn failure(&self) -> Option<Error> {
        self.progress().failed.clone()
    }

    /// Closes a draft that is to be finished. Returns its size in bytes.
    ///
    /// # Errors
    /// If bytes are missing, a write has failed, or it is closed.
    pub(crate) fn complete(&self) -> Result<u64> {
        let mut progress = self.progress();
        if !progress.open {
            return Err(Error::new(ErrorKind::NotFound, "finishing", "the draft is closed"));
        }
        progress.open = false;
        if let Some(error) = &progress.failed {
            return Err(error.clone());
        }
        if progress.taken_bytes != progress.size_bytes {
            return Err(Error::new(ErrorKind::Corrupt, "finishing", "some bytes were never written"));
        }
        Ok(progress.size_bytes)
    }

    /// Closes the draft, whatever was written.
    pub(crate) fn close(&self) {
        self.progress().open = false;
    }
}

/// The opening of a file, for which all writers wait.
pub(crate) type DraftOpening = SharedFuture<Pin<Box<dyn Future<Output = Result<Handle>> + Send>>>;

/// A draft that one lane has open.
pub(crate) struct OpenDraft {
    pub(crate) handle: DraftOpening,
    under_way: Mutex<UnderWay>,
}

#[derive(Default)]
struct UnderWay {
    next: u64,
    open: BTreeSet<u64>,
    waiting: Vec<Waker>,
}

impl OpenDraft {
    pub(crate) fn new(handle: DraftOpening) -> Self {
        Self { handle, under_way: Mutex::default() }
    }

    fn under_way(&self) -> MutexGuard<'_, UnderWay> {
        self.under_way.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records that a write has begun, and returns its number.
    pub(crate) fn begin(&self) -> u64 {
        let mut under_way = self.under_way();
        under_way.next += 1;
        let number = under_way.next;
        under_way.open.insert(number);
        number
    }

    /// Records that a write has ended, whatever its result.
    pub(crate) fn end(&self, number: u64) {
        let mut under_way = self.under_way();
        under_way.open.remove(&number);
        under_way.waiting.drain(..).for_each(Waker::wake);
    }

    /// Waits until all writes up to this one have ended.
    pub(crate) async fn ended(&self, number: u64) {
        poll_fn(|context| {
            let mut under_way = self.under_way();
            if under_way.open.first().is_none_or(|first| *first > number) {
                return Poll::Ready(());
            }
            under_way.waiting.push(context.waker().clone());
            Poll::Pending
        })
        .await;
    }

    /// Waits until all writes that have begun have ended.
    pub(crate) async fn settled(&self) {
        let last = self.under_way().next;
        self.ended(last).await;
    }
}
