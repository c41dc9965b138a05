//! Makes the plan of a request: examines locations on their hosts, decides where entries land, and makes the grant.

use std::collections::{BTreeMap, HashSet};
use std::slice;

use hakobu_core::capabilities::ContentSharing;
use hakobu_core::endpoint::DraftKind;
use hakobu_core::entry::{EntryKind, Inode};
use hakobu_core::error::{Error, ErrorKind, Result};
use hakobu_core::event::Observer;
use hakobu_core::filter::FilterRules;
use hakobu_core::grant::{Grant, GrantedPlace};
use hakobu_core::job::{JobItem, Mode, Removal};
use hakobu_core::landing::{
    Ancestry, Landing, LandingRelation, LandingRoot, SourceFound, TargetFound, land, met_by_source,
    met_by_target, mounted_within, nowhere, relation,
};
use hakobu_core::location::Location;
use hakobu_core::path::EntryPath;
use hakobu_core::report::ReportDisk;
use hakobu_proto::control::{MachinePath, SourceAsk, SourceLook, TargetLook};
use rustix::fs::{major, minor};

use crate::devices::{self, AgreedDisks, OtherPairs};
use crate::digest;
use crate::error_paths;
use crate::host::Host;
use crate::opening::TransferHosts;
use hakobu_agent::stream::{self, Streams};
use hakobu_core::prompts::{NoPrompts, Prompts};
use hakobu_core::request::{CopyRequest, LaneSetting, Verify};

/// The number of bytes from which a run on a long network path lasts longer than a login: a login takes some 18 round
/// trips, and one connection has at most some 4 MiB in flight in each.
const LONG_RUN_BYTES: u64 = 128 << 20;
/// The number of lanes for which further logins are started early. Fewer lanes need no further login.
const LANES_FORESEEN: u16 = 4;

/// The plan of an attempt: what is to be done, and with which rights.
#[derive(Debug)]
pub struct TransferPlan {
    /// The sources with their host.
    pub sources: Vec<Vec<u8>>,
    /// The target with its host; the first one of several.
    pub target: Vec<u8>,
    /// The path where a single source lands, or the directory where several do, with the host.
    pub landed: Vec<u8>,
    /// Each source with its target, if they were given in pairs.
    pub pairs: Vec<(Vec<u8>, Vec<u8>)>,
    /// The identity of the job, which is the same for the same sources, targets and remote user.
    pub identity: [u8; 16],
    /// The root directories of the sources.
    pub roots: Vec<MachinePath>,
    /// The directory that the targets of the items are below.
    pub root: Vec<u8>,
    /// The items to copy.
    pub items: Vec<JobItem>,
    /// A directory to create first.
    pub make_directory: Option<EntryPath>,
    /// The target below the root, if it is a directory that does not exist yet.
    pub new_target: Option<EntryPath>,
    /// The rights at the target.
    pub grant: Grant,
    /// The directories by which the source's side may come upon the target.
    pub target_directories: Vec<Inode>,
    /// The places where the sources land.
    places: Vec<Ancestry>,
    /// True if a block device is read or written.
    pub has_disks: bool,
    /// The disk of each source that is one, and that of the first target.
    pub disks: (Vec<Option<ReportDisk>>, Option<ReportDisk>),
    /// True if an end is on a network file system.
    pub over_network: bool,
    /// The number of sectors written to the disks among the sources since those appeared, as their hosts count it.
    pub written_sectors: u64,
}

/// Makes the plan of one attempt.
pub struct Planner<'a> {
    pub request: &'a CopyRequest,
    pub agreed: &'a mut AgreedDisks,
    pub prompts: &'a mut dyn Prompts,
    pub observer: &'a dyn Observer,
}

