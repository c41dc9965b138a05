//! The local source: directories that the user named, opened once, and read by lanes.

use std::path::PathBuf;
use std::sync::Arc;

use hakobu_core::capabilities::Capabilities;
use hakobu_core::digest::Digest;
use hakobu_core::endpoint::{
    Endpoint, ListingPage, Pick, Picks, SourceEndpoint, SourceLane, SourceOp, SourceOutcome,
};
use hakobu_core::entry::{EntryKind, Inode};
use hakobu_core::extended::Classes;
use hakobu_core::handle::{Cursor, SharedFile};
use hakobu_core::losses::LossKind;
use hakobu_core::path::EntryPath;
use hakobu_core::{Error, ErrorKind, Result};
use rustix::fd::AsFd;
use rustix::fs::{Mode, openat};

use super::accounts;
use super::digests::{self, Digester};
use super::errno::{foreign, place, source_fault};
use super::extended::{ExtendedReader, seen};
use super::fetch::PackFetcher;
use super::file_system::{answer_ns, has_change_times};
use super::inspection::{extended_of, inspect_content};
use super::list::{ListParameters, Lister};
use super::reader::RootReader;
use super::resolve_beneath::{Confinement, TreeRoot};
use super::shared_devices::SharedDevices;
use super::source_files::SourceFiles;
use super::tried_properties::put_seen;
use crate::common::immediate::{AtOnce, ImmediateWork};
use crate::common::time_steps::TimeSteps;

/// A directory below which entries are read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceRoot {
    /// The directory as the user typed it. Symbolic links in it are followed.
    pub path: PathBuf,
}

/// Directories of this machine, opened for reading. Roots are numbered in the order in which they were given.
#[derive(Debug)]
pub struct LocalSource {
    roots: Arc<[TreeRoot]>,
    capabilities: Capabilities,
    require: Arc<[LossKind]>,
    devices: Arc<SharedDevices>,
    steps: TimeSteps,
    files_only: bool,
}

impl LocalSource {
    /// Opens every root.
    ///
    /// # Errors
    /// If one of them is missing, is not a directory or cannot be searched.
    pub fn open(roots: &[SourceRoot]) -> Result<Self> {
        Self::of(roots.iter().map(|root| TreeRoot::open(&root.path)).collect::<Result<_>>()?)
    }

    /// Opens every root for a process that is confined to a directory. Roots are resolved beneath that directory,
    /// without following symbolic links. Its parent is accepted as a root as well, for naming the directory itself.
    ///
    /// # Errors
    /// As for [`LocalSource::open`], and `PermissionDenied` for roots outside the directory.
    pub fn open_within(confinement: &Confinement, roots: &[SourceRoot]) -> Result<Self> {
        let roots = roots.iter().map(|root| TreeRoot::open_source_within(confinement, &root.path));
        Self::of(roots.collect::<Result<_>>()?)
    }

    fn of(roots: Arc<[TreeRoot]>) -> Result<Self> {
        let mut capabilities = Capabilities::posix(rustix::process::geteuid().is_root());
        capabilities.clones = true;
        capabilities.extended = roots.iter().fold(Classes::NONE, |classes, root| classes | seen(root.fd()));
        put_seen(roots.iter().map(TreeRoot::fd), &mut capabilities);
        // There may be many roots, and they are hardly ever on several servers.
        capabilities.answer_ns = roots.iter().find_map(|root| answer_ns(root.fd().as_fd()));
        capabilities.change_times = roots.iter().all(|root| has_change_times(root.fd().as_fd()));
        let (require, devices, steps) = (Arc::new([]), Arc::default(), TimeSteps::default());
        Ok(Self { roots, capabilities, require, devices, steps, files_only: false })
    }

    /// Refuses to read block devices, whoever names one.
    #[must_use]
    pub fn files_only(mut self) -> Self {
        self.files_only = true;
        self
    }

    /// Does not enter these directories of the target, wherever they are found.
    #[must_use]
    pub fn apart_from(mut self, directories: &[Inode]) -> Self {
        let roots = Arc::get_mut(&mut self.roots);
        roots.into_iter().flatten().for_each(|root| root.hold_apart(directories));
        self
    }

    /// Refuses to read files that would lose metadata of one of these kinds.
    #[must_use]
    pub fn requiring(mut self, kinds: &[LossKind]) -> Self {
        self.require = kinds.into();
        self
    }

    /// Opens every root as on a system without `openat2`.
    #[cfg(test)]
    pub(crate) fn open_plain(roots: &[SourceRoot]) -> Result<Self> {
        let mut source = Self::open(roots)?;
        let roots = Arc::get_mut(&mut source.roots);
        roots.into_iter().flatten().for_each(TreeRoot::walk_only);
        Ok(source)
    }

    /// Returns a lane of the concrete type.
    pub fn lane(&self) -> LocalSourceLane {
        let roots = Arc::clone(&self.roots);
        AtOnce::new(LocalSourceReader {
            reader: RootReader::new(
                roots,
                Arc::clone(&self.require),
                Arc::clone(&self.devices),
                self.steps.clone(),
                self.files_only,
            ),
            lister: Lister::default(),
            fetcher: PackFetcher::default(),
            files: SourceFiles::new(),
            extended: ExtendedReader::default(),
            digester: Digester::default(),
        })
    }
}

