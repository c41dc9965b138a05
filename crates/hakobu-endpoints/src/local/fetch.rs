//! The operation `Fetch`: reads small files, symbolic links and special files of one directory directly into a pack.

use std::ffi::CString;

use hakobu_core::endpoint::{FetchedPack, Picks};
use hakobu_core::entry::{EntryKind, EntryMetadata};
use hakobu_core::extended::{ExtendedAsk, ExtendedRef};
use hakobu_core::losses::LossKind;
use hakobu_core::losses::Losses;
use hakobu_core::pack::{PACK_BYTES_MAX, PACK_BYTES_USUAL, PACKED_FILE_BYTES_MAX, PackBuilder, RecordHead};
use hakobu_core::path::{EntryPath, PATH_BYTES_MAX};
use hakobu_core::plant::planted;
use hakobu_core::{Error, ErrorKind, Result};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{Mode, openat, readlinkat_raw};
use rustix::io::Errno;

use super::errno::{changed, fault, place, source_fault};
use super::extended::{AttributeOwner, ExtendedReader, open_place};
use super::losses::{check_required, has_hole};
use super::metadata;
use super::positioned::{read_summed, wrong_size};
use super::reader::{NoAtime, RootReader};
use crate::common::time_steps::TimeSteps;

/// The maximum size of a record in bytes with its name, but without content and extended attributes.
const HEAD_BYTES_MAX: usize = 300;
/// The maximum number of times that a changing file is read.
const LOOKS: u32 = 3;

/// The reusable state of fetching.
#[derive(Debug, Default)]
pub(crate) struct PackFetcher {
    extended: ExtendedReader,
    /// The losses of the current entry.
    lost: Vec<LossKind>,
}

impl PackFetcher {
    /// Reads the picked entries from index `from` on, until the pack is full. Entries that cannot be read are added to
    /// the failures; the rest is packed.
    pub(crate) fn fetch(
        &mut self,
        reader: &mut RootReader,
        (root, directory): (u16, &EntryPath),
        target: &EntryPath,
        (picks, from): (&Picks, u32),
        ask: ExtendedAsk,
        buffer: Vec<u8>,
    ) -> Result<FetchedPack> {
        let mut run = PackFetch {
            directory,
            picks,
            pack: PackBuilder::new(buffer),
            losses: Losses::default(),
            fetched: FetchedPack { until: from, ..FetchedPack::default() },
        };
        run.pack.directory(target);
        let require = reader.require();
        let steps = reader.steps();
        let opened = reader.with_directory(root, directory, |fd, noatime| {
            for index in from as usize..picks.entries.len() {
                if run.is_full(index) {
                    break;
                }
                self.lost.clear();
                // The entry is read again as the first one of the next pack.
                if !run.entry(index, (fd, noatime), (&require, ask, &steps), self) {
                    break;
                }
                run.fetched.until = index as u32 + 1;
            }
        });
        if let Err(error) = opened {
            run.fetched.until = picks.entries.len() as u32;
            let all = (from..run.fetched.until).map(|index| (index, error.clone()));
            run.fetched.failures.extend(all);
        }
        Ok(run.finish())
    }
}

/// One fetch in progress.
struct PackFetch<'a> {
    directory: &'a EntryPath,
    picks: &'a Picks,
    pack: PackBuilder,
    losses: Losses,
    fetched: FetchedPack,
}

