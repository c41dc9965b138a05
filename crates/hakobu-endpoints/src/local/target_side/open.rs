//! The begin of drafts: new files, sinks, and files and devices that are written in place.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};

use hakobu_core::digest::{Digest, PieceHasher, chunk_value};
use hakobu_core::disk::DeviceIdentity;
use hakobu_core::endpoint::{DraftKind, DraftParameters, Earlier};
use hakobu_core::entry::EntryKind;
use hakobu_core::extent::{CHUNK_BYTES, Extent, UNKNOWN_BYTES};
use hakobu_core::path::{EntryPath, lossy};
use hakobu_core::tag::Tagger;
use hakobu_core::units::format_lack;
use hakobu_core::zeros::ZEROS;
use hakobu_core::{Error, ErrorKind, Result};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{
    FallocateFlags, FlockOperation, Mode, OFlags, fallocate, flock, fstat, fstatvfs, ftruncate,
    ioctl_ficlone, major, minor, openat,
};
use rustix::io::Errno;

use super::attributes::Owner;
use super::directories::Directory;
use super::draft::LocalDraft;
use super::shared::LocalTargetState;
use super::stable::note_change;
use super::state::StateDirectory;
use crate::block::inspect::{KernelDirectories, identity_of, loop_device_of};
use crate::local::aligned::{AlignedBuffer, open_direct};
use crate::local::draft_file::{create_draft, hold};
use crate::local::draft_mark::mark;
use crate::local::draft_name::{DraftName, JOURNAL};
use crate::local::errno::fault;
use crate::local::file_system;
use crate::local::free_space::free_bytes;
use crate::local::journal::{
    Journal, JournalSubject, TARGET_SAMPLES_MAX, left, place_of_file, remove, remove_others, samples, told,
};
use crate::local::metadata::{self, keep_device};
use crate::local::ownership::is_ours;
use crate::local::positioned::{has_more, wrong_size};

/// The devices that discard content: null, zero and full.
const SINKS: [(u32, u32); 3] = [(1, 3), (1, 5), (1, 7)];
/// The operation named in errors.
const OPENING_DEVICE: &str = "opening the device";

impl LocalDraft {
    /// Begins a draft. `outstanding_bytes` is the number of bytes that other drafts of this target still have to write.
    pub(crate) fn begin(
        shared: &LocalTargetState,
        directory: &mut Directory,
        name: &[u8],
        begin: &DraftParameters,
        outstanding_bytes: u64,
    ) -> Result<Self> {
        if matches!(begin.kind, DraftKind::Compare | DraftKind::InPlace | DraftKind::Update) {
            shared.refuse_device(&directory.fd, name)?;
        }
        let mut draft = match begin.kind {
            DraftKind::File | DraftKind::Update => {
                Self::file(shared, directory, name, begin, outstanding_bytes)?
            }
            DraftKind::Sink => Self::sink(directory, name, begin)?,
            DraftKind::Device => Self::device(shared, directory, name, begin)?,
            DraftKind::InPlace => Self::in_place(directory, name, begin)?,
            DraftKind::Compare => Self::compare(shared, directory, name, begin)?,
            DraftKind::Stream => Self::stream(shared, directory, name, begin)?,
        };
        draft.stability = directory.stability;
        if draft.kind == DraftKind::InPlace && shared.options.durable {
            note_change(&draft.file, draft.stability);
        }
        draft.tagger = begin.tag_key.map(Tagger::new).transpose()?;
        draft.verify_medium =
            begin.verify_medium && !matches!(draft.kind, DraftKind::Sink | DraftKind::Stream);
        if draft.verify_medium && draft.direct.is_none() {
            // A file is read back through this descriptor as well.
            draft.direct = open_direct(&draft.file, OFlags::RDWR).filter(|_| !draft.kind.is_new_file());
        }
        Ok(draft)
    }

