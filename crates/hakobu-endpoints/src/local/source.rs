//! The source: directories that the user named, opened once, and read by lanes.

use std::path::PathBuf;
use std::sync::Arc;

use hakobu_core::capabilities::Capabilities;
use hakobu_core::digest::Digest;
use hakobu_core::endpoint::{Detail, Endpoint, Lane, Loss, LossKind, Operation, Outcome, Pick, Picks};
use hakobu_core::entry::{Inode, Kind, Metadata};
use hakobu_core::extended::{Classes, Extended, ExtendedAsk, ExtendedRef};
use hakobu_core::path::EntryPath;
use hakobu_core::{Error, ErrorKind, Result};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{Mode, OFlags, openat};
use rustix::io::Errno;

use super::accounts;
use super::at_once::{AtOnce, Work};
use super::beneath::{Confinement, Root, STEP};
use super::buffers::Buffers;
use super::digests::{self, Digester};
use super::extended::{ExtendedReader, Place, seen};
use super::fault::{place, source_fault};
use super::fetch::Fetcher;
use super::file_system::answer_ns;
use super::list::{Ask, Lister};
use super::losses::check_required;
use super::metadata;
use super::proc_path::proc_path;
use super::recent::Recent;
use super::shared_devices::SharedDevices;
use super::source_files::SourceFiles;
use super::tried::put_seen;
use crate::time_steps::TimeSteps;

/// How many directories a lane keeps open.
const DIRECTORIES_KEPT: usize = 8;

/// A directory below which entries are read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceRoot {
    /// The directory as the user typed it. Links in it are followed.
    pub path: PathBuf,
}

/// Directories of this machine, opened to be read. Roots are numbered as they were given.
#[derive(Debug)]
pub struct LocalSource {
    roots: Arc<[Root]>,
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
    /// When one of them is missing, is no directory or cannot be entered.
    pub fn open(roots: &[SourceRoot]) -> Result<Self> {
        Self::of(roots.iter().map(|root| Root::open(&root.path)).collect::<Result<_>>()?)
    }

    /// As [`LocalSource::open`] for who is held to a directory: roots are resolved beneath it, without links. The directory
    /// that holds it is a root as well, for what is named by the directory itself.
    ///
    /// # Errors
    /// As [`LocalSource::open`], and `PermissionDenied` for what is elsewhere.
    pub fn open_within(confinement: &Confinement, roots: &[SourceRoot]) -> Result<Self> {
        let roots = roots.iter().map(|root| Root::open_source_within(confinement, &root.path));
        Self::of(roots.collect::<Result<_>>()?)
    }

    fn of(roots: Arc<[Root]>) -> Result<Self> {
        let mut capabilities = Capabilities::posix(rustix::process::geteuid().is_root());
        capabilities.clones = true;
        capabilities.extended = roots.iter().fold(Classes::NONE, |classes, root| classes | seen(root.fd()));
        put_seen(roots.iter().map(Root::fd), &mut capabilities);
        // There may be many, and they are hardly ever on several servers.
        capabilities.answer_ns = roots.iter().find_map(|root| answer_ns(root.fd().as_fd()));
        let (require, devices, steps) = (Arc::new([]), Arc::default(), TimeSteps::default());
        Ok(Self { roots, capabilities, require, devices, steps, files_only: false })
    }

    /// Reads no block device, whoever names one.
    #[must_use]
    pub fn files_only(mut self) -> Self {
        self.files_only = true;
        self
    }

    /// Does not look into these directories, which are the target's, wherever they are met.
    #[must_use]
    pub fn apart_from(mut self, directories: &[Inode]) -> Self {
        let roots = Arc::get_mut(&mut self.roots);
        roots.into_iter().flatten().for_each(|root| root.hold_apart(directories));
        self
    }

    /// Refuses to read files that would lose one of these on their way.
    #[must_use]
    pub fn requiring(mut self, kinds: &[LossKind]) -> Self {
        self.require = kinds.into();
        self
    }