impl PackFetch<'_> {
    /// Returns true if an entry might not fit. The first entry always fits.
    fn is_full(&self, index: usize) -> bool {
        let listing = &self.picks.listing;
        let listed = self.picks.entries.get(index).map(|pick| pick.index as usize);
        let listed = listed.filter(|listed| *listed < listing.len());
        let size_bytes = listed.map_or(0, |listed| match listing.metadata(listed).kind {
            EntryKind::File => listing.metadata(listed).size_bytes.min(PACKED_FILE_BYTES_MAX) as usize,
            _ => PATH_BYTES_MAX,
        });
        self.pack.records() > 0 && self.pack.bytes() + HEAD_BYTES_MAX + size_bytes > PACK_BYTES_USUAL
    }

    /// Packs one entry. Returns false if there is no room left for its extended attributes.
    fn entry(
        &mut self,
        index: usize,
        (fd, noatime): (&OwnedFd, &mut NoAtime),
        (require, ask, steps): (&[LossKind], ExtendedAsk, &TimeSteps),
        PackFetcher { extended, lost }: &mut PackFetcher,
    ) -> bool {
        let pick = self.picks.entries[index];
        let listing = &self.picks.listing;
        if pick.index as usize >= listing.len() {
            let error = Error::new(ErrorKind::Usage, "reading", "an entry that is not in the listing");
            self.fetched.failures.push((index as u32, error));
            return true;
        }
        let name = listing.name(pick.index as usize);
        let metadata = listing.metadata(pick.index as usize);
        let new_name = self.picks.target_name.as_deref().unwrap_or(name);
        let put = Put { fd, name, new_name, metadata, replaces: pick.replaces, ask, steps };
        let packed = match metadata.kind {
            EntryKind::File => put.file(&mut self.pack, noatime, (extended, lost), require),
            EntryKind::Symlink => put.link(&mut self.pack, (extended, lost), require),
            EntryKind::Fifo | EntryKind::BlockDevice | EntryKind::CharDevice => {
                put.special(&mut self.pack, (extended, lost), require)
            }
            other => Err(Error::new(
                ErrorKind::Usage,
                "reading",
                format!("{} does not go into a pack", other.words()),
            )),
        };
        match packed {
            Ok(None) => return false,
            Ok(Some(content_bytes)) => {
                self.fetched.packed.push(index as u32);
                self.fetched.content_bytes += content_bytes;
                self.losses.merge(lost, false, || place(self.directory, name));
            }
            Err(error) => {
                self.fetched.failures.push((index as u32, error.at(place(self.directory, name))));
            }
        }
        true
    }

    fn finish(mut self) -> FetchedPack {
        let empty = self.pack.records() == 0;
        self.fetched.pack = self.pack.finish();
        if empty {
            self.fetched.pack.clear();
        }
        self.fetched.losses = self.losses.finish();
        self.fetched
    }
}

/// One entry being packed.
struct Put<'a> {
    fd: &'a OwnedFd,
    name: &'a [u8],
    new_name: &'a [u8],
    metadata: &'a EntryMetadata,
    replaces: bool,
    ask: ExtendedAsk,
    steps: &'a TimeSteps,
}

