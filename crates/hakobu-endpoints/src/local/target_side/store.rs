//! The operation `Store`: writes the entries of a pack directly from its buffer.

use hakobu_core::endpoint::TargetOutcome;
use hakobu_core::losses::Losses;
use hakobu_core::pack::{PACK_BYTES_MAX, PackContent, PackReader, PackRecord, RecordHead};
use hakobu_core::path::EntryPath;
use hakobu_core::{Error, ErrorKind, Result};

use super::directories::DirectoryCache;
use super::new_file::{EntryMaker, SpecialFile};
use super::shared::LocalTargetState;
use super::stable::WAITING_MAX;
use crate::local::errno::place;
use crate::local::file_system::Stability;
use crate::local::metadata::{self, keep_device};

/// Writes all records of a pack. The outcome lists the entries that failed by index.
///
/// # Errors
/// If the bytes are not a valid pack, or a failure would affect every further entry.
pub(crate) fn store(
    shared: &LocalTargetState,
    directories: &mut DirectoryCache,
    maker: &mut EntryMaker,
    pack: &[u8],
) -> Result<TargetOutcome> {
    let content_bytes = check(pack)?;
    shared.take_bytes(content_bytes)?;
    let mut run = PackWrite {
        shared,
        directories,
        maker,
        here: None,
        failures: Vec::new(),
        losses: Losses::default(),
        stored_bytes: 0,
    };
    let done = run.records(pack).and_then(|()| run.name_waiting());
    run.maker.waiting.drain(..).for_each(|file| file.discard());
    run.failures.sort_by_key(|(index, _)| *index);
    shared.return_bytes(content_bytes - run.stored_bytes);
    done?;
    Ok(TargetOutcome::PackWritten { failures: run.failures, losses: run.losses.finish() })
}

/// Validates the whole pack before anything of it is written. Returns the number of content bytes.
fn check(pack: &[u8]) -> Result<u64> {
    if pack.len() > PACK_BYTES_MAX {
        return Err(Error::new(ErrorKind::Protocol, "reading a pack", "it is too large"));
    }
    let mut content_bytes = 0;
    let mut in_directory = false;
    let mut reader = PackReader::new(pack);
    while let Some(record) = reader.read()? {
        match record {
            PackRecord::Directory { .. } => in_directory = true,
            _ if !in_directory => {
                return Err(Error::new(
                    ErrorKind::Protocol,
                    "reading a pack",
                    "a record before its directory",
                ));
            }
            PackRecord::Entry(_, PackContent::File(content)) => content_bytes += content.bytes.len() as u64,
            PackRecord::Entry(..) => {}
        }
    }
    Ok(content_bytes)
}

/// The directory of the current records.
struct CurrentDirectory {
    path: EntryPath,
    /// True if everything in it is granted, so that single names need no check.
    granted: bool,
    /// The error that prevents writing to it.
    blocked: Option<Error>,
}

struct PackWrite<'a> {
    shared: &'a LocalTargetState,
    directories: &'a mut DirectoryCache,
    maker: &'a mut EntryMaker,
    here: Option<CurrentDirectory>,
    failures: Vec<(u32, Error)>,
    losses: Losses,
    stored_bytes: u64,
}

impl PackWrite<'_> {
    fn records(&mut self, pack: &[u8]) -> Result<()> {
        let mut reader = PackReader::new(pack);
        let mut index = 0;
        while let Some(record) = reader.read()? {
            let (head, content) = match record {
                PackRecord::Directory { path } => {
                    self.enter(path)?;
                    continue;
                }
                PackRecord::Entry(head, content) => (head, content),
            };
            self.maker.index = index;
            // A name that occurs twice would use the same draft.
            let here = self.here.as_ref().map(|here| &here.path);
            if here.is_some_and(|here| self.maker.waiting.iter().any(|file| file.is_for(here, head.name))) {
                self.name_waiting()?;
            }
            if let Err(error) = self.entry(&head, content) {
                if error.is_fatal() {
                    return Err(error);
                }
                self.failures.push((index, error));
            }
            if self.maker.waiting.len() >= WAITING_MAX {
                self.name_waiting()?;
            }
            index += 1;
        }
        Ok(())
    }

    /// Renames waiting files once their content is on the medium.
    fn name_waiting(&mut self) -> Result<()> {
        while !self.maker.waiting.is_empty() {
            let file = self.maker.waiting.remove(0);
            let (index, content_bytes) = (file.index, file.content_bytes);
            if let Err(error) = file.finish(&self.shared.grant, Stability::InOrder) {
                // The caller discards the others.
                self.shared.grant.check_time()?;
                self.stored_bytes = self.stored_bytes.saturating_sub(content_bytes);
                self.failures.push((index, error));
            }
        }
        Ok(())
    }

    fn enter(&mut self, path: EntryPath) -> Result<()> {
        let blocked = match self.directories.enter(self.shared, &path) {
            Ok(_) => None,
            Err(error) if error.is_fatal() => return Err(error.at(&path)),
            Err(error) => Some(error.at(&path)),
        };
        let granted = self.shared.grant.is_in_tree(&path);
        self.here = Some(CurrentDirectory { path, granted, blocked });
        Ok(())
    }

    fn entry(&mut self, head: &RecordHead<'_>, content: PackContent<'_>) -> Result<()> {
        let Some(here) = self.here.take() else {
            return Err(Error::new(ErrorKind::Protocol, "reading a pack", "a record before its directory"));
        };
        let done = self.entry_in(&here, head, content);
        self.here = Some(here);
        done
    }

    fn entry_in(
        &mut self,
        here: &CurrentDirectory,
        head: &RecordHead<'_>,
        content: PackContent<'_>,
    ) -> Result<()> {
        let name = head.name;
        if let Some(error) = &here.blocked {
            return Err(error.clone());
        }
        if !head.replaces {
            self.shared.makes_entry();
        }
        if !here.granted {
            let path = here.path.join(name)?;
            self.shared.grant.check_write(&path)?;
            self.refuse_device(&here.path, name).map_err(|error| error.at(&path))?;
        }
        let done = match self.put(&here.path, head, content) {
            // Another process has removed or replaced the directory.
            Err(error) if error.kind == ErrorKind::NotFound => {
                self.directories.forget(&here.path);
                self.put(&here.path, head, content)
            }
            other => other,
        };
        done.map_err(|error| error.at(place(&here.path, name)))?;
        self.losses.merge(&self.maker.lost, true, || place(&here.path, name));
        if let PackContent::File(content) = content {
            self.stored_bytes += content.bytes.len() as u64;
        }
        Ok(())
    }

    /// Refuses to replace a device: an individually granted path may be `/dev/null`, which is written to, never
    /// replaced.
    fn refuse_device(&mut self, path: &EntryPath, name: &[u8]) -> Result<()> {
        let directory = self.directories.enter(self.shared, path)?;
        match metadata::of_name(&directory.fd, name) {
            Ok(found) => keep_device(found.kind),
            Err(_) => Ok(()),
        }
    }

    fn put(&mut self, path: &EntryPath, head: &RecordHead<'_>, content: PackContent<'_>) -> Result<()> {
        let directory = self.directories.enter(self.shared, path)?;
        self.maker.lost.clear();
        match content {
            PackContent::File(content) => self.maker.file(self.shared, directory, head, content),
            PackContent::Symlink(text) => self.maker.symlink(self.shared, directory, head, text),
            PackContent::Special(kind, device) => {
                self.maker.special(self.shared, directory, head, SpecialFile { kind, device })
            }
        }
    }
}
