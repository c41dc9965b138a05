//! Measures object stores by listing and reading, and counts the requests of a copy by a dry run. Nothing is written.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use hakobu_core::counters::CounterTotals;
use hakobu_core::endpoint::{
    CompletionWait, Pick, Picks, PieceBuffer, SourceEndpoint, SourceFile, SourceLane, SourceOp, SourceOutcome,
};
use hakobu_core::entry::{EntryKind, EntryMetadata};
use hakobu_core::error::{Error, ErrorKind, Result};
use hakobu_core::event::{Event, Observer};
use hakobu_core::extent::{CHUNK_BYTES, Extent};
use hakobu_core::job::Job;
use hakobu_core::listing::{Detail, Listing};
use hakobu_core::live_limits::LiveLimits;
use hakobu_core::location::Location;
use hakobu_core::outcome::RunEnvironment;
use hakobu_core::path::EntryPath;

use hakobu_core::probe::MeasuredWork;
use hakobu_core::prompts::Prompts;
use hakobu_core::request::CopyRequest;
use hakobu_core::requests::{RequestCounts, RunRequests};
use hakobu_core::store_settings::StoreSettings;
use hakobu_proto::control::{MachinePath, SourceAsk};

use super::{ProbeRequest, patiently};
use crate::copy::copy;
use crate::host::Host;
use crate::store::StoreHost;

const MEASURING: &str = "measuring the store";
/// The number of single requests that are timed.
const LOOKS: usize = 9;
/// The maximum number of entries that come with the listing of one directory.
const LISTED_AT_ONCE: u32 = 100_000;
/// The maximum size of a small object, and the minimum size of a large one, in bytes.
const SMALL_BYTES_MAX: u64 = 128 << 10;
const LARGE_BYTES_MIN: u64 = CHUNK_BYTES;
/// The bytes of a large object that one lane reads.
const SHARE_BYTES: u64 = 4 * CHUNK_BYTES;

/// The maximum number of directories that are named because they were not listed.
const REMARKS_MAX: usize = 8;

/// The most that a probe takes of a store.
#[derive(Clone, Copy, Debug)]
struct StoreLoad {
    list_for: Duration,
    small: usize,
    lanes: usize,
    read_for: Duration,
    plan_for: Duration,
}

impl StoreLoad {
    fn new(gentle: bool) -> Self {
        match gentle {
            false => Self {
                list_for: Duration::from_secs(3),
                small: 400,
                lanes: 4,
                read_for: Duration::from_millis(1500),
                plan_for: Duration::from_secs(20),
            },
            true => Self {
                list_for: Duration::from_secs(1),
                small: 40,
                lanes: 1,
                read_for: Duration::from_millis(500),
                plan_for: Duration::from_secs(10),
            },
        }
    }
}

/// The measurements of one store.
#[derive(Clone, Debug, Default)]
pub struct StoreFigures {
    /// The location, as typed.
    pub name: Vec<u8>,
    /// True if it is reached through TLS; `None` if that is not known.
    pub uses_tls: Option<bool>,
    /// The time that a request for the metadata of one object takes.
    pub round_trip: Option<Duration>,
    /// The tree, as far as it was listed; `None` if there is none.
    pub tree: Option<StoreTree>,
    /// Small objects that were read.
    pub small: Option<MeasuredWork>,
    /// The content of large objects that was read.
    pub large: Option<MeasuredWork>,
    /// The requests that the probe sent.
    pub requests: RequestCounts,
    /// The measurements that were left out, with the reason.
    pub remarks: Vec<String>,
}

/// The entries below a location in a store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoreTree {
    /// The number of files.
    pub files: u64,
    /// The number of directories.
    pub directories: u64,
    /// The bytes of all files.
    pub bytes: u64,
    /// The requests for listings that it took.
    pub lists: u64,
    /// The time that it took, in nanoseconds.
    pub elapsed_ns: u64,
    /// True if all of it was listed.
    pub complete: bool,
}

