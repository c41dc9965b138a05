//! The source: directories of a server, read by lanes.

mod fetch;
mod large;

use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex};

use hakobu_core::capabilities::Capabilities;
use hakobu_core::digest::Digest;
use hakobu_core::endpoint::{Endpoint, Lane, Operation, Outcome, Picks, SourceFile};
use hakobu_core::entry::{Kind, Metadata};
use hakobu_core::path::EntryPath;
use hakobu_core::tag::{TagKey, Tagger};
use hakobu_core::{Error, ErrorKind, Result};

use super::list::{list_all, list_whole};
use super::queue::{Course, Queue, Store, Work};
use super::reading;
use super::requests::{attrs, data};
use super::server::Server;
use super::site::{End, Site};
use super::{Access, SftpLook, Stops, TIME_STEP_NS};
use crate::local::fault::{changed, place};
use crate::local::positioned::wrong_size;
use crate::time_steps::TimeSteps;
use large::LargeReader;

/// How far the clocks of this machine and of a server may be apart for a change a moment ago to be seen as one.
const CLOCKS_APART_NS: u32 = 1_000_000_000;

/// Directories of a server, opened to be read. Roots are numbered as they were given.
pub struct SftpSource {
    access: Access,
    /// Whole paths.
    roots: Arc<[Vec<u8>]>,
    capabilities: Capabilities,
    look: Server,
    steps: TimeSteps,
    /// Set when the run has failed already.
    stops: Stops,
}

impl SftpSource {
    /// Takes directories, by their whole paths. `look` is a connection that nobody else uses while this lives.
    pub fn new(access: Access, look: &SftpLook, roots: &[Vec<u8>]) -> Self {
        let mut capabilities = Capabilities::posix(access.is_root);
        capabilities.time_step_ns = TIME_STEP_NS;
        (capabilities.remote, capabilities.inodes) = (true, false);
        Self {
            access,
            roots: roots.into(),
            capabilities,
            look: look.server().clone(),
            steps: TimeSteps::of_another_machine(TIME_STEP_NS, CLOCKS_APART_NS),
            stops: Stops::default(),
        }
    }
}

impl Endpoint for SftpSource {
    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    fn open_lane(&self, index: usize) -> Result<Box<dyn Lane>> {
        let server = self.access.server(index, &self.look, &self.stops)?;
        let site = |root: &Vec<u8>| Site::new(server.clone(), End::Source, root.clone());
        let sites = self.roots.iter().map(site).collect();
        let store = Store::default();
        let (large, steps) = (Mutex::default(), self.steps.clone());
        let work = SourceWork { sites, store: store.clone(), large, steps };
        Ok(Box::new(Queue::new(Arc::new(work), server, store)))
    }

    fn meet_time_step(&self, step_ns: u32) {
        self.steps.meet(step_ns);
    }

    fn interrupt(&self) {
        self.stops.ended.store(true, Relaxed);
    }

    /// Each is a login.
    fn may_open_lane(&self, has_work: bool) -> bool {
        has_work
    }

    fn lanes_are_complete(&self) {
        self.stops.complete.store(true, Relaxed);
    }
}

/// What a lane of a source reads with.
pub(crate) struct SourceWork {
    sites: Vec<Site>,
    store: Store,
    steps: TimeSteps,
    /// The large file that was read last, as it is open. Taken out while it is used.
    large: Mutex<Option<LargeReader>>,
}

impl Work for SourceWork {
    fn course(self: Arc<Self>, operation: Operation) -> Course {
        Box::pin(async move { Some(self.answer(operation).await) })
    }
}

impl SourceWork {
    fn site(&self, root: u16) -> Result<&Site> {
        let missing = || Error::new(ErrorKind::Usage, "reading", format!("the source has no root {root}"));
        self.sites.get(usize::from(root)).ok_or_else(missing)
    }