    /// Begins a file, or resumes one that an earlier run has left.
    fn file(
        shared: &LocalTargetState,
        directory: &mut Directory,
        name: &[u8],
        begin: &DraftParameters,
        outstanding_bytes: u64,
    ) -> Result<Self> {
        let replaces = check_place(shared, directory, name, &begin.path)?;
        let old = (begin.kind == DraftKind::Update).then(|| open_old(directory, name)).flatten();
        let draft_name = shared.draft_name(0, &directory.path, name);
        let journal_name = shared.draft_name(JOURNAL, &directory.path, name);
        shared.look_for_earlier(directory, &draft_name, begin.version.is_some());
        match (open_earlier(directory, &draft_name), begin.version) {
            (Some(file), Some(version)) => {
                hold(&file);
                let subject =
                    JournalSubject { version, size_bytes: begin.size_bytes, place: place_of_file(&file)? };
                let owner = directory
                    .owner_of_new(&file, 0o600)
                    .map_err(|errno| fault("opening the draft", errno))?;
                let mut draft =
                    Self::new((&begin.path, name), begin.kind, &directory.fd, file, owner, begin.size_bytes);
                (draft.draft_name, draft.sparse) = (Some(draft_name), begin.sparse);
                draft.replaces = replaces;
                // The draft stays if resuming fails with an error. An unusable draft is removed and created anew.
                if draft.go_on(&directory.fd, journal_name, &subject, begin)? {
                    draft.pending.store(true, Ordering::Release);
                    draft.stale.store(true, Ordering::Release);
                    draft.goes_on = true;
                    draft.old = old;
                    return Ok(draft);
                }
                discard(&directory.fd, draft_name, &draft.file);
            }
            (Some(file), None) => discard(&directory.fd, draft_name, &file),
            (None, _) => {}
        }
        remove(&directory.fd, journal_name);
        // The amount of data in a sparse file is unknown beforehand, as is the amount that can be shared.
        if !begin.sparse && old.is_none() {
            check_room(directory, begin.size_bytes, outstanding_bytes)?;
        }
        let file = create_draft(directory.fd.as_fd(), &draft_name)?;
        hold(&file);
        if !is_ours(&file) {
            shared.has_private_drafts.store(false, Ordering::Relaxed);
        }
        let owner = directory.owner_of_new(&file, 0o600).map_err(|errno| fault("making the file", errno))?;
        // From here on the draft removes its file when it is dropped.
        let mut draft =
            Self::new((&begin.path, name), begin.kind, &directory.fd, file, owner, begin.size_bytes);
        (draft.draft_name, draft.sparse) = (Some(draft_name), begin.sparse);
        draft.replaces = replaces;
        draft.pending.store(true, Ordering::Release);
        // Mark it while it is empty, so that it is recognised as a draft however the run ends.
        mark(&draft.file);
        if let Some(version) = begin.version {
            let subject =
                JournalSubject { version, size_bytes: begin.size_bytes, place: place_of_file(&draft.file)? };
            draft.journal = Some(Mutex::new(Journal::begin(&directory.fd, journal_name, &subject)?));
        }
        if let Some(old) = old {
            draft.shares_old = draft.shares(&old)?;
            if !begin.sparse && !draft.shares_old {
                check_room(directory, begin.size_bytes, outstanding_bytes)?;
            }
            draft.old = Some(old);
        }
        draft.allocated = !begin.sparse && !draft.shares_old && draft.preallocate()?;
        Ok(draft)
    }

    /// Shares all blocks of the file that the draft replaces. Returns false if the file system does not support that.
    fn shares(&self, old: &OwnedFd) -> Result<bool> {
        self.stale.store(true, Ordering::Release);
        match ioctl_ficlone(&self.file, old) {
            Ok(()) => Ok(true),
            Err(errno @ (Errno::NOSPC | Errno::DQUOT)) => Err(fault("making the file", errno)),
            Err(_) => Ok(false),
        }
    }