/// The requests of a copy.
#[derive(Clone, Debug, Default)]
pub struct StorePlan {
    /// Those that take place to compare both ends.
    pub compared: RunRequests,
    /// Those for the changes.
    pub changes: RunRequests,
    /// The counters of the dry run.
    pub counters: CounterTotals,
    /// True if the dry run came to its end.
    pub complete: bool,
    /// The reason why a copy would fail.
    pub obstacle: Option<Error>,
}

/// The results of a probe of stores.
#[derive(Clone, Debug, Default)]
pub struct StoreProbeResults {
    /// The source and the target, as typed; the source is empty if there is none.
    pub names: (Vec<u8>, Vec<u8>),
    /// The figures of the source, if it is a store.
    pub source: Option<StoreFigures>,
    /// The figures of the target, if it is a store.
    pub target: Option<StoreFigures>,
    /// The requests of a copy, if there is a source.
    pub plan: Option<StorePlan>,
}

/// Returns true if a probe is one of stores.
pub fn concerns(request: &ProbeRequest) -> bool {
    request.source.iter().chain([&request.target]).any(|location| location.store().is_some())
}

/// Measures the stores of a request, and counts the requests of the copy.
///
/// # Errors
/// If a location is not supported, or a store cannot be reached.
pub fn probe(
    request: &ProbeRequest,
    prompts: &mut dyn Prompts,
    observer: &dyn Observer,
    cancel: &Arc<AtomicBool>,
) -> Result<StoreProbeResults> {
    for location in request.source.iter().chain([&request.target]) {
        refuse(location)?;
    }
    let load = StoreLoad::new(request.gentle);
    let name = |location: &Location| location.as_typed().to_vec();
    let mut results = StoreProbeResults {
        names: (request.source.as_ref().map(name).unwrap_or_default(), name(&request.target)),
        ..StoreProbeResults::default()
    };
    if let Some(source) = request.source.as_ref().filter(|source| source.store().is_some()) {
        let measured = || measure(source, &request.source_store, load, cancel);
        results.source = Some(patiently(observer, "the source", measured)?);
    }
    if request.target.store().is_some() {
        let measured = || measure(&request.target, &request.target_store, load, cancel);
        results.target = Some(patiently(observer, "the target", measured)?);
    }
    if let Some(source) = &request.source {
        let planned = || plan(request, source, load, prompts, cancel);
        results.plan = Some(patiently(observer, "the requests of a copy, by a dry run", planned)?);
    }
    check_cancelled(cancel)?;
    Ok(results)
}

/// Refuses locations beside which a store is not probed.
fn refuse(location: &Location) -> Result<()> {
    let is_other_store =
        location.store().is_some_and(|store| !hakobu_core::store_name::is_object_scheme(&store.scheme));
    let words = match () {
        () if location.is_stream() => "a stream gives nothing to measure; name a file or directory",
        () if is_other_store => "a probe measures object stores and places on machines; this is neither",
        () if location.ssh_host().is_some() || location.rsync_host().is_some() => {
            "a store is measured from this machine, which its data passes through; probe the other host by itself"
        }
        () => return Ok(()),
    };
    Err(Error::new(ErrorKind::Unsupported, "looking at the locations", words).at(location.as_typed()))
}

fn check_cancelled(cancel: &AtomicBool) -> Result<()> {
    match cancel.load(Relaxed) {
        true => Err(Error::new(ErrorKind::Cancelled, "measuring", "it was interrupted")),
        false => Ok(()),
    }
}

