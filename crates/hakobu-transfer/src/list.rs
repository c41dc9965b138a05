//! Lists directories at a location, through the endpoint that a copy would read them with. A host that is reached
//! through ssh lists through its SFTP server, so that nothing has to be installed there.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Instant;

use hakobu_core::endpoint::{CompletionWait, SourceLane, SourceOp, SourceOutcome};
use hakobu_core::entry::{AccountId, EntryKind};
use hakobu_core::error::{Error, ErrorKind, Result};
use hakobu_core::event::Observer;
use hakobu_core::job::Job;
use hakobu_core::listed::ListedAttributes;
use hakobu_core::listing::{Detail, Listing};
use hakobu_core::live_limits::LiveLimits;
use hakobu_core::location::Location;
use hakobu_core::path::EntryPath;
use hakobu_core::prompts::Prompts;
use hakobu_core::request::CopyRequest;
use hakobu_proto::control::{MachinePath, SourceAsk};

use crate::opening::{HostOpener, TransferHosts, transport_of_listing};

const LISTING: &str = "listing";

/// The entries of one directory, or a single entry that is none.
#[derive(Clone, Copy, Debug)]
pub struct DirectoryEntries<'a> {
    /// The path of the directory below the listed location.
    pub path: &'a EntryPath,
    /// The entries, sorted.
    pub listing: &'a Listing,
    /// The names of their owners and groups, as far as they have any.
    pub names: &'a HashMap<AccountId, Vec<u8>>,
    /// The attributes that are known of the entries. The others have any value.
    pub listed: ListedAttributes,
}

/// The location to list, and the details to list of each entry.
#[derive(Clone, Debug)]
pub struct LsRequest {
    /// The location, and the login on its host.
    pub copy: CopyRequest,
    /// True to list the directories below it, too.
    pub recursive: bool,
    /// True to look up the names of owners.
    pub names: bool,
}

impl LsRequest {
    /// Returns the request for a location, with defaults for everything else.
    pub fn new(location: Location) -> Self {
        let transport = transport_of_listing(&location);
        let target = location.beside(b"/");
        let copy = CopyRequest { sources: vec![location], target, transport, ..CopyRequest::default() };
        Self { copy, recursive: false, names: false }
    }
}