    /// As [`LocalSource::open`] on a system without `openat2`.
    #[cfg(test)]
    pub(crate) fn open_plain(roots: &[SourceRoot]) -> Result<Self> {
        let mut source = Self::open(roots)?;
        let roots = Arc::get_mut(&mut source.roots);
        roots.into_iter().flatten().for_each(Root::walk_only);
        Ok(source)
    }

    /// A lane of the concrete type.
    pub fn lane(&self) -> LocalSourceLane {
        let roots = Arc::clone(&self.roots);
        AtOnce::new(SourceWork {
            reader: Reader {
                roots,
                directories: Recent::new(DIRECTORIES_KEPT),
                noatime: NoAtime::new(),
                require: Arc::clone(&self.require),
                devices: Arc::clone(&self.devices),
                steps: self.steps.clone(),
                files_only: self.files_only,
            },
            lister: Lister::default(),
            fetcher: Fetcher::default(),
            files: SourceFiles::new(),
            extended: ExtendedReader::default(),
            digester: Digester::default(),
            buffers: Buffers::default(),
        })
    }
}

impl Endpoint for LocalSource {
    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    fn open_lane(&self, _index: usize) -> Result<Box<dyn Lane>> {
        Ok(Box::new(self.lane()))
    }

    fn meet_time_step(&self, step_ns: u32) {
        self.steps.meet(step_ns);
    }
}

/// The roots as one lane sees them, with the directories it used last.
#[derive(Debug)]
pub(crate) struct Reader {
    roots: Arc<[Root]>,
    directories: Recent<(u16, EntryPath), OwnedFd>,
    noatime: NoAtime,
    /// What no entry may lose.
    require: Arc<[LossKind]>,
    devices: Arc<SharedDevices>,
    steps: TimeSteps,
    /// Whether no block device may be read.
    files_only: bool,
}

impl Reader {
    /// Refuses block devices where only files may be read.
    ///
    /// # Errors
    /// `PermissionDenied`.
    pub(crate) fn check_kind(&self, kind: Kind) -> Result<()> {
        metadata::check_kind(self.files_only, kind, "opening")
    }

    /// What no entry may lose.
    pub(crate) fn require(&self) -> Arc<[LossKind]> {
        Arc::clone(&self.require)
    }

    /// The steps in which the ends keep times.
    pub(crate) fn steps(&self) -> TimeSteps {
        self.steps.clone()
    }

    /// The devices that all lanes read.
    pub(crate) fn devices(&self) -> Arc<SharedDevices> {
        Arc::clone(&self.devices)
    }

    /// The root of that number.
    pub(crate) fn root(&self, index: u16) -> Result<&Root> {
        find_root(&self.roots, index)
    }

    /// The root of that number, and how its files are opened.
    pub(crate) fn root_for_reading(&mut self, index: u16) -> Result<(&Root, &mut NoAtime)> {
        Ok((find_root(&self.roots, index)?, &mut self.noatime))
    }

    /// Opens a directory, or finds it among the last ones used.
    pub(crate) fn with_directory<T>(
        &mut self,
        root: u16,
        path: &EntryPath,
        then: impl FnOnce(&OwnedFd, &mut NoAtime) -> T,
    ) -> Result<T> {
        if self.directories.find(|key| key.0 == root && key.1 == *path).is_none() {
            let opened = self.root(root)?.open_beneath(path, STEP);
            let opened = opened.map_err(|errno| source_fault("opening the directory", errno).at(path))?;
            self.directories.insert((root, path.clone()), opened);
        }
        match self.directories.find(|key| key.0 == root && key.1 == *path) {
            Some(directory) => Ok(then(directory, &mut self.noatime)),
            None => Err(Error::new(ErrorKind::Io, "opening the directory", "").at(path)),
        }
    }
}

fn find_root(roots: &[Root], index: u16) -> Result<&Root> {
    let missing = || Error::new(ErrorKind::Usage, "reading", format!("the source has no root {index}"));
    roots.get(usize::from(index)).ok_or_else(missing)
}

/// Whether files can be opened without changing the time of their last access. That takes their
/// owner or root, and even then some file systems refuse.
#[derive(Debug)]
pub(crate) struct NoAtime {
    user: u32,
    refused: bool,
}