fn measure(
    location: &Location,
    settings: &StoreSettings,
    load: StoreLoad,
    cancel: &AtomicBool,
) -> Result<StoreFigures> {
    let Some(name) = location.store() else { return Err(unexpected()) };
    let mut host = StoreHost::open(name, settings)?;
    let ask = SourceAsk { path: location.path().to_vec(), contents: true };
    let look = host.look_at_sources(vec![ask])?.into_iter().next().ok_or_else(unexpected)?;
    let mut figures = StoreFigures {
        name: location.as_typed().to_vec(),
        uses_tls: host.uses_tls(),
        ..StoreFigures::default()
    };
    let (root, single) = match look {
        Ok(look) if look.kind == EntryKind::Directory => (MachinePath(look.root), None),
        Ok(look) => (MachinePath(look.root), Some(look.entry)),
        Err(error) if error.kind == ErrorKind::NotFound => {
            let words = "there is nothing at this place yet, so only the time of a request was measured";
            figures.remarks.push(words.to_owned());
            (MachinePath(location.path().to_vec()), None)
        }
        Err(error) => return Err(error),
    };
    let endpoint = host.open_source(&[root], &Job::default())?;
    let mut meter = StoreMeter { lane: endpoint.open_source_lane(0)?, endpoint: &*endpoint, cancel };
    let samples = match single {
        Some(entry) => meter.single(entry)?,
        None if figures.remarks.is_empty() => meter.list(load, &mut figures)?,
        None => TreeSamples::default(),
    };
    figures.round_trip = meter.round_trip(samples.any.as_ref())?;
    figures.small = meter.read_small(&samples)?;
    figures.large = meter.read_large(&samples, load)?;
    if figures.tree.is_some() && figures.small.is_none() {
        figures
            .remarks
            .push("no object of up to 128 KiB was found, so their rate was not measured".to_owned());
    }
    if figures.tree.is_some() && figures.large.is_none() {
        let words = "no object of 4 MiB or more was found, so the throughput was not measured";
        figures.remarks.push(words.to_owned());
    }
    drop(meter);
    figures.requests = endpoint.requests();
    Ok(figures)
}

/// Objects that a listing has shown, to be read.
#[derive(Default)]
struct TreeSamples {
    /// One object.
    any: Option<EntryPath>,
    /// Small objects by directory.
    small: Vec<(EntryPath, Arc<Picks>)>,
    small_count: usize,
    /// The largest object.
    largest: Option<(EntryPath, EntryMetadata)>,
}

impl TreeSamples {
    fn add(&mut self, directory: &EntryPath, listing: Listing, small_max: usize) -> Result<()> {
        let mut entries = Vec::new();
        for index in 0..listing.len() {
            let metadata = listing.metadata(index);
            if metadata.kind != EntryKind::File {
                continue;
            }
            if self.any.is_none() {
                self.any = Some(directory.join(listing.name(index))?);
            }
            if metadata.size_bytes <= SMALL_BYTES_MAX && self.small_count < small_max {
                self.small_count += 1;
                entries.push(Pick { index: index as u32, replaces: false });
            }
            let largest =
                self.largest.as_ref().map_or(LARGE_BYTES_MIN - 1, |(_, largest)| largest.size_bytes);
            if metadata.size_bytes > largest {
                self.largest = Some((directory.join(listing.name(index))?, *metadata));
            }
        }
        if !entries.is_empty() {
            let picks = Picks { listing: Arc::new(listing), entries, target_name: None };
            self.small.push((directory.clone(), Arc::new(picks)));
        }
        Ok(())
    }
}

/// Measures through one lane of a store.
struct StoreMeter<'a> {
    lane: Box<dyn SourceLane>,
    endpoint: &'a dyn SourceEndpoint,
    cancel: &'a AtomicBool,
}