    async fn answer(&self, operation: Operation) -> Result<Outcome> {
        match operation {
            Operation::Inspect { root, path, detail: _ } => {
                self.site(root)?.inspect(&path).await.map(Outcome::Inspected)
            }
            Operation::List { root, directories, budget, detail: _ } => {
                Ok(list_all(self.site(root)?, directories, budget, |_| Ok(()), |_, _| ()).await)
            }
            // All of it at once: parts of a listing are asked for ahead, which a portion would have to give up.
            Operation::Portion { root, directory, .. } => {
                Ok(Outcome::Portion(list_whole(self.site(root)?, &directory).await?, None))
            }
            Operation::Fetch { root, directory, target, picks, from, ask: _, buffer } => {
                let site = self.site(root)?;
                let fetched =
                    fetch::fetch((site, &self.steps), (&directory, &target), (&picks, from), buffer).await;
                Ok(Outcome::Fetched(fetched))
            }
            Operation::Read { file, extent, buffer } => {
                self.read(&file, extent, buffer).await.map_err(|error| error.at(&file.path))
            }
            Operation::Confirm { file, ask: _ } => {
                self.confirm(&file).await.map_err(|error| error.at(&file.path))
            }
            Operation::DigestPicks { root, directory, picks, key } => {
                self.digests(self.site(root)?, &directory, &picks, key).await.map(Outcome::Digests)
            }
            // Version 3 has no extended attributes, and no names of accounts.
            Operation::Extended { .. } => Ok(Outcome::Extended { extended: None, losses: Vec::new() }),
            Operation::Names { accounts } => Ok(Outcome::Names(vec![None; accounts.len()])),
            _ => {
                let words = "an sftp server cannot do that";
                Err(Error::new(ErrorKind::Unsupported, "working on the source", words))
            }
        }
    }

    /// Checks that a file is still the version that was listed.
    async fn confirm(&self, file: &SourceFile) -> Result<Outcome> {
        let site = self.site(file.root)?;
        let (connection, size_bytes) = (&site.server.connection, file.metadata.size_bytes);
        let reader = self.open(site, file).await?;
        // Behind its end: looked for before its version is, so that what grows is told apart from what lies.
        let more = connection.read(&reader.handle, size_bytes, 1);
        let now = connection.look(&site.whole(&file.path));
        drop(connection.close(&reader.handle));
        let more = data(more, 1).await.map_err(|refusal| site.error("reading", refusal))?;
        match attrs(now).await.map_err(|refusal| site.error("looking at", refusal))? {
            Some(now) if !file.metadata.same_version(&now) => Err(changed("reading")),
            Some(_) if more.is_empty() => Ok(Outcome::Extended { extended: None, losses: Vec::new() }),
            Some(_) => Err(wrong_size("reading", size_bytes + 1, size_bytes)),
            None => Err(changed("reading")),
        }
    }

    async fn digests(
        &self,
        site: &Site,
        directory: &EntryPath,
        picks: &Picks,
        key: Option<TagKey>,
    ) -> Result<Vec<Result<Digest>>> {
        site.check_way(directory).await?;
        let tagger = key.map(Tagger::new).transpose()?;
        let tagger = tagger.as_ref();
        let listing = &picks.listing;
        let name = |index: u32| (index as usize) < listing.len();
        if !picks.entries.iter().all(|pick| name(pick.index)) {
            return Err(Error::new(ErrorKind::Usage, "reading", "an entry that is not in the listing"));
        }
        let digest = |index: usize| {
            let (name, metadata): (&[u8], Metadata) = (listing.name(index), *listing.metadata(index));
            let (whole, at) = (site.in_directory(directory, name), place(directory, name));
            async move {
                // A link's time of access changes when it is read, and nothing else.
                let listed =
                    Some(&metadata).filter(|metadata| matches!(metadata.kind, Kind::File | Kind::Symlink));
                reading::digest((site, &whole), listed, tagger).await.map_err(|error| error.at(&at))
            }
        };
        Ok(reading::at_once(picks.entries.iter().map(|pick| digest(pick.index as usize))).await)
    }
}