impl Planner<'_> {
    /// Examines the locations, decides, and asks the user.
    ///
    /// # Errors
    /// Errors in examining locations; `Refused` if data would be destroyed; `Usage` for options that do not go
    /// together.
    pub fn plan(&mut self, hosts: &mut TransferHosts) -> Result<TransferPlan> {
        let TransferHosts { source, target, store_agent } = hosts;
        let (source, target) = (&mut **source, target.as_deref_mut());
        // In a push and on one host the engine's side belongs to the user. Otherwise it is not trusted.
        let is_pushed_there = store_agent.is_some() && source.has_agent();
        // A store that copies within itself keeps all that its objects have.
        let is_within = target.as_deref().is_some_and(|target| {
            let sharing = target.capabilities().shares_with(&source.capabilities());
            sharing == Some(ContentSharing::InStore)
        });
        let trusted = target.is_none() || source.is_here() || is_pushed_there || is_within;
        if self.request.pairs.is_empty() {
            let looks = look_at_sources(source, &self.request.sources, self.request.mode)?;
            self.foresee(&looks, [Some(&*source), target.as_deref()]);
            let names = names(source, &looks);
            let host = target.unwrap_or(source);
            let mut plan = self.one(self.request, host, &looks, &mut OtherPairs::default(), trusted)?;
            plan.finish(self.request, names);
            plan.written_sectors = written_sectors(&looks);
            return Ok(plan);
        }
        let sources: Vec<_> = self.request.pairs.iter().map(|pair| pair.0.clone()).collect();
        let looks = look_at_sources(source, &sources, self.request.mode)?;
        self.foresee(&looks, [Some(&*source), target.as_deref()]);
        let names = names(source, &looks);
        let host = target.unwrap_or(source);
        let mut whole: Option<TransferPlan> = None;
        let mut others = OtherPairs::default();
        others.several = self.request.pairs.len() > 1;
        let mut refused = Vec::new();
        for (index, (from, to)) in self.request.pairs.iter().enumerate() {
            let (before, rest) = looks.split_at(index);
            let Some((look, behind)) = rest.split_first() else { break };
            others.sources = [before, behind];
            let request =
                CopyRequest { sources: vec![from.clone()], target: to.clone(), ..self.request.clone() };
            if look.kind == EntryKind::Directory {
                let words = "pairs are for files and disks; copy trees one by one";
                return Err(Error::new(ErrorKind::Usage, "looking at the source", words).at(from.as_typed()));
            }
            let part = match self.one(&request, host, slice::from_ref(look), &mut others, trusted) {
                // A user who has to name many disks wants to see all refusals at once.
                Err(error) if error.kind == ErrorKind::Refused && !self.agreed.is_declined() => {
                    refused.push(error);
                    others.asks_no_more = true;
                    continue;
                }
                part => part?,
            };
            match &mut whole {
                None => whole = Some(part.named_from_the_top()?),
                Some(whole) => whole.add(part.named_from_the_top()?, to)?,
            }
        }
        if let Some(error) = together(refused, self.request.pairs.len()) {
            return Err(error);
        }
        let none = || Error::new(ErrorKind::Usage, "looking at the pairs", "there are none");
        let mut plan = whole.ok_or_else(none)?;
        let is_source = |(_, target): &&(Vec<u8>, Vec<u8>)| names.iter().any(|(source, _)| source == target);
        let is_source_by_another_name = plan.places.iter().position(|place| {
            looks.iter().any(|look| relation(&look.ancestry, false, place) == LandingRelation::Same)
        });
        if !self.request.mode.only_reads()
            && let Some((_, both)) = plan
                .pairs
                .iter()
                .find(is_source)
                .or(is_source_by_another_name.map(|index| &plan.pairs[index]))
        {
            let words = "it is the target of one pair and the source of another, which would be read while it is written";
            return Err(Error::new(ErrorKind::Refused, "looking at the pairs", words).at(both));
        }
        plan.finish(self.request, names);
        plan.written_sectors = written_sectors(&looks);
        Ok(plan)
    }

    /// Lets logins begin early if much data will go through ssh.
    fn foresee(&self, looks: &[SourceLook], parties: [Option<&dyn Host>; 2]) {
        let request = self.request;
        // The amount of content in a tree is not known yet.
        let files = looks.iter().filter(|look| matches!(look.kind, EntryKind::File | EntryKind::BlockDevice));
        let bytes = files.fold(0_u64, |sum, look| sum.saturating_add(look.size_bytes));
        let apart = parties.iter().all(Option::is_some);
        let writes = !request.dry_run && !request.mode.only_reads();
        let few = matches!(request.lanes, LaneSetting::Count(count) if count < LANES_FORESEEN);
        if !apart || !writes || few || bytes < LONG_RUN_BYTES {
            return;
        }
        for host in parties.into_iter().flatten() {
            host.foresee_many(request.transport);
        }
    }

    /// Makes the plan for one target.
    fn one(
        &mut self,
        request: &CopyRequest,
        host: &mut dyn Host,
        sources: &[SourceLook],
        others: &mut OtherPairs<'_>,
        trusted: bool,
    ) -> Result<TransferPlan> {
        let path = request.target.path();
        let target = match request.target.is_stream() {
            true => stream::look_at_output(),
            false => host.look_at_target(path).map_err(|error| error_paths::on(host, path, error))?,
        };
        if !request.mode.only_reads() {
            devices::refuse_stray(&request.target, &target)?;
            others.refuse_shared(&request.target, &target)?;
        }
        let landing = landing(request, sources, &target)?;
        let looks = (sources, &target);
        let agreed = (&mut *self.agreed, others.several);
        let prompts = if others.asks_no_more { &mut NoPrompts } else { &mut *self.prompts };
        let disk = devices::check(request, looks, agreed, prompts, self.observer)?;
        let (root, places) = root_and_places(&landing, &target)?;
        // Nothing is written if only digests are computed.
        let apart = match request.mode.is_digest() {
            true => ForbiddenDirectories::default(),
            false => refuse_nesting(request, host, sources, (&root, &places))?,
        };
        let mut grant = grant(sources, &places, &landing, trusted);
        grant.source_directories = apart.source_directories;
        grant.may_set_id |= request.allow.set_id;
        grant.may_make_devices |= request.allow.devices;
        grant.may_chown &= request.preserve.owner;
        grant.only_reads = request.dry_run || request.mode == Mode::Compare;
        grant.may_write_in_place = request.in_place && request.mode == Mode::Delta;
        grant.may_remove = request.removal != Removal::Leave;
        if let Some(disk) = &disk {
            for place in &mut grant.places {
                (place.device, place.only_goes_on) = (Some(disk.place_id.clone()), disk.only_goes_on);
            }
        }
        let landed = match landing.root {
            LandingRoot::Stream => stream::OUTPUT_NAME.to_vec(),
            _ => host.name_of(&landed(&root, &places, &landing)),
        };
        let resolved = host.name_of(&target.resolved);
        let replaced = |path: &EntryPath| {
            sources.iter().zip(&places).any(|(source, place)| place == path && source.entry.is_root())
        };
        let in_place = host.capabilities().writes_in_place;
        let item = |(root, (source, place)): (usize, (&SourceLook, &EntryPath))| JobItem {
            root: root as u16,
            source: source.entry.clone(),
            target: place.clone(),
            place: draft_kind((request.mode, in_place), &landing, source, target.found),
        };
        Ok(TransferPlan {
            sources: Vec::new(),
            pairs: vec![(Vec::new(), landed.clone())],
            target: disk.map_or_else(|| resolved.clone(), |disk| host.name_of(disk.place_id.as_bytes())),
            landed,
            identity: [0; 16],
            roots: sources.iter().map(|source| MachinePath(source.root.clone())).collect(),
            items: sources.iter().zip(&places).enumerate().map(item).collect(),
            new_target: landing.create_target_directory.clone(),
            make_directory: landing.create_target_directory.clone().filter(|path| !replaced(path)),
            root,
            grant,
            target_directories: apart.target_directories,
            places: apart.places,
            written_sectors: 0,
            over_network: target.network || sources.iter().any(|source| source.network),
            has_disks: target.device.is_some() || sources.iter().any(|source| source.device.is_some()),
            disks: (
                sources.iter().map(|source| source.device.as_deref().map(ReportDisk::from)).collect(),
                target.device.as_deref().map(ReportDisk::from),
            ),
        })
    }
}