    /// Allocates space for the whole file where that is known to pay off: on ext4, writing then takes 40 % less CPU;
    /// tmpfs gains nothing, and others were not measured.
    fn preallocate(&self) -> Result<bool> {
        if self.size_bytes() < CHUNK_BYTES || file_system::kind_of(self.file.as_fd()) != file_system::EXT4 {
            return Ok(false);
        }
        match fallocate(&self.file, FallocateFlags::KEEP_SIZE, 0, self.size_bytes()) {
            Err(errno @ (Errno::NOSPC | Errno::DQUOT)) => Err(fault("making the file", errno)),
            allocated => Ok(allocated.is_ok()),
        }
    }

    /// Opens a device that discards what is written to it. No other device is ever opened here.
    fn sink(directory: &Directory, name: &[u8], begin: &DraftParameters) -> Result<Self> {
        let during = OPENING_DEVICE;
        let failed = |errno| fault(during, errno);
        let refused = || Error::new(ErrorKind::Refused, during, "only null, zero and full are written to");
        let found = metadata::of_name(&directory.fd, name).map_err(failed)?;
        if found.kind != EntryKind::CharDevice {
            return Err(refused());
        }
        // Opening a device may have an effect, so its number is checked first.
        let entry =
            openat(&directory.fd, name, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty());
        check_sink(&entry.map_err(failed)?).map_err(failed)?.then_some(()).ok_or_else(refused)?;
        let flags = OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::NOCTTY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = openat(&directory.fd, name, flags, Mode::empty()).map_err(failed)?;
        check_sink(&file).map_err(failed)?.then_some(()).ok_or_else(refused)?;
        let owner = Owner { uid: found.uid, gid: found.gid };
        Ok(Self::new((&begin.path, name), begin.kind, &directory.fd, file, owner, begin.size_bytes))
    }

    /// Opens the block device that the grant names.
    fn device(
        shared: &LocalTargetState,
        directory: &Directory,
        name: &[u8],
        begin: &DraftParameters,
    ) -> Result<Self> {
        metadata::check_kind(shared.files_only, EntryKind::BlockDevice, OPENING_DEVICE)?;
        let (granted, only_goes_on) = shared.grant.device(&begin.path)?;
        // For a stream, this shows only during writing.
        let least_bytes = if begin.size_bytes == UNKNOWN_BYTES { 0 } else { begin.size_bytes };
        let (file, identity) = open_exclusively(directory.fd.as_fd(), name, granted, least_bytes)?;
        let id = &identity.place_id;
        let found = fstat(&file).map_err(|errno| fault(OPENING_DEVICE, errno))?;
        let owner = Owner { uid: found.st_uid, gid: found.st_gid };
        let mut draft =
            Self::new((&begin.path, name), begin.kind, &directory.fd, file, owner, begin.size_bytes);
        draft.stale.store(true, Ordering::Release);
        draft.direct = open_direct(&draft.file, OFlags::RDWR);
        draft.disk = Some(identity.clone());
        let journal_name = DraftName::new(&shared.key, JOURNAL, b"device", id.as_bytes());
        let place = *blake3::hash(id.as_bytes()).as_bytes();
        let journals = shared.options.state.as_ref().map(StateDirectory::open).transpose();
        // If there is nothing to resume, a missing state directory is no error.
        let journals = if begin.version.is_some() { journals? } else { journals.unwrap_or_default() };
        let subject =
            begin.version.map(|version| JournalSubject { version, size_bytes: begin.size_bytes, place });
        let went_on = match (&subject, &journals) {
            (Some(subject), Some(journals)) => draft.go_on(journals, journal_name, subject, begin)?,
            _ => false,
        };
        if only_goes_on && !went_on {
            let chunks = journals.as_ref().and_then(|journals| left(journals, journal_name, &place));
            let samples = chunks.map(|chunks| samples(&chunks, TARGET_SAMPLES_MAX)).unwrap_or_default();
            if samples.is_empty() || !draft.still_has(&samples)? {
                return Err(not_what_was_left(&identity));
            }
        }
        let (Some(journals), Some(state)) = (journals, &shared.options.state) else { return Ok(draft) };
        // Data copied by other jobs is overwritten now.
        remove_others(&journals, journal_name, &place);
        let known = state.begin(&identity);
        if let Some(subject) = subject {
            known?;
            if !went_on {
                draft.journal = Some(Mutex::new(Journal::begin(&journals, journal_name, &subject)?));
            }
        }
        Ok(draft)
    }