impl StoreMeter<'_> {
    fn ask(&mut self, operation: SourceOp) -> Result<SourceOutcome> {
        ask(&mut *self.lane, operation)
    }

    /// Looks at a single object. Returns it as one to be read.
    fn single(&mut self, path: EntryPath) -> Result<TreeSamples> {
        let stat = SourceOp::Stat { root: 0, path: path.clone(), detail: Detail::default() };
        let SourceOutcome::Stat(Some(found)) = self.ask(stat)? else { return Err(unexpected()) };
        let is_large = found.kind == EntryKind::File && found.size_bytes >= LARGE_BYTES_MIN;
        let largest = is_large.then(|| (path.clone(), found));
        Ok(TreeSamples { any: Some(path), largest, ..TreeSamples::default() })
    }

    /// Lists what is below the root for a limited time. Returns objects to be read.
    fn list(&mut self, load: StoreLoad, figures: &mut StoreFigures) -> Result<TreeSamples> {
        let (began, before) = (Instant::now(), self.endpoint.requests());
        let (mut tree, mut samples) =
            (StoreTree { complete: true, ..StoreTree::default() }, TreeSamples::default());
        let (mut left, mut listed) = (vec![EntryPath::root()], HashSet::new());
        while let Some(path) = left.pop() {
            check_cancelled(self.cancel)?;
            if listed.contains(&path) {
                continue;
            }
            if began.elapsed() > load.list_for {
                tree.complete = false;
                break;
            }
            let list = SourceOp::List {
                root: 0,
                directories: vec![path],
                budget: LISTED_AT_ONCE,
                detail: Detail::default(),
            };
            let SourceOutcome::Listed(directories) = self.ask(list)? else { return Err(unexpected()) };
            for directory in directories {
                let listing = match directory.result {
                    Ok(listing) => listing,
                    Err(error) if directory.path.is_root() => return Err(error),
                    Err(error) => {
                        if figures.remarks.len() < REMARKS_MAX {
                            figures.remarks.push(format!("{}: {error}", directory.path));
                        }
                        tree.complete = false;
                        listed.insert(directory.path);
                        continue;
                    }
                };
                for index in 0..listing.len() {
                    let metadata = listing.metadata(index);
                    if metadata.kind == EntryKind::Directory {
                        tree.directories += 1;
                        left.push(directory.path.join(listing.name(index))?);
                    } else {
                        tree.files += 1;
                        tree.bytes = tree.bytes.saturating_add(metadata.size_bytes);
                    }
                }
                samples.add(&directory.path, listing, load.small)?;
                listed.insert(directory.path);
            }
        }
        tree.lists = self.endpoint.requests().since(&before).list;
        tree.elapsed_ns = nanoseconds(began);
        figures.tree = Some(tree);
        Ok(samples)
    }

    /// Returns the median time of a request.
    fn round_trip(&mut self, object: Option<&EntryPath>) -> Result<Option<Duration>> {
        let path = object.cloned().unwrap_or_else(EntryPath::root);
        let mut times = Vec::with_capacity(LOOKS);
        for _ in 0..LOOKS {
            check_cancelled(self.cancel)?;
            let (began, before) = (Instant::now(), self.endpoint.requests());
            let stat = SourceOp::Stat { root: 0, path: path.clone(), detail: Detail::default() };
            self.ask(stat)?;
            let sent = self.endpoint.requests().since(&before);
            times.push(began.elapsed() / u32::try_from(sent.list + sent.head).unwrap_or(1).max(1));
        }
        times.sort_unstable();
        Ok(times.get(LOOKS / 2).copied())
    }

    /// Reads small objects, as many at a time as a lane of a copy does.
    fn read_small(&mut self, samples: &TreeSamples) -> Result<Option<MeasuredWork>> {
        if samples.small_count == 0 {
            return Ok(None);
        }
        let (began, before) = (Instant::now(), self.endpoint.requests());
        for (directory, picks) in &samples.small {
            check_cancelled(self.cancel)?;
            let directory = directory.clone();
            let digests = SourceOp::DigestPicks {
                root: 0,
                directory,
                picks: Arc::clone(picks),
                key: None,
                stored: false,
            };
            match self.ask(digests)? {
                SourceOutcome::Digests(digests) => drop(digests.into_iter().next().transpose()?),
                _ => return Err(unexpected()),
            }
        }
        let read = self.endpoint.requests().since(&before);
        Ok(Some(work(read.get, read.received_bytes, began, 1)))
    }

    /// Reads a large object for a limited time, with several lanes.
    fn read_large(&mut self, samples: &TreeSamples, load: StoreLoad) -> Result<Option<MeasuredWork>> {
        let Some((path, metadata)) = &samples.largest else { return Ok(None) };
        let file = Arc::new(SourceFile { root: 0, path: path.clone(), metadata: *metadata, tolerant: false });
        let lanes = load.lanes.min(usize::try_from(metadata.size_bytes / CHUNK_BYTES).unwrap_or(1)).max(1);
        let (began, endpoint, cancel) = (Instant::now(), self.endpoint, self.cancel);
        let share = |lane: usize| -> Result<u64> {
            let mut lane_of = endpoint.open_source_lane(lane)?;
            let first = lane as u64 * SHARE_BYTES;
            let first = if first < metadata.size_bytes { first } else { lane as u64 * CHUNK_BYTES };
            let (mut buffer, mut read) = (PieceBuffer::new(), 0);
            let extent = Extent { offset: first, length: SHARE_BYTES.min(metadata.size_bytes - first) };
            for piece in extent.pieces() {
                if cancel.load(Relaxed) || began.elapsed() > load.read_for {
                    break;
                }
                let operation = SourceOp::Read { file: Arc::clone(&file), extent: piece, buffer };
                let SourceOutcome::Read(filled) = ask(&mut *lane_of, operation)? else {
                    return Err(unexpected());
                };
                read += filled.filled().len() as u64;
                buffer = filled;
            }
            Ok(read)
        };
        let read = std::thread::scope(|scope| {
            let lanes: Vec<_> = (0..lanes).map(|lane| scope.spawn(move || share(lane))).collect();
            lanes
                .into_iter()
                .map(|lane| lane.join().unwrap_or_else(|_| Err(unexpected())))
                .sum::<Result<u64>>()
        })?;
        Ok(Some(work(1, read, began, lanes as u16)))
    }
}