/// Combines the refusals of several pairs into one error.
fn together(mut refused: Vec<Error>, count: usize) -> Option<Error> {
    if refused.len() < 2 {
        return refused.pop();
    }
    let each: Vec<_> = refused.iter().map(ToString::to_string).collect();
    let words = format!("{} of {count} are refused:\n{}", each.len(), each.join("\n"));
    Some(Error::new(ErrorKind::Refused, "looking at the pairs", words))
}

impl TransferPlan {
    /// Returns the file systems of the source's directories, if these are on the target's host.
    pub fn source_file_systems(&self) -> Vec<u64> {
        let mut systems: Vec<_> =
            self.grant.source_directories.iter().map(|directory| directory.file_system).collect();
        systems.sort_unstable();
        systems.dedup();
        systems
    }

    /// Returns the plan with all targets named from the root of the file system.
    fn named_from_the_top(mut self) -> Result<Self> {
        let root = EntryPath::new(self.root.strip_prefix(b"/").unwrap_or(&self.root).to_vec())?;
        let below = |path: &EntryPath| match path.is_root() {
            true => Ok(root.clone()),
            false if root.is_root() => Ok(path.clone()),
            false => EntryPath::new([root.as_bytes(), b"/", path.as_bytes()].concat()),
        };
        for item in &mut self.items {
            item.target = below(&item.target)?;
        }
        for place in &mut self.grant.places {
            place.path = below(&place.path)?;
        }
        self.root = b"/".to_vec();
        self.new_target = None;
        Ok(self)
    }