impl Put<'_> {
    /// Packs a file and returns its size in bytes, or `None` if there is no room for it. If the file differs from the
    /// listing, its current version is packed, so that a busy tree can be copied. A file that changes during each read
    /// is not packed.
    fn file(
        &self,
        pack: &mut PackBuilder,
        noatime: &mut NoAtime,
        (extended, lost): (&mut ExtendedReader, &mut Vec<LossKind>),
        require: &[LossKind],
    ) -> Result<Option<u64>> {
        let size_bytes = self.metadata.size_bytes;
        if size_bytes > PACKED_FILE_BYTES_MAX {
            return Err(Error::new(ErrorKind::Usage, "reading", "a file that is too large for a pack"));
        }
        let opened =
            noatime.open(self.metadata.uid, |flags| openat(self.fd, self.name, flags, Mode::empty()));
        let file = opened.map_err(|errno| source_fault("opening", errno))?;
        let mut version = *self.metadata;
        for look in 1..=LOOKS {
            if look < LOOKS {
                self.steps.wait(&version);
            }
            // A file that keeps changing during the wait is copied again by the next run.
            let is_settled = look < LOOKS || !self.steps.may_repeat(&version);
            let mut now = version;
            // Attributes must belong to the same version as the content.
            lost.clear();
            let attached = extended.read(open_place(&file), self.ask, lost)?;
            check_required(require, lost)?;
            let extended = attached.kept;
            if !has_room(pack, extended, version.size_bytes as usize) {
                return Ok(None);
            }
            let mut attributes = version.attributes();
            attributes.mode &= attached.mode_mask;
            if !is_settled {
                attributes.mtime = self.steps.never(version.mtime);
            }
            // Only a hint that zeros need not be written. The whole file is read, whatever holes are reported.
            let sparse = version.sparse && has_hole(&file, version.size_bytes);
            let head = RecordHead {
                sparse,
                extended,
                ..RecordHead::new(self.new_name, attributes).replacing(self.replaces)
            };
            let whole = pack.file(&head, version.size_bytes as usize, |space| {
                let sum = read_summed(&file, version.size_bytes, space);
                let sum = sum.map_err(|errno| source_fault("reading", errno))?;
                // The size is part of the version, so this also detects appending and truncation.
                now = metadata::of_file(&file).map_err(|errno| fault("looking at", errno))?;
                if !version.same_version(&now) {
                    return Ok(None);
                }
                let end = sum.end();
                let sum = sum
                    .value(version.size_bytes)
                    .filter(|_| end == version.size_bytes || planted("early-end-accepted"));
                sum.map(Some).ok_or_else(|| wrong_size("reading", end, version.size_bytes))
            })?;
            if whole {
                return Ok(Some(version.size_bytes));
            }
            if !self.may_be_taken_as(&now, pack) {
                break;
            }
            version = now;
        }
        Err(changed("reading"))
    }

    /// Returns true if the current version can be packed in place of the listed one: the same file with the same number
    /// of names, for which there is room.
    fn may_be_taken_as(&self, now: &EntryMetadata, pack: &PackBuilder) -> bool {
        let room = PACK_BYTES_USUAL.saturating_sub(pack.bytes() + HEAD_BYTES_MAX) as u64;
        now.kind == EntryKind::File
            && (now.links, now.inode) == (self.metadata.links, self.metadata.inode)
            && now.size_bytes <= PACKED_FILE_BYTES_MAX.min(room)
    }

    fn head(&self) -> RecordHead<'_> {
        RecordHead::new(self.new_name, self.metadata.attributes()).replacing(self.replaces)
    }

    /// Packs an entry of which only the extended attributes have to be read. The rest is in the listing.
    fn special(
        &self,
        pack: &mut PackBuilder,
        (extended, lost): (&mut ExtendedReader, &mut Vec<LossKind>),
        require: &[LossKind],
    ) -> Result<Option<u64>> {
        let EntryMetadata { kind, device, .. } = *self.metadata;
        let name = self.terminated()?;
        let attached = extended.read(AttributeOwner::Named(self.fd.as_fd(), &name), self.ask, lost)?;
        check_required(require, lost)?;
        if !has_room(pack, attached.kept, 0) {
            return Ok(None);
        }
        let mut head = RecordHead { extended: attached.kept, ..self.head() };
        head.attributes.mode &= attached.mode_mask;
        pack.special(&head, kind, device);
        Ok(Some(0))
    }

    fn terminated(&self) -> Result<CString> {
        CString::new(self.name).map_err(|_| Error::new(ErrorKind::Usage, "reading", "a name with a NUL byte"))
    }

    fn link(
        &self,
        pack: &mut PackBuilder,
        (extended, lost): (&mut ExtendedReader, &mut Vec<LossKind>),
        require: &[LossKind],
    ) -> Result<Option<u64>> {
        let mut room = [0; PATH_BYTES_MAX + 1];
        let read = readlinkat_raw(self.fd, self.name, &mut room[..]);
        let length = match read {
            Ok(length) => length,
            Err(Errno::INVAL) => return Err(changed("reading the link")),
            Err(errno) => return Err(source_fault("reading the link", errno)),
        };
        let now =
            metadata::of_name(self.fd, self.name).map_err(|errno| source_fault("reading the link", errno))?;
        if !self.metadata.same_version(&now) {
            return Err(changed("reading the link"));
        }
        let name = self.terminated()?;
        let extended = extended.read(AttributeOwner::Named(self.fd.as_fd(), &name), self.ask, lost)?.kept;
        check_required(require, lost)?;
        if !has_room(pack, extended, length) {
            return Ok(None);
        }
        pack.symlink(&RecordHead { extended, ..self.head() }, &room[..length]);
        Ok(Some(0))
    }
}

/// Returns true if an entry fits into a pack. An empty pack accepts up to its maximum size.
fn has_room(pack: &PackBuilder, extended: Option<ExtendedRef<'_>>, content_bytes: usize) -> bool {
    let bytes_max = if pack.records() == 0 { PACK_BYTES_MAX } else { PACK_BYTES_USUAL };
    let extended_bytes = extended.map_or(0, |extended| extended.as_bytes().len());
    pack.bytes() + HEAD_BYTES_MAX + extended_bytes + content_bytes <= bytes_max
}