    /// Opens a file that is changed in place.
    fn in_place(directory: &Directory, name: &[u8], begin: &DraftParameters) -> Result<Self> {
        let during = "opening the file";
        let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = openat(&directory.fd, name, flags, Mode::empty()).map_err(|errno| fault(during, errno))?;
        let found = metadata::of_file(&file).map_err(|errno| fault(during, errno))?;
        if found.kind != EntryKind::File {
            return Err(fault(during, Errno::ISDIR));
        }
        check_behind_loop(&file, during)?;
        flock(&file, FlockOperation::NonBlockingLockExclusive).map_err(|_| {
            Error::new(ErrorKind::Locked, during, "another program holds its lock; wait until it has ended")
        })?;
        let owner = Owner { uid: found.uid, gid: found.gid };
        let draft = Self::new((&begin.path, name), begin.kind, &directory.fd, file, owner, begin.size_bytes);
        draft.stale.store(true, Ordering::Release);
        Ok(draft)
    }

    /// Adds the journal of a file that is changed in place.
    pub(super) fn journal_in_place(
        &mut self,
        shared: &LocalTargetState,
        directory: &Directory,
        begin: &DraftParameters,
    ) -> Result<()> {
        let Some(version) = begin.version.filter(|_| begin.kind == DraftKind::InPlace) else { return Ok(()) };
        let journal_name = shared.draft_name(JOURNAL, &directory.path, &self.name);
        let subject =
            JournalSubject { version, size_bytes: begin.size_bytes, place: place_of_file(&self.file)? };
        if !self.go_on(&directory.fd, journal_name, &subject, begin)? {
            // A leftover draft of an interrupted copy will not be needed any more.
            remove(&directory.fd, shared.draft_name(0, &directory.path, &self.name));
            self.journal = Some(Mutex::new(Journal::begin(&directory.fd, journal_name, &subject)?));
        }
        Ok(())
    }

    /// Opens a file or device that is only read.
    fn compare(
        shared: &LocalTargetState,
        directory: &Directory,
        name: &[u8],
        begin: &DraftParameters,
    ) -> Result<Self> {
        let during = "opening the target";
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = openat(&directory.fd, name, flags, Mode::empty()).map_err(|errno| fault(during, errno))?;
        let found = metadata::of_file(&file).map_err(|errno| fault(during, errno))?;
        // Another entry may have taken its place since it was inspected.
        metadata::check_kind(shared.files_only, found.kind, during)?;
        if !matches!(found.kind, EntryKind::File | EntryKind::BlockDevice) {
            let words = format!("{} cannot be compared", found.kind.words());
            return Err(Error::new(ErrorKind::Unsupported, during, words));
        }
        // A file that has the source's size but more data is not equal to it.
        if found.kind == EntryKind::File
            && found.size_bytes == begin.size_bytes
            && has_more(&file, found.size_bytes).map_err(|errno| fault(during, errno))?
        {
            return Err(wrong_size(during, found.size_bytes + 1, found.size_bytes));
        }
        let owner = Owner { uid: found.uid, gid: found.gid };
        let mut draft =
            Self::new((&begin.path, name), begin.kind, &directory.fd, file, owner, begin.size_bytes);
        if found.kind == EntryKind::BlockDevice {
            draft.direct = open_direct(&draft.file, OFlags::RDONLY);
        }
        Ok(draft)
    }