    /// Adds one more pair.
    fn add(&mut self, more: TransferPlan, typed: &Location) -> Result<()> {
        let taken = |item: &JobItem| self.items.iter().any(|known| known.target == item.target);
        if more.items.iter().any(taken) {
            let words = "another pair has the same target";
            return Err(Error::new(ErrorKind::Usage, "looking at the pairs", words).at(typed.as_typed()));
        }
        let first = self.roots.len() as u16;
        self.items.extend(more.items.into_iter().map(|item| JobItem { root: item.root + first, ..item }));
        self.roots.extend(more.roots);
        self.pairs.extend(more.pairs);
        self.places.extend(more.places);
        self.grant.places.extend(more.grant.places);
        self.has_disks |= more.has_disks;
        self.disks.0.extend(more.disks.0);
        self.over_network |= more.over_network;
        let sum = self.grant.bytes_max.zip(more.grant.bytes_max);
        self.grant.bytes_max = sum.map(|(one, other)| one.saturating_add(other));
        Ok(())
    }

    /// Completes the plan with what is known at the end. `names`: the name of each source for messages, and what
    /// identifies it in the job.
    fn finish(&mut self, request: &CopyRequest, names: Vec<(Vec<u8>, Vec<u8>)>) {
        let mut hasher = blake3::Hasher::new_derive_key("hakobu job identity 1");
        let mut take = |text: &[u8]| {
            hasher.update(&(text.len() as u64).to_le_bytes());
            hasher.update(text);
        };
        names.iter().for_each(|(_, identity)| take(identity));
        if Streams::of(request) != Streams::default() {
            // Any number of processes may read the same source, each with streams of its own.
            take(&std::process::id().to_le_bytes());
        }
        if request.pairs.is_empty() {
            take(&self.target);
            self.pairs.clear();
        } else {
            self.pairs.iter().for_each(|(_, target)| take(target));
            self.pairs.iter_mut().zip(&names).for_each(|(pair, (name, _))| pair.0.clone_from(name));
        }
        let target = request.pairs.first().map_or(&request.target, |pair| &pair.1);
        if let (Some(_), Some(place)) = (target.store(), self.places.first()) {
            take(store_of(place));
        }
        let user = target.ssh_host().and_then(|host| host.user.clone()).unwrap_or_default();
        hasher.update(user.as_bytes());
        self.identity.copy_from_slice(&hasher.finalize().as_bytes()[..16]);
        self.sources = names.into_iter().map(|(name, _)| name).collect();
        // For messages, the target is the path where entries land.
        if let Some((_, landed)) = self.pairs.first() {
            self.target.clone_from(landed);
        }
    }
}

/// Returns the name of each source for messages, and what identifies it in the job. For a disk that is its ID,
/// because its path may change when its host is restarted.
fn names(host: &dyn Host, looks: &[SourceLook]) -> Vec<(Vec<u8>, Vec<u8>)> {
    let name = |look: &SourceLook| {
        let name = host.name_of(&look.resolved);
        let disk = look.device.as_ref().map(|disk| host.name_of(disk.identity.place_id.as_bytes()));
        let store = if host.is_store() { store_of(&look.ancestry) } else { b"" };
        (name.clone(), disk.unwrap_or_else(|| [&name, store].concat()))
    };
    looks.iter().map(name).collect()
}

/// Returns what tells the store of a path from others that have a bucket of this name.
fn store_of(path: &Ancestry) -> &[u8] {
    path.upwards.first().map_or(b"", |itself| itself.boot_id.as_bytes())
}

fn written_sectors(looks: &[SourceLook]) -> u64 {
    looks.iter().filter_map(|look| look.written_sectors).fold(0, u64::saturating_add)
}

/// Returns the number of sectors written so far to the disks among the sources, see [`TransferPlan::written_sectors`].
///
/// # Errors
/// If one of them can no longer be examined.
pub fn written_by_now(request: &CopyRequest, source: &mut dyn Host) -> Result<u64> {
    let of_pairs = request.pairs.iter().map(|pair| pair.0.clone());
    let sources: Vec<_> = request.sources.iter().cloned().chain(of_pairs).collect();
    look_at_sources(source, &sources, request.mode).map(|looks| written_sectors(&looks))
}

