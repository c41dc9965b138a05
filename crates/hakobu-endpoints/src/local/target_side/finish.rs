//! The end of drafts: made visible, flushed in place, or discarded.

use std::sync::atomic::Ordering;

use hakobu_core::endpoint::DraftKind;
use hakobu_core::entry::Attributes;
use hakobu_core::extended::ExtendedRef;
use hakobu_core::{Error, ErrorKind, Result};
use hakobu_sys::block::reread_partitions;
use rustix::fd::AsFd;
use rustix::fs::{fsync, ftruncate, renameat};

use super::attributes::{EntryLosses, NewFile};
use super::draft::LocalDraft;
use super::shared::LocalTargetState;
use super::stable;
use crate::local::draft_mark::{mark, unmark};
use crate::local::errno::{creation_fault, fault};

impl LocalDraft {
    /// Checks that the draft is complete, sets its attributes and makes it visible. It must be closed. An error of an
    /// earlier write is returned here.
    pub(crate) fn finish(
        &self,
        shared: &LocalTargetState,
        attributes: &Attributes,
        extended: Option<ExtendedRef<'_>>,
        lost: &mut EntryLosses,
    ) -> Result<()> {
        let done = self.check().and_then(|()| self.check_complete()).and_then(|()| match self.kind {
            DraftKind::File | DraftKind::Update => self.publish(shared, (attributes, extended), lost),
            DraftKind::InPlace => self.settle(shared, (attributes, extended), lost),
            DraftKind::Device => self.release(shared),
            DraftKind::Sink | DraftKind::Compare | DraftKind::Stream => Ok(()),
        });
        match &done {
            Ok(()) => self.forget_journal(shared),
            Err(_) => self.discard(self.is_anothers(shared)),
        }
        done
    }

    /// Returns true if another run may have the draft by now: it is one that several write, and the lease is over.
    pub(crate) fn is_anothers(&self, shared: &LocalTargetState) -> bool {
        self.is_joined && shared.grant.check_time().is_err()
    }

    fn check_complete(&self) -> Result<()> {
        let missing_bytes = self.missing_bytes();
        if missing_bytes == 0 {
            return Ok(());
        }
        let words = format!("{missing_bytes} of {} bytes were not written", self.size_bytes());
        Err(Error::new(ErrorKind::Protocol, "finishing", words))
    }

    fn publish(
        &self,
        shared: &LocalTargetState,
        wanted: (&Attributes, Option<ExtendedRef<'_>>),
        lost: &mut EntryLosses,
    ) -> Result<()> {
        let Some(draft_name) = &self.draft_name else { return Ok(()) };
        if self.holes.load(Ordering::Acquire) || self.stale.load(Ordering::Acquire) {
            ftruncate(&self.file, self.size_bytes()).map_err(|errno| fault("setting the length", errno))?;
        }
        self.set_attributes_of_draft(shared, wanted, lost)?;
        let must = shared.before_naming() || self.replaces || self.size_bytes() >= stable::FLUSHED_FROM_BYTES;
        stable::flush(&self.file, self.stability, must, shared.options.durable)?;
        stable::close_another(&self.file, self.stability)?;
        if !self.replaces {
            shared.makes_entry();
        }
        shared.grant.check_time()?;
        renameat(&self.directory, draft_name.as_bytes(), &self.directory, &*self.name)
            .map_err(|errno| creation_fault("renaming into place", errno, &self.directory))?;
        self.pending.store(false, Ordering::Release);
        // A crash before this leaves a complete file with an attribute too many, which the next run removes. A draft
        // without a mark would never be recognised.
        self.unmark()
    }

    /// Ends a file that was changed in place.
    fn settle(
        &self,
        shared: &LocalTargetState,
        wanted: (&Attributes, Option<ExtendedRef<'_>>),
        lost: &mut EntryLosses,
    ) -> Result<()> {
        ftruncate(&self.file, self.size_bytes()).map_err(|errno| fault("setting the length", errno))?;
        self.flush_all(shared)?;
        self.set_attributes(shared, wanted, lost)?;
        self.flush_all(shared)?;
        stable::close_another(&self.file, self.stability)
    }

    /// Sets the attributes while the file is still marked as a draft. The mark is removed earlier only if the file's
    /// mode would prevent that later, or if the mark takes the space of an attribute.
    fn set_attributes_of_draft(
        &self,
        shared: &LocalTargetState,
        wanted: (&Attributes, Option<ExtendedRef<'_>>),
        lost: &mut EntryLosses,
    ) -> Result<()> {
        if wanted.0.mode & 0o200 == 0 && !rustix::process::geteuid().is_root() {
            self.unmark()?;
        }
        let before = lost.len();
        self.set_attributes(shared, wanted, lost)?;
        if lost.len() > before {
            self.unmark()?;
            lost.truncate(before);
            self.set_attributes(shared, wanted, lost)?;
            if lost.len() > before {
                // The loss was not caused by the mark.
                mark(&self.file);
            }
        }
        Ok(())
    }

    fn unmark(&self) -> Result<()> {
        unmark(&self.file).map_err(|errno| fault("setting the attributes", errno))
    }

    fn set_attributes(
        &self,
        shared: &LocalTargetState,
        (attributes, extended): (&Attributes, Option<ExtendedRef<'_>>),
        lost: &mut EntryLosses,
    ) -> Result<()> {
        // There are few large files, so each is checked for inherited attributes.
        let new = NewFile { is: self.owner, has_mode: false, is_bare: false };
        shared
            .policy
            .settle_file(self.file.as_fd(), new, attributes, extended, lost)
            .map_err(|errno| fault("setting the attributes", errno))
    }

    /// Ends a device: flushes everything, and makes the kernel reread the partition table.
    fn release(&self, shared: &LocalTargetState) -> Result<()> {
        self.flush_all(shared)?;
        // A failure is acceptable: a partition has no table, and a partition in use keeps its old boundaries.
        let _ = reread_partitions(&self.file);
        Ok(())
    }

    fn flush_all(&self, shared: &LocalTargetState) -> Result<()> {
        if shared.options.durable {
            fsync(&self.file).map_err(|errno| fault("flushing to stable storage", errno))?;
        }
        Ok(())
    }

    /// Removes the journal of a complete draft, unless a part must be retried.
    fn forget_journal(&self, shared: &LocalTargetState) {
        if self.kind == DraftKind::Device && self.gaps.load(Ordering::Acquire) {
            self.keep();
            return;
        }
        if let Some(journal) = self.journal() {
            journal.remove();
        }
        self.forget_shared_journal();
        if let (Some(disk), Some(state)) = (&self.disk, &shared.options.state) {
            state.end(disk);
        }
    }
}