    /// Resumes from an earlier run's journal if the recorded data still exists. Returns true if anything was resumed.
    fn go_on(
        &mut self,
        directory: &Arc<OwnedFd>,
        name: DraftName,
        subject: &JournalSubject,
        begin: &DraftParameters,
    ) -> Result<bool> {
        if begin.earlier == Earlier::Forget {
            return Ok(false);
        }
        let (journal, chunks) = match Journal::go_on(directory, name, subject) {
            Ok(Some(found)) => found,
            Ok(None) => return Ok(false),
            Err(error) if error.kind == ErrorKind::SourceChanged && begin.earlier == Earlier::Continue => {
                return Ok(false);
            }
            Err(error) => return Err(error.at(&self.path)),
        };
        let begun = told(self.size_bytes(), &chunks);
        let samples = samples(&chunks, TARGET_SAMPLES_MAX);
        // Without digests, later writes by others could not be detected.
        let unknown = samples.is_empty() && !self.kind.is_new_file();
        if chunks.is_empty() || unknown || !self.still_has(&samples)? {
            return Ok(false);
        }
        for extent in &begun.done {
            self.written_bytes.fetch_add(extent.length, Ordering::AcqRel);
            if !self.progress().taken.take(extent.offset, extent.end()) {
                return Ok(false);
            }
        }
        *self.begun.lock().unwrap_or_else(PoisonError::into_inner) = Some(begun);
        self.journal = Some(Mutex::new(journal));
        Ok(true)
    }