impl NoAtime {
    fn new() -> Self {
        Self { user: rustix::process::geteuid().as_raw(), refused: false }
    }

    /// Opens a file for reading with `open`, which is given the flags.
    pub(crate) fn open(
        &mut self,
        owner: u32,
        open: impl Fn(OFlags) -> Result<OwnedFd, Errno>,
    ) -> Result<OwnedFd, Errno> {
        // A FIFO in the place of a file must not hold us up.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        if self.refused || (self.user != 0 && self.user != owner) {
            return open(flags);
        }
        match open(flags | OFlags::NOATIME) {
            Err(Errno::PERM) => {
                self.refused = true;
                open(flags)
            }
            other => other,
        }
    }
}

/// One lane of a [`LocalSource`].
pub type LocalSourceLane = AtOnce<SourceWork>;

/// What a lane of a source reads with.
#[derive(Debug)]
pub struct SourceWork {
    reader: Reader,
    lister: Lister,
    fetcher: Fetcher,
    files: SourceFiles,
    extended: ExtendedReader,
    digester: Digester,
    buffers: Buffers,
}

impl Work for SourceWork {
    fn perform(&mut self, operation: Operation) -> Option<Result<Outcome>> {
        Some(self.answer(operation))
    }

    fn buffers(&mut self) -> &mut Buffers {
        &mut self.buffers
    }
}

impl SourceWork {
    fn answer(&mut self, operation: Operation) -> Result<Outcome> {
        match operation {
            Operation::Inspect { root, path, detail } => {
                inspect_content(&self.reader, (root, &path), (&mut self.extended, detail))
            }
            Operation::List { root, directories, budget, detail } => {
                let root = self.reader.root(root)?;
                Ok(self.lister.list_all(root, directories, Ask { budget, detail }, |_| Ok(()), source_fault))
            }
            Operation::Portion { root, directory, from, entries, detail } => {
                let root = self.reader.root(root)?;
                let (listing, rest) =
                    self.lister.portion(root, &directory, from, (entries, detail), source_fault)?;
                Ok(Outcome::Portion(listing, rest))
            }
            Operation::Fetch { root, directory, target, picks, from, ask, buffer } => {
                let reader = &mut self.reader;
                let fetched =
                    self.fetcher.fetch(reader, (root, &directory), &target, (&picks, from), ask, buffer)?;
                Ok(Outcome::Fetched(fetched))
            }
            Operation::Read { file, extent, buffer } => {
                match self.files.read(&mut self.reader, &file, extent, buffer) {
                    Ok(outcome) => Ok(outcome),
                    Err((error, buffer)) => {
                        self.buffers.return_piece(buffer);
                        Err(error.at(&file.path))
                    }
                }
            }
            Operation::FindHole { file, extent } => {
                let end = self.files.hole_until(&mut self.reader, &file, extent);
                end.map(Outcome::HoleUntil).map_err(|error| error.at(&file.path))
            }
            Operation::Names { accounts } => {
                let names: Result<_> = accounts.into_iter().map(accounts::name_of).collect();
                names.map(Outcome::Names)
            }
            Operation::DigestPicks { root, directory, picks, key } => {
                self.digester.takes(key)?;
                self.digests(root, &directory, &picks).map(Outcome::Digests)
            }
            Operation::Extended { root, path, ask } => {
                let found = extended_of(&self.reader, &mut self.extended, (root, &path), ask);
                found.map_err(|error| error.at(&path))
            }
            Operation::Open { file } => {
                let opened = self.files.open_for_clone(&mut self.reader, &file);
                opened.map(Outcome::Opened).map_err(|error| error.at(&file.path))
            }
            Operation::Confirm { file, ask } => {
                let confirmed = self.files.confirm(&mut self.reader, &file, (&mut self.extended, ask));
                confirmed.map_err(|error| error.at(&file.path))
            }
            _ => Err(Error::new(ErrorKind::Unsupported, "working on the source", "it is only read")),
        }
    }
}