fn look_at_sources(host: &mut dyn Host, sources: &[Location], mode: Mode) -> Result<Vec<SourceLook>> {
    if let [source] = sources
        && source.is_stream()
    {
        return Ok(vec![stream::look_at_input()?]);
    }
    let asks = sources.iter().map(|source| SourceAsk {
        path: source.path().to_vec(),
        contents: source.means_contents() || mode.is_digest(),
    });
    let looks = host.look_at_sources(asks.collect())?;
    if looks.len() != sources.len() {
        return Err(Error::new(ErrorKind::Protocol, "looking at the sources", "an answer is missing"));
    }
    let looks = looks.into_iter().zip(sources);
    looks.map(|(look, source)| look.map_err(|error| error_paths::on(host, source.path(), error))).collect()
}

fn landing(request: &CopyRequest, sources: &[SourceLook], target: &TargetLook) -> Result<Landing> {
    let found: Vec<_> = request
        .sources
        .iter()
        .zip(sources)
        .map(|(location, look)| SourceFound { location, kind: look.kind })
        .collect();
    if let Mode::Digest(algorithm) = request.mode {
        digest::check(&found, algorithm)?;
    }
    if request.mode.is_digest() && sources.iter().all(|source| source.kind == EntryKind::Directory) {
        return Ok(nowhere());
    }
    if let Some(tree) = found.iter().find(|source| source.kind == EntryKind::Directory) {
        let words = match request.verify {
            _ if request.passes.is_some() => "passes are for files and disks; run sync again for a tree",
            Verify::Medium => "--verify medium is for single files and disks in this version",
            _ => "",
        };
        if !words.is_empty() {
            let error = Error::new(ErrorKind::Usage, "looking at the source", words);
            return Err(error.at(tree.location.as_typed()));
        }
    }
    if request.mode == Mode::Compare && matches!(target.found, TargetFound::Absent { .. }) {
        let error =
            Error::new(ErrorKind::NotFound, "looking at the target", "there is nothing to compare with");
        return Err(error.at(request.target.as_typed()));
    }
    if request.mode == Mode::Compare && target.found == TargetFound::Symlink {
        let words = "it is a symbolic link; name the file that it leads to";
        let error = Error::new(ErrorKind::Usage, "looking at the target", words);
        return Err(error.at(request.target.as_typed()));
    }
    land(&found, &request.target, target.found)
}

/// The directories by which each end may come upon the other while it scans its tree. Empty if the ends are on
/// different hosts.
#[derive(Debug, Default)]
struct ForbiddenDirectories {
    source_directories: Vec<Inode>,
    target_directories: Vec<Inode>,
    places: Vec<Ancestry>,
}

/// Refuses a copy onto or into itself, or onto or into another one of the sources.
fn refuse_nesting(
    request: &CopyRequest,
    target: &mut dyn Host,
    sources: &[SourceLook],
    (root, places): (&[u8], &[EntryPath]),
) -> Result<ForbiddenDirectories> {
    let there = target.look_at_places(root, places).map_err(|error| error_paths::on(target, root, error))?;
    if there.len() != places.len() {
        return Err(Error::new(ErrorKind::Protocol, "looking at the target", "an answer is missing"));
    }
    let ends = || sources.iter().zip(&request.sources);
    // Each source is first compared with its own place, because that is the error that users expect.
    for ((source, typed), place) in ends().zip(&there) {
        relation(&source.ancestry, source.kind == EntryKind::Directory, place)
            .check(typed, &request.target)?;
    }
    // There may be many files, each with its own place, so their identities are looked up in a set.
    let taken: HashSet<_> =
        there.iter().filter(|place| place.exists).filter_map(|place| place.upwards.first()).collect();
    let mut apart = ForbiddenDirectories::default();
    for (source, typed) in ends() {
        if source.ancestry.upwards.first().is_some_and(|itself| taken.contains(itself)) {
            LandingRelation::Same.check(typed, &request.target)?;
        }
        if source.kind != EntryKind::Directory {
            continue;
        }
        for place in &there {
            relation(&source.ancestry, true, place).check(typed, &request.target)?;
            refuse_mounts(request, (&source.ancestry, typed), place)?;
            add_directories(met_by_target(&source.ancestry, place), &mut apart.source_directories);
            add_directories(met_by_source(&source.ancestry, place), &mut apart.target_directories);
        }
    }
    apart.places = there;
    Ok(apart)
}

