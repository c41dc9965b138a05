//! Digests or tags of small files and of the texts of symbolic links, computed in place.

use hakobu_core::digest::Digest;
use hakobu_core::entry::{EntryKind, EntryMetadata};
use hakobu_core::pack::PACKED_FILE_BYTES_MAX;
use hakobu_core::path::PATH_BYTES_MAX;
use hakobu_core::tag::{TagKey, Tagger, content_value};
use hakobu_core::{Error, ErrorKind, Result};
use rustix::fd::OwnedFd;
use rustix::fs::{Mode, OFlags, openat, readlinkat_raw};
use rustix::io::Errno;

use super::errno::{ErrnoContext, changed};
use super::metadata;
use super::positioned::{read_file, wrong_size};

/// Computes digests and tags, with reused buffers.
#[derive(Debug, Default)]
pub(crate) struct Digester {
    content: Vec<u8>,
    tagger: Option<Tagger>,
}

impl Digester {
    /// Computes tags under this key from now on, or digests without a key.
    pub(crate) fn takes(&mut self, key: Option<TagKey>) -> Result<()> {
        if self.tagger.as_ref().map(Tagger::key) != key {
            self.tagger = key.map(Tagger::new).transpose()?;
        }
        Ok(())
    }

    /// Returns the digest or tag of the entry `name` in an open directory. `open` opens it. If `listed` is given, the
    /// entry must still be this version.
    pub(crate) fn digest(
        &mut self,
        (directory, name): (&OwnedFd, &[u8]),
        listed: Option<&EntryMetadata>,
        open: impl FnOnce() -> Result<OwnedFd, Errno>,
        fault: ErrnoContext,
    ) -> Result<Digest> {
        let file = match open() {
            Ok(file) => file,
            Err(Errno::LOOP) => return self.link(directory, name, fault),
            Err(errno) => return Err(fault("opening", errno)),
        };
        let found = metadata::of_file(&file).map_err(|errno| fault("looking at", errno))?;
        if found.kind != EntryKind::File || found.size_bytes > PACKED_FILE_BYTES_MAX {
            return Err(changed("reading"));
        }
        self.content.resize(PACKED_FILE_BYTES_MAX as usize + 1, 0);
        let room = &mut self.content[..found.size_bytes as usize + 1];
        let read = read_file(&file, found.size_bytes, room, |_, _| ());
        let length = read.map_err(|errno| fault("reading", errno))?;
        if let Some(listed) = listed {
            let now = metadata::of_file(&file).map_err(|errno| fault("looking at", errno))?;
            if !listed.same_version(&now) {
                return Err(changed("reading"));
            }
        }
        if length != found.size_bytes {
            return Err(wrong_size("reading", length, found.size_bytes));
        }
        content_value(&self.content[..length as usize], self.tagger.as_ref())
    }

    fn link(&self, directory: &OwnedFd, name: &[u8], fault: ErrnoContext) -> Result<Digest> {
        let mut room = [0; PATH_BYTES_MAX + 1];
        match readlinkat_raw(directory, name, &mut room[..]) {
            Ok(length) => content_value(&room[..length], self.tagger.as_ref()),
            Err(Errno::INVAL) => Err(changed("reading the link")),
            Err(errno) => Err(fault("reading the link", errno)),
        }
    }
}

/// The flags with which an entry is opened for reading: a symbolic link is not followed, and a pipe does not block.
pub(crate) const READ: OFlags =
    OFlags::RDONLY.union(OFlags::NOFOLLOW).union(OFlags::NONBLOCK).union(OFlags::CLOEXEC);

/// Opens an entry for reading.
pub(crate) fn open(directory: &OwnedFd, name: &[u8]) -> Result<OwnedFd, Errno> {
    openat(directory, name, READ, Mode::empty())
}

/// Returns the error for an entry that is not in the listing.
pub(crate) fn none() -> Error {
    Error::new(ErrorKind::Usage, "taking a digest", "an entry that is not in the listing")
}