impl SourceWork {
    fn digests(&mut self, root: u16, directory: &EntryPath, picks: &Picks) -> Result<Vec<Result<Digest>>> {
        let Self { reader, digester, .. } = self;
        let listing = &picks.listing;
        reader.with_directory(root, directory, |fd, noatime| {
            let digest = |pick: &Pick| {
                let index = Some(pick.index as usize).filter(|index| *index < listing.len());
                let index = index.ok_or_else(digests::none)?;
                let (name, metadata) = (listing.name(index), listing.metadata(index));
                let open = || noatime.open(metadata.uid, |flags| openat(fd, name, flags, Mode::empty()));
                // A link's time of access changes when it is read, and nothing else.
                let listed = Some(metadata).filter(|metadata| metadata.kind == Kind::File);
                let taken = digester.digest((fd, name), listed, open, source_fault);
                taken.map_err(|error| error.at(place(directory, name)))
            };
            picks.entries.iter().map(digest).collect()
        })
    }
}

/// The extended attributes of an entry of any kind.
fn extended_of(
    reader: &Reader,
    extended: &mut ExtendedReader,
    (root, path): (u16, &EntryPath),
    ask: ExtendedAsk,
) -> Result<Outcome> {
    let flags = if ask.readable { digests::READ } else { OFlags::PATH };
    let opened = reader.root(root)?.open_beneath(path, flags);
    let opened = opened.map_err(|errno| source_fault("opening", errno))?;
    let mut lost = Vec::new();
    let found = extended.read(Place::Proc(&proc_path(&opened)), ask, &mut lost)?.kept;
    check_required(&reader.require, &lost)?;
    extended_outcome(found, lost, path)
}

/// What is told of extended attributes.
pub(crate) fn extended_outcome(
    found: Option<ExtendedRef<'_>>,
    lost: Vec<LossKind>,
    path: &EntryPath,
) -> Result<Outcome> {
    let extended = found.map(|found| Extended::decode(found.as_bytes().to_vec())).transpose()?;
    let loss = |what| Loss { what, count: 1, at_target: false, example: path.as_bytes().to_vec() };
    Ok(Outcome::Extended { extended, losses: lost.into_iter().map(loss).collect() })
}

/// Describes one entry. A block device has the size of its content: it was named.
fn inspect_content(
    reader: &Reader,
    (root, path): (u16, &EntryPath),
    extended: (&mut ExtendedReader, Detail),
) -> Result<Outcome> {
    let root = reader.root(root)?;
    let found = inspect(root, path, extended)?;
    let Outcome::Inspected(Some(metadata)) = &found else { return Ok(found) };
    if metadata.kind != Kind::BlockDevice {
        return Ok(found);
    }
    reader.check_kind(metadata.kind).map_err(|error| error.at(path))?;
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let content = root.open_beneath(path, flags).and_then(metadata::of_content);
    let content = content.map_err(|errno| super::fault::fault("opening the device", errno).at(path))?;
    // Writing to a device leaves no time on it, so what is made of it has that of now: an image is never taken for
    // what is on the disk later.
    let time = metadata::now();
    Ok(Outcome::Inspected(Some(Metadata { mtime: time, ctime: time, ..content })))
}

/// Describes one entry. Something that is no directory in the middle of the path means that there
/// is no such entry.
pub(crate) fn inspect(
    root: &Root,
    path: &EntryPath,
    (extended, Detail { extended: keep, missed, .. }): (&mut ExtendedReader, Detail),
) -> Result<Outcome> {
    let found = root.open_beneath(path, OFlags::PATH).and_then(|opened| {
        let mut found = metadata::of_path(&opened)?;
        if !(keep | missed).is_empty() {
            let place = proc_path(&opened);
            extended.mark(Place::Proc(&place), keep, missed).put(&mut found);
        }
        Ok(found)
    });
    match found {
        Ok(metadata) => Ok(Outcome::Inspected(Some(metadata))),
        Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => Ok(Outcome::Inspected(None)),
        Err(errno) => Err(super::fault::fault("looking at", errno).at(path)),
    }
}