impl Endpoint for LocalSource {
    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }
}

impl SourceEndpoint for LocalSource {
    fn open_source_lane(&self, _index: usize) -> Result<Box<dyn SourceLane>> {
        Ok(Box::new(self.lane()))
    }

    fn meet_time_step(&self, step_ns: u32) {
        self.steps.meet(step_ns);
    }
}

/// One lane of a [`LocalSource`].
pub type LocalSourceLane = AtOnce<LocalSourceReader>;

/// The state with which a lane of a source reads.
#[derive(Debug)]
pub struct LocalSourceReader {
    reader: RootReader,
    lister: Lister,
    fetcher: PackFetcher,
    files: SourceFiles,
    extended: ExtendedReader,
    digester: Digester,
}

impl ImmediateWork for LocalSourceReader {
    type Op = SourceOp;

    fn perform(&mut self, operation: SourceOp) -> Option<Result<SourceOutcome>> {
        Some(self.answer(operation))
    }
}

impl LocalSourceReader {
    fn answer(&mut self, operation: SourceOp) -> Result<SourceOutcome> {
        match operation {
            SourceOp::Stat { root, path, detail } => {
                inspect_content(&self.reader, (root, &path), (&mut self.extended, detail))
                    .map(SourceOutcome::Stat)
            }
            SourceOp::List { root, directories, budget, detail } => {
                let root = self.reader.root(root)?;
                let listings = self.lister.list_all(
                    root,
                    directories,
                    ListParameters { budget, detail },
                    |_| Ok(()),
                    source_fault,
                );
                Ok(SourceOutcome::Listed(listings))
            }
            SourceOp::Page { root, directory, from, entries, detail } => {
                let root = self.reader.root(root)?;
                let from = from.map(|cursor| cursor.into_position().ok_or_else(foreign)).transpose()?;
                let (listing, rest) =
                    self.lister.portion(root, &directory, from, (entries, detail), source_fault)?;
                let rest = rest.map(Cursor::new);
                Ok(SourceOutcome::Page(ListingPage { listing, rest, below: Vec::new() }))
            }
            SourceOp::ReadPack { root, directory, target, picks, from, ask, buffer } => {
                let reader = &mut self.reader;
                let fetched =
                    self.fetcher.fetch(reader, (root, &directory), &target, (&picks, from), ask, buffer)?;
                Ok(SourceOutcome::Pack(fetched))
            }
            SourceOp::Read { file, extent, buffer } => {
                let read = self.files.read(&mut self.reader, &file, extent, buffer);
                read.map_err(|error| error.at(&file.path))
            }
            SourceOp::FindHole { file, extent } => {
                let end = self.files.hole_until(&mut self.reader, &file, extent);
                end.map(SourceOutcome::HoleUntil).map_err(|error| error.at(&file.path))
            }
            SourceOp::Names { accounts } => {
                let names: Result<_> = accounts.into_iter().map(accounts::name_of).collect();
                names.map(SourceOutcome::Names)
            }
            SourceOp::DigestPicks { root, directory, picks, key, .. } => {
                self.digester.takes(key)?;
                self.digests(root, &directory, &picks).map(SourceOutcome::Digests)
            }
            SourceOp::Extended { root, path, ask } => {
                let found = extended_of(&self.reader, &mut self.extended, (root, &path), ask);
                found.map_err(|error| error.at(&path))
            }
            SourceOp::Open { file } => {
                let opened = self.files.open_for_clone(&mut self.reader, &file);
                opened
                    .map(|file| SourceOutcome::Opened(SharedFile::new(file)))
                    .map_err(|error| error.at(&file.path))
            }
            SourceOp::OpenPicks { .. } => Err(foreign()),
            SourceOp::Revalidate { file, ask } => {
                let confirmed = self.files.confirm(&mut self.reader, &file, (&mut self.extended, ask));
                confirmed.map_err(|error| error.at(&file.path))
            }
            SourceOp::ReadStream { .. } => {
                Err(Error::new(ErrorKind::Unsupported, "working on the source", "files are no streams"))
            }
        }
    }
}

impl LocalSourceReader {
    fn digests(&mut self, root: u16, directory: &EntryPath, picks: &Picks) -> Result<Vec<Result<Digest>>> {
        let Self { reader, digester, .. } = self;
        let listing = &picks.listing;
        reader.with_directory(root, directory, |fd, noatime| {
            let digest = |pick: &Pick| {
                let index = Some(pick.index as usize).filter(|index| *index < listing.len());
                let index = index.ok_or_else(digests::none)?;
                let (name, metadata) = (listing.name(index), listing.metadata(index));
                let open = || noatime.open(metadata.uid, |flags| openat(fd, name, flags, Mode::empty()));
                // Reading a symbolic link changes only its access time.
                let listed = Some(metadata).filter(|metadata| metadata.kind == EntryKind::File);
                let taken = digester.digest((fd, name), listed, open, source_fault);
                taken.map_err(|error| error.at(place(directory, name)))
            };
            picks.entries.iter().map(digest).collect()
        })
    }
}