/// Refuses trees in which a mount leads to the other end. If there are filter rules, which may exclude the mount, the
/// run checks this when it gets there.
fn refuse_mounts(
    request: &CopyRequest,
    (source, typed): (&Ancestry, &Location),
    place: &Ancestry,
) -> Result<()> {
    if request.filter != FilterRules::default() {
        return Ok(());
    }
    let Some((mounted_at, at_source)) = mounted_within(source, place, request.one_file_system) else {
        return Ok(());
    };
    let words = match at_source {
        true => format!(
            "it is mounted within {typed}, or holds what is, so source and target would be one place there; unmount it, or \
             leave it out (--exclude)"
        ),
        false => format!(
            "what is mounted there is within {typed}, or holds it, so source and target would be one place there; unmount \
             it, or leave it out (--exclude)"
        ),
    };
    Err(Error::new(ErrorKind::Refused, "copying to the mount", words).at(mounted_at))
}

fn add_directories(met: impl IntoIterator<Item = (u64, u64)>, directories: &mut Vec<Inode>) {
    for (device, number) in met {
        let inode = Inode { file_system: u64::from(major(device)) << 32 | u64::from(minor(device)), number };
        if !directories.contains(&inode) {
            directories.push(inode);
        }
    }
}

/// Returns the kind of draft that a source's content is written to.
fn draft_kind(
    (mode, in_place): (Mode, bool),
    landing: &Landing,
    source: &SourceLook,
    found: TargetFound,
) -> DraftKind {
    let content = matches!(source.kind, EntryKind::File | EntryKind::BlockDevice);
    match (landing.root, mode) {
        (LandingRoot::Discard, _) => DraftKind::Sink,
        (LandingRoot::Stream, _) => DraftKind::Stream,
        // Entries of trees are compared one by one.
        (_, Mode::Compare) if content => DraftKind::Compare,
        (LandingRoot::Device, _) => DraftKind::Device,
        (LandingRoot::Parent, Mode::Delta) if in_place && content && found == TargetFound::File => {
            DraftKind::InPlace
        }
        _ => DraftKind::File,
    }
}

/// Returns the target's root directory, and the place of each source below it.
pub fn root_and_places(landing: &Landing, target: &TargetLook) -> Result<(Vec<u8>, Vec<EntryPath>)> {
    Ok(match landing.root {
        LandingRoot::Target => (target.resolved.clone(), landing.places.clone()),
        LandingRoot::Parent => (target.parent.clone(), landing.places.clone()),
        LandingRoot::Discard | LandingRoot::Device | LandingRoot::Stream => {
            (target.parent.clone(), vec![EntryPath::new(target.name.clone())?])
        }
    })
}

/// Returns the path where a single source lands, or the directory where several do.
fn landed(root: &[u8], places: &[EntryPath], landing: &Landing) -> Vec<u8> {
    let mut landed = root.to_vec();
    let place = match places {
        [place] => Some(place),
        _ => landing.create_target_directory.as_ref(),
    };
    if let Some(place) = place.filter(|place| !place.is_root()) {
        if landed != b"/" {
            landed.push(b'/');
        }
        landed.extend_from_slice(place.as_bytes());
    }
    landed
}

fn grant(sources: &[SourceLook], places: &[EntryPath], landing: &Landing, trusted: bool) -> Grant {
    let mut granted: BTreeMap<EntryPath, bool> = BTreeMap::new();
    for (source, place) in sources.iter().zip(places) {
        *granted.entry(place.clone()).or_default() |= source.kind == EntryKind::Directory;
    }
    if let Some(directory) = &landing.create_target_directory {
        granted.entry(directory.clone()).or_default();
    }
    let files_only =
        sources.iter().all(|source| matches!(source.kind, EntryKind::File | EntryKind::BlockDevice));
    Grant {
        places: granted.into_iter().map(|(path, tree)| GrantedPlace::new(path, tree)).collect(),
        may_chown: true,
        may_set_id: trusted,
        may_make_devices: trusted,
        may_remove: false,
        only_reads: false,
        bytes_max: files_only
            .then(|| sources.iter().map(|source| source.size_bytes).fold(0, u64::saturating_add)),
        may_write_in_place: false,
        source_directories: Vec::new(),
        lease: None,
    }
}
