//! `Fetch`: small files, links and special files of one directory, read straight into a pack.

use hakobu_core::endpoint::{Fetched, LossKind, Picks};
use hakobu_core::entry::{Kind, Metadata};
use hakobu_core::losses::Losses;
use hakobu_core::pack::{PACKED_FILE_BYTES_MAX, PackBuilder};
use hakobu_core::path::{EntryPath, PATH_BYTES_MAX};
use hakobu_core::{Error, ErrorKind, Result};
use rustix::fd::OwnedFd;
use rustix::fs::{Mode, openat, readlinkat_raw};
use rustix::io::{Errno, read, retry_on_intr};

use super::fault::{changed, fault, place, source_fault};
use super::losses::{check_required, has_hole, lost_attributes};
use super::metadata;
use super::source::{NoAtime, Reader};

/// The reused parts of fetching.
#[derive(Debug, Default)]
pub(crate) struct Fetcher {
    /// What the entry at hand loses.
    lost: Vec<LossKind>,
}

impl Fetcher {
    /// Reads the picked entries. What cannot be read is among the failures, the rest is packed.
    pub(crate) fn fetch(
        &mut self,
        reader: &mut Reader,
        root: u16,
        directory: &EntryPath,
        target: &EntryPath,
        picks: &Picks,
        buffer: Vec<u8>,
    ) -> Result<Fetched> {
        let mut run = Run {
            directory,
            picks,
            pack: PackBuilder::new(buffer),
            losses: Losses::default(),
            fetched: Fetched::default(),
        };
        run.pack.directory(target);
        let require = reader.require();
        let opened = reader.with_directory(root, directory, |fd, noatime| {
            for index in 0..picks.entries.len() {
                self.lost.clear();
                run.entry(index, fd, noatime, &require, &mut self.lost);
            }
        });
        if let Err(error) = opened {
            let all = (0..picks.entries.len()).map(|index| (index as u32, error.clone()));
            run.fetched.failures.extend(all);
        }
        Ok(run.finish())
    }
}

/// One fetch under way.
struct Run<'a> {
    directory: &'a EntryPath,
    picks: &'a Picks,
    pack: PackBuilder,
    losses: Losses,
    fetched: Fetched,
}

impl Run<'_> {
    fn entry(
        &mut self,
        index: usize,
        fd: &OwnedFd,
        noatime: &mut NoAtime,
        require: &[LossKind],
        lost: &mut Vec<LossKind>,
    ) {
        let pick = self.picks.entries[index];
        let listing = &self.picks.listing;
        if pick.index as usize >= listing.len() {
            let error = Error::new(ErrorKind::Usage, "reading", "an entry that is not in the listing");
            self.fetched.failures.push((index as u32, error));
            return;
        }
        let name = listing.name(pick.index as usize);
        let metadata = listing.metadata(pick.index as usize);
        let new_name = self.picks.target_name.as_deref().unwrap_or(name);
        let put = Put { fd, name, new_name, metadata, replaces: pick.replaces };
        let packed = match metadata.kind {
            Kind::File => put.file(&mut self.pack, noatime, require, lost),
            Kind::Symlink => put.link(&mut self.pack),
            Kind::Fifo | Kind::BlockDevice | Kind::CharDevice => {
                put.special(&mut self.pack);
                Ok(())
            }
            other => Err(Error::new(
                ErrorKind::Usage,
                "reading",
                format!("{} does not go into a pack", other.words()),
            )),
        };
        match packed {
            Ok(()) => {
                self.fetched.packed.push(index as u32);
                if metadata.kind == Kind::File {
                    self.fetched.content_bytes += metadata.size_bytes;
                }
                self.losses.merge(lost, || place(self.directory, name));
            }
            Err(error) => {
                self.fetched.failures.push((index as u32, error.at(place(self.directory, name))));
            }
        }
    }

    fn finish(mut self) -> Fetched {
        let empty = self.pack.records() == 0;
        self.fetched.pack = self.pack.finish();
        if empty {
            self.fetched.pack.clear();
        }
        self.fetched.losses = self.losses.finish();
        self.fetched
    }
}

/// One entry on its way into the pack.
struct Put<'a> {
    fd: &'a OwnedFd,
    name: &'a [u8],
    new_name: &'a [u8],
    metadata: &'a Metadata,
    replaces: bool,
}

impl Put<'_> {
    fn file(
        &self,
        pack: &mut PackBuilder,
        noatime: &mut NoAtime,
        require: &[LossKind],
        lost: &mut Vec<LossKind>,
    ) -> Result<()> {
        let size_bytes = self.metadata.size_bytes;
        if size_bytes > PACKED_FILE_BYTES_MAX {
            return Err(Error::new(ErrorKind::Usage, "reading", "a file that is too large for a pack"));
        }
        let opened =
            noatime.open(self.metadata.uid, |flags| openat(self.fd, self.name, flags, Mode::empty()));
        let file = opened.map_err(|errno| source_fault("opening", errno))?;
        let attributes = self.metadata.attributes();
        let whole = pack.file(self.new_name, &attributes, self.replaces, size_bytes as usize, |space| {
            fill(&file, space).map_err(|errno| source_fault("reading", errno))?;
            // The size is part of the version, so this also finds what was appended or cut off.
            let now = metadata::of_file(&file).map_err(|errno| fault("looking at", errno))?;
            self.note_losses(&file, lost);
            check_required(require, lost)?;
            Ok::<_, Error>(self.metadata.same_version(&now))
        })?;
        if !whole {
            return Err(changed("reading"));
        }
        Ok(())
    }

    fn note_losses(&self, file: &OwnedFd, lost: &mut Vec<LossKind>) {
        if self.metadata.links > 1 {
            lost.push(LossKind::HardLinks);
        }
        if self.metadata.sparse && has_hole(file, self.metadata.size_bytes) {
            lost.push(LossKind::Holes);
        }
        lost_attributes(file, lost);
    }

    /// There is nothing to read: all of it is in the listing.
    fn special(&self, pack: &mut PackBuilder) {
        let Metadata { kind, device, .. } = *self.metadata;
        pack.special(self.new_name, &self.metadata.attributes(), self.replaces, kind, device);
    }

    fn link(&self, pack: &mut PackBuilder) -> Result<()> {
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
        pack.symlink(self.new_name, &self.metadata.attributes(), self.replaces, &room[..length]);
        Ok(())
    }
}

/// Reads until the space is full or the file ends. An early end is found by the caller's look at
/// the version.
fn fill(file: &OwnedFd, mut space: &mut [u8]) -> Result<(), Errno> {
    while !space.is_empty() {
        let read = retry_on_intr(|| read(file, &mut *space))?;
        if read == 0 {
            break;
        }
        space = &mut space[read..];
    }
    Ok(())
}