/// Lists a location. `show` takes each directory; `fail` takes each one below the first that cannot be listed. At most
/// one directory is held in memory, and the names of directories that are still to be listed.
///
/// # Errors
/// If the host cannot be reached, the location cannot be listed, or `show` fails.
pub fn list(
    request: &LsRequest,
    (prompts, observer): (&mut dyn Prompts, &dyn Observer),
    cancel: &Arc<AtomicBool>,
    show: &mut dyn FnMut(DirectoryEntries<'_>) -> Result<()>,
    fail: &mut dyn FnMut(&EntryPath, Error),
) -> Result<()> {
    let limits = &Arc::new(LiveLimits::new(request.copy.limits.clone(), Instant::now));
    let copy = &request.copy;
    let mut opener = HostOpener { request: copy, prompts, observer, cancel, limits, login_limit: None };
    let TransferHosts { mut source, .. } = opener.open()?;
    let asks = copy.sources.iter().map(|typed| SourceAsk { path: typed.path().to_vec(), contents: true });
    let missing = || Error::new(ErrorKind::Protocol, LISTING, "an answer is missing");
    let looks = source.look_at_sources(asks.collect())?;
    let look = looks.into_iter().next().ok_or_else(missing)?;
    let look = look.map_err(|error| named(error, &source.name_of(copy.sources[0].path())))?;
    let endpoint = source.open_source(&[MachinePath(look.root.clone())], &Job::default())?;
    let listed = endpoint.capabilities().listed;
    let lane = endpoint.open_source_lane(0)?;
    let mut lister = LocationLister { lane, names: HashMap::new(), wants_names: request.names };
    let whole = |path: &EntryPath| match path.is_root() {
        true => source.name_of(&look.root),
        false => source.name_of(&[&look.root[..], b"/", path.as_bytes()].concat()),
    };
    if look.kind != EntryKind::Directory {
        let listing = lister.one(&look.entry).map_err(|error| named(error, &whole(&look.entry)))?;
        let listed = ListedAttributes::ALL;
        lister.find_names(&listing, listed)?;
        let path = &EntryPath::root();
        return show(DirectoryEntries { path, listing: &listing, names: &lister.names, listed });
    }
    let mut left = vec![EntryPath::root()];
    while let Some(path) = left.pop() {
        if cancel.load(Relaxed) {
            return Err(Error::new(ErrorKind::Cancelled, LISTING, "stopped as asked"));
        }
        let listing = match lister.directory(&look.entry, &path) {
            Ok(listing) => listing,
            Err(error) if path.is_root() || error.may_retry() => return Err(named(error, &whole(&path))),
            Err(error) => {
                fail(&path, named(error, &whole(&path)));
                continue;
            }
        };
        lister.find_names(&listing, listed)?;
        show(DirectoryEntries { path: &path, listing: &listing, names: &lister.names, listed })?;
        if request.recursive {
            let indices = (0..listing.len()).rev();
            let below = indices.filter(|index| listing.metadata(*index).kind == EntryKind::Directory);
            left.extend(below.filter_map(|index| path.join(listing.name(index)).ok()));
        }
    }
    Ok(())
}

/// Returns an error with the whole path as its place.
fn named(error: Error, place: &[u8]) -> Error {
    Error { at: place.to_vec(), ..error }
}

/// Asks a lane for listings.
struct LocationLister {
    lane: Box<dyn SourceLane>,
    names: HashMap<AccountId, Vec<u8>>,
    wants_names: bool,
}

impl LocationLister {
    /// Carries out one operation.
    fn ask(&mut self, mut operation: SourceOp) -> Result<SourceOutcome> {
        let lost = || Error::new(ErrorKind::ConnectionLost, LISTING, "the endpoint gave no answer");
        while let Err(back) = self.lane.submit(0, operation) {
            operation = back;
            if let Some(completion) = self.lane.reap(CompletionWait::Forever) {
                completion.result?;
            }
        }
        self.lane.flush();
        self.lane.reap(CompletionWait::Forever).ok_or_else(lost)?.result
    }

    /// Lists one directory.
    fn directory(&mut self, top: &EntryPath, path: &EntryPath) -> Result<Listing> {
        let below = match (top.is_root(), path.is_root()) {
            (true, _) => path.clone(),
            (false, true) => top.clone(),
            (false, false) => EntryPath::new([top.as_bytes(), b"/", path.as_bytes()].concat())?,
        };
        let list = SourceOp::List { root: 0, directories: vec![below], budget: 0, detail: Detail::default() };
        match self.ask(list)? {
            SourceOutcome::Listed(listed) => listed.into_iter().next().ok_or_else(unexpected)?.result,
            _ => Err(unexpected()),
        }
    }

    /// Returns the listing of a single entry.
    fn one(&mut self, path: &EntryPath) -> Result<Listing> {
        let inspect = SourceOp::Stat { root: 0, path: path.clone(), detail: Detail::default() };
        let missing = || Error::new(ErrorKind::NotFound, LISTING, "no such file or directory");
        let SourceOutcome::Stat(found) = self.ask(inspect)? else { return Err(unexpected()) };
        let name = path.as_bytes().rsplit(|&byte| byte == b'/').next().unwrap_or_default();
        let mut listing = Listing::with_capacity(1);
        listing.push(name, found.ok_or_else(missing)?)?;
        Ok(listing)
    }

    /// Looks up the names of accounts that were not met before.
    fn find_names(&mut self, listing: &Listing, listed: ListedAttributes) -> Result<()> {
        if !self.wants_names || !listed.owners {
            return Ok(());
        }
        let all = (0..listing.len()).map(|index| listing.metadata(index));
        let mut accounts: Vec<_> =
            all.flat_map(|entry| [AccountId::User(entry.uid), AccountId::Group(entry.gid)]).collect();
        accounts.sort_unstable();
        accounts.dedup();
        accounts.retain(|account| !self.names.contains_key(account));
        if accounts.is_empty() {
            return Ok(());
        }
        let SourceOutcome::Names(found) = self.ask(SourceOp::Names { accounts: accounts.clone() })? else {
            return Err(unexpected());
        };
        let number = |account: &AccountId| account.number().to_string().into_bytes();
        let found = found.into_iter().chain(std::iter::repeat(None));
        for (account, name) in accounts.into_iter().zip(found) {
            let name = name.unwrap_or_else(|| number(&account));
            self.names.insert(account, name);
        }
        Ok(())
    }
}

fn unexpected() -> Error {
    Error::new(ErrorKind::Protocol, LISTING, "the answer does not fit the question")
}