fn work(count: u64, bytes: u64, began: Instant, threads: u16) -> MeasuredWork {
    let elapsed_ns = nanoseconds(began);
    MeasuredWork { count, bytes, elapsed_ns, processor_ns: 0, queued_ns: 0, threads }
}

fn nanoseconds(began: Instant) -> u64 {
    u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX).max(1)
}

/// Carries out one operation of a lane.
fn ask(lane: &mut dyn SourceLane, mut operation: SourceOp) -> Result<SourceOutcome> {
    let lost = || Error::new(ErrorKind::ConnectionLost, MEASURING, "the endpoint gave no answer");
    while let Err(back) = lane.submit(0, operation) {
        operation = back;
        if let Some(completion) = lane.reap(CompletionWait::Forever) {
            completion.result?;
        }
    }
    lane.flush();
    lane.reap(CompletionWait::Forever).ok_or_else(lost)?.result
}

fn unexpected() -> Error {
    Error::new(ErrorKind::Protocol, MEASURING, "the answer does not fit the question")
}

/// Keeps the events of a dry run to itself.
struct SilentObserver;

impl Observer for SilentObserver {
    fn event(&self, _event: Event) {}
}

/// Makes a dry run of the copy for a limited time.
fn plan(
    request: &ProbeRequest,
    source: &Location,
    load: StoreLoad,
    prompts: &mut dyn Prompts,
    cancel: &Arc<AtomicBool>,
) -> Result<StorePlan> {
    let copied = CopyRequest {
        sources: vec![source.clone()],
        target: request.target.clone(),
        lanes: request.lanes,
        limits: request.limits.clone(),
        source_store: request.source_store.clone(),
        target_store: request.target_store.clone(),
        dry_run: true,
        ..CopyRequest::default()
    };
    let limits = Arc::new(LiveLimits::new(request.limits.clone(), Instant::now));
    let stop = Arc::new(AtomicBool::new(false));
    let (ended, end) = mpsc::channel::<()>();
    let transfer = std::thread::scope(|scope| {
        let stop_then = Arc::clone(&stop);
        scope.spawn(move || {
            let began = Instant::now();
            while end.recv_timeout(Duration::from_millis(50)) == Err(RecvTimeoutError::Timeout) {
                if cancel.load(Relaxed) || began.elapsed() > load.plan_for {
                    stop_then.store(true, Relaxed);
                }
            }
        });
        let mut environment =
            RunEnvironment { prompts, observer: &SilentObserver, cancel: Arc::clone(&stop), limits };
        let transfer = copy(&copied, &mut environment);
        drop(ended);
        transfer
    });
    check_cancelled(cancel)?;
    let summary = transfer.summary;
    let is_stopped = stop.load(Relaxed);
    let failed = summary.failures.into_iter().next().map(|failure| failure.error.at(&failure.path));
    Ok(StorePlan {
        compared: summary.requests,
        changes: summary.planned_requests,
        counters: summary.counters,
        complete: !is_stopped,
        obstacle: summary.fatal.filter(|_| !is_stopped).or(failed),
    })
}