    /// Returns true if some sampled chunks of the journal are unchanged.
    fn still_has(&self, samples: &[(Extent, Digest)]) -> Result<bool> {
        let mut buffer = AlignedBuffer::new();
        for (extent, value) in samples {
            let mut values = Vec::new();
            for piece in extent.pieces() {
                let bytes = self.read_at(piece.offset, piece.length as usize, &mut buffer)?;
                let missing = piece.length as usize - bytes.len();
                if missing > 0 && !self.grows_in_the_end() {
                    return Ok(false);
                }
                let mut hasher = PieceHasher::new(self.size_bytes(), piece.offset);
                hasher.update(bytes);
                // Zeros at the end of a draft do not exist yet.
                hasher.update(&ZEROS[..missing]);
                values.push(hasher.value());
            }
            if chunk_value(&values) != Some(*value) {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// Returns the error for a disk whose contents the user has not been asked about, and that does not hold what an
/// interrupted run of this job has left.
fn not_what_was_left(identity: &DeviceIdentity) -> Error {
    let words = format!(
        "an interrupted copy has written to it, but its content may have changed since; to overwrite it, pass \
         --confirm {}",
        identity.id
    );
    Error::new(ErrorKind::Refused, OPENING_DEVICE, words)
}

/// Opens a block device exclusively for writing `size_bytes` bytes, and checks on the descriptor that it is the device
/// that was agreed on, by its [`DeviceIdentity::place_id`].
///
/// # Errors
/// `Refused` if it is another device, too small, or in use.
pub fn open_exclusively(
    directory: BorrowedFd<'_>,
    name: &[u8],
    agreed: &str,
    size_bytes: u64,
) -> Result<(OwnedFd, DeviceIdentity)> {
    let refused = |words: &str| Error::new(ErrorKind::Refused, OPENING_DEVICE, words);
    let found = metadata::of_name(directory, name).map_err(|errno| fault(OPENING_DEVICE, errno))?;
    if found.kind != EntryKind::BlockDevice {
        return Err(refused("it is no block device any more; look again at what the path names"));
    }
    let flags = OFlags::RDWR | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = openat(directory, name, flags, Mode::empty()).map_err(|errno| match errno {
        Errno::BUSY => refused("it is in use: mounted, swap, or part of another device"),
        Errno::ACCESS | Errno::PERM => {
            Error::new(ErrorKind::PermissionDenied, OPENING_DEVICE, "only root may write to it; add --sudo")
        }
        Errno::ROFS => refused("it is read-only"),
        other => fault(OPENING_DEVICE, other),
    })?;
    // By the rule of systemd, the holder of this lock keeps udev away.
    flock(&file, FlockOperation::NonBlockingLockExclusive)
        .map_err(|_| refused("another program holds its lock; wait until it has ended"))?;
    let identity = identity_of(file.as_fd())?;
    let id = &identity.place_id;
    if id != agreed {
        return Err(refused(&format!(
            "it is not the disk that was agreed on: {id} is there now, not {agreed}"
        )));
    }
    if identity.size_bytes < size_bytes {
        let words = format!("it has {} bytes, and {size_bytes} are to be written", identity.size_bytes);
        return Err(refused(&words));
    }
    Ok((file, identity))
}

/// Checks that a file may get a name. Returns true if it replaces an entry.
pub(super) fn check_place(
    shared: &LocalTargetState,
    directory: &Directory,
    name: &[u8],
    path: &EntryPath,
) -> Result<bool> {
    let there = metadata::of_name(&directory.fd, name);
    let replaces = there.is_ok();
    match there {
        Ok(found) if found.kind == EntryKind::Directory => Err(fault("making the file", Errno::ISDIR)),
        Ok(found) if !shared.grant.is_in_tree(path) => {
            keep_device(found.kind)?;
            if found.kind == EntryKind::File {
                refuse_behind_loop(directory, name)?;
            }
            Ok(replaces)
        }
        _ => Ok(replaces),
    }
}

/// Refuses to replace a file that is behind a loop device. Users of the loop device would keep using the old file, and
/// lose everything written from then on.
fn refuse_behind_loop(directory: &Directory, name: &[u8]) -> Result<()> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    match openat(&directory.fd, name, flags, Mode::empty()) {
        Ok(file) => check_behind_loop(&file, "replacing the file"),
        Err(_) => Ok(()),
    }
}

fn check_behind_loop(file: &OwnedFd, during: &'static str) -> Result<()> {
    let Some(name) = loop_device_of(&KernelDirectories::default(), file.as_fd()) else { return Ok(()) };
    let device = format!("/dev/{}", lossy(&name));
    let words = format!("it is behind the loop device {device}: detach that first (losetup -d {device})");
    Err(Error::new(ErrorKind::Refused, during, words))
}

/// Opens the draft of an earlier run, if it exists and no other user can have written to it.
fn open_earlier(directory: &Directory, name: &DraftName) -> Option<OwnedFd> {
    open_draft(directory, name).filter(is_ours)
}

/// Opens a draft to write to it, whoever it belongs to.
pub(super) fn open_draft(directory: &Directory, name: &DraftName) -> Option<OwnedFd> {
    let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    openat(&directory.fd, name.as_bytes(), flags, Mode::empty()).ok()
}

/// Removes an unusable draft and frees its space at once, because the new draft may need it. Some file systems (XFS)
/// free the space of removed files with a delay.
fn discard(directory: &OwnedFd, name: DraftName, file: &OwnedFd) {
    remove(directory, name);
    if flock(file, FlockOperation::NonBlockingLockExclusive).is_ok() {
        let _ = ftruncate(file, 0);
    }
}

/// Opens the file to be replaced, to copy equal ranges. Returns `None` if it cannot be read.
fn open_old(directory: &Directory, name: &[u8]) -> Option<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = openat(&directory.fd, name, flags, Mode::empty()).ok()?;
    let found = metadata::of_file(&file).ok()?;
    (found.kind == EntryKind::File).then_some(file)
}

/// Fails early if a file will certainly not fit.
fn check_room(directory: &Directory, size_bytes: u64, outstanding_bytes: u64) -> Result<()> {
    let Some(free_bytes) = fstatvfs(&directory.fd).ok().as_ref().and_then(free_bytes) else { return Ok(()) };
    if size_bytes.saturating_add(outstanding_bytes) <= free_bytes {
        return Ok(());
    }
    let words = format_lack(size_bytes, free_bytes.saturating_sub(outstanding_bytes));
    Err(Error::new(ErrorKind::NoSpace, "making the file", words))
}

/// Returns true if an open file is one of the [`SINKS`].
fn check_sink(file: &OwnedFd) -> Result<bool, Errno> {
    let found = fstat(file)?;
    let number = (major(found.st_rdev), minor(found.st_rdev));
    let character = rustix::fs::FileType::from_raw_mode(found.st_mode).is_char_device();
    Ok(character && SINKS.contains(&number))
}
