//! Checks block devices as source or target: what must be agreed on before one is read or written.

use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};

use hakobu_core::disk::{
    DeviceFacts, DeviceIdentity, DeviceNumber, DeviceRelation, Signature, SignatureKind, TableKind, relation,
};
use hakobu_core::error::{Error, ErrorKind, Result};
use hakobu_core::event::{Event, Observer};
use hakobu_core::landing::TargetFound;
use hakobu_core::location::Location;
use hakobu_core::units::format_bytes;
use hakobu_endpoints::block::contract::{
    ConsentNeeded, RefusalKind, Verdict, Wanted, source_verdict, stray_refusal, target_verdict,
};
use hakobu_endpoints::local::open_exclusively;
use hakobu_proto::control::{SourceLook, TargetLook};
use rustix::fs::{major, minor};

use hakobu_agent::machine;
use hakobu_core::prompts::Prompts;
use hakobu_core::request::CopyRequest;

/// The operation named in errors if a device must not be written.
const WRITING: &str = "writing to the device";

/// The disks that the user agreed to overwrite. The agreement stays valid while a lost connection is retried,
/// although the content of the disk has changed by then.
#[derive(Debug, Default)]
pub struct AgreedDisks {
    disks: Vec<WritableDisk>,
    /// True if the user was asked and did not agree.
    declined: bool,
}

impl AgreedDisks {
    /// Records that a run has written the disks successfully, so that their content is now that of the run.
    pub fn is_written(&mut self) {
        self.disks.iter_mut().for_each(|disk| disk.only_goes_on = false);
    }

    /// Returns true if the user has declined, so that no further question is asked.
    pub fn is_declined(&self) -> bool {
        self.declined
    }

    fn find(&self, identity: &DeviceIdentity) -> Option<&WritableDisk> {
        self.disks.iter().find(|disk| disk.place_id == identity.place_id)
    }
}

/// The sources and targets of the other pairs of a run.
#[derive(Debug, Default)]
pub struct OtherPairs<'a> {
    /// The sources before and after this one.
    pub sources: [&'a [SourceLook]; 2],
    /// The disks that pairs before this one write.
    targets: Vec<DeviceIdentity>,
    /// True if there are several pairs, each of which may have an ID among the confirmed ones.
    pub several: bool,
    /// True if a pair before this one was refused, so that no further agreement would have an effect.
    pub asks_no_more: bool,
}

impl OtherPairs<'_> {
    /// Refuses a target that shares a disk with another pair, under any name and through any host.
    ///
    /// # Errors
    /// `Refused`.
    pub fn refuse_shared(&mut self, typed: &Location, target: &TargetLook) -> Result<()> {
        let Some(facts) = &target.device else { return Ok(()) };
        let identity = &facts.identity;
        let shares = |other: &DeviceIdentity| relation(identity, other) != DeviceRelation::Unrelated;
        let is_read = |source: &SourceLook| {
            source.device.as_ref().is_some_and(|device| shares(&device.identity))
                || is_behind(source, identity)
        };
        let words = if self.sources.iter().copied().flatten().any(is_read) {
            "another pair reads this disk, or a part of it, which would be read while it is written"
        } else if self.targets.iter().any(shares) {
            "another pair writes to this disk, or to a part of it"
        } else {
            self.targets.push(identity.clone());
            return Ok(());
        };
        Err(Error::new(ErrorKind::Refused, "looking at the pairs", words).at(typed.as_typed()))
    }
}

/// A disk that may be written.
#[derive(Clone, Debug)]
pub struct WritableDisk {
    /// The disk's ID without its partition table, see [`DeviceIdentity::place_id`].
    pub place_id: String,
    /// True if nobody was asked because an interrupted copy is to be resumed: see `GrantedPlace::only_goes_on`.
    pub only_goes_on: bool,
}

/// Checks all devices of a copy. Returns the target's disk if it is to be written.
///
/// # Errors
/// `Refused`, with every reason, if one must not be read or written. `Locked` if a lost agent still holds the target.
pub fn check(
    request: &CopyRequest,
    (sources, target): (&[SourceLook], &TargetLook),
    (agreed, several): (&mut AgreedDisks, bool),
    prompts: &mut dyn Prompts,
    observer: &dyn Observer,
) -> Result<Option<WritableDisk>> {
    for (source, typed) in sources.iter().zip(&request.sources) {
        if let Some(facts) = &source.device {
            let verdict = source_verdict(facts, request.live);
            let held_still = request.passes.as_ref().is_some_and(|passes| passes.before_last.is_some());
            // Only the first of several passes reports notices.
            if !held_still && agreed.disks.is_empty() {
                tell(&verdict, observer);
            }
            if let Some(error) = verdict.error("reading the device") {
                return Err(error.at(typed.as_typed()));
            }
        }
    }
    if request.mode.only_reads() {
        return Ok(None);
    }
    let (TargetFound::BlockDevice, Some(facts)) = (target.found, &target.device) else { return Ok(None) };
    let mut wanted = wanted(&request.confirmed, sources, target, agreed);
    if several && wanted.confirmed.as_ref() != Some(&facts.identity.id) {
        // The ID of another pair's disk is no agreement for this one.
        wanted.confirmed = None;
    }
    let mut verdict = target_verdict(facts, &wanted);
    // The disk may hold what an interrupted copy of this very source has left, which the same command resumes. This
    // is verified when the disk is opened.
    let may_go_on = target.unfinished.is_some() && is_copy_of(facts, sources);
    let only_goes_on = may_go_on && verdict.consent.take().is_some();
    let known = agreed.find(&facts.identity).is_some();
    if known {
        // An earlier pass or attempt has reported the notices.
        verdict.notices.clear();
    }
    if only_goes_on && !known {
        let words = "an interrupted copy has written to the disk; if this is another copy, or the content has \
            changed since, it is refused until you pass --confirm";
        observer.event(Event::Notice { words: words.to_owned() });
    }
    if known && is_held_open(&verdict) {
        let words = "the process that wrote to it when the connection was lost still has it open";
        return Err(Error::new(ErrorKind::Locked, WRITING, words).at(request.target.as_typed()));
    }
    agree((&request.target, facts), verdict, (request.dry_run, agreed), prompts, observer)?;
    let agreement = WritableDisk { place_id: facts.identity.place_id.clone(), only_goes_on };
    if !known {
        agreed.disks.push(agreement.clone());
    }
    Ok(Some(agreement))
}

/// Returns the error that prevents a copy from or onto a device, except those that consent or an option can lift.
pub fn obstacle(
    source: Option<(&Location, &SourceLook)>,
    (typed, target): (&Location, &TargetLook),
) -> Option<Error> {
    if let Some((typed, facts)) = source.and_then(|(typed, look)| Some((typed, look.device.as_ref()?)))
        && let Some(error) = source_verdict(facts, false).error("reading the device")
    {
        return Some(error.at(typed.as_typed()));
    }
    let (TargetFound::BlockDevice, Some(facts)) = (target.found, &target.device) else { return None };
    let sources = source.map_or(&[][..], |(_, look)| std::slice::from_ref(look));
    let mut verdict = target_verdict(facts, &wanted(&[], sources, target, &AgreedDisks::default()));
    verdict.consent = None;
    verdict.error(WRITING).map(|error| error.at(typed.as_typed()))
}

/// Opens a block device of this host exclusively, to overwrite `size_bytes` bytes of it, or all of it if `None`. It
/// needs the same agreement as a copy onto it.
///
/// # Errors
/// `Refused`, with every reason, if it must not be written.
pub fn open_to_overwrite(
    (typed, target): (&Location, &TargetLook),
    size_bytes: Option<u64>,
    confirmed: &[String],
    prompts: &mut dyn Prompts,
    observer: &dyn Observer,
) -> Result<(OwnedFd, DeviceIdentity)> {
    let Some(facts) = &target.device else {
        return Err(Error::new(ErrorKind::Refused, WRITING, "it is no block device").at(typed.as_typed()));
    };
    let source_bytes = size_bytes.unwrap_or(facts.size_bytes);
    let confirmed = confirmed_of(confirmed, target, &AgreedDisks::default());
    let wanted = Wanted { source_bytes, confirmed, ..Wanted::default() };
    let verdict = target_verdict(facts, &wanted);
    agree((typed, facts), verdict, (false, &mut AgreedDisks::default()), prompts, observer)?;
    let opened = File::open(machine::path(&target.parent))
        .map_err(|error| Error::io("opening the directory", &error))
        .and_then(|directory| {
            open_exclusively(directory.as_fd(), &target.name, &facts.identity.place_id, source_bytes)
        });
    opened.map_err(|error| error.at(typed.as_typed()))
}

/// Checks a device whose own content is to be written back, for which the user must name the disk. Returns its place
/// ID.
///
/// # Errors
/// `Usage` if it is not a device. `Refused`, with every reason, if it must not be written or another disk was named.
pub fn check_written_back(
    (typed, target): (&Location, &TargetLook),
    source: Option<&SourceLook>,
    confirmed: &[String],
    observer: &dyn Observer,
) -> Result<String> {
    let (TargetFound::BlockDevice, Some(facts)) = (target.found, &target.device) else {
        let words = "--confirm is for a disk as TARGET, and this is none; leave it out";
        return Err(Error::new(ErrorKind::Usage, "looking at the target", words).at(typed.as_typed()));
    };
    let wanted = Wanted {
        source_identity: source.and_then(|source| {
            let behind = is_behind(source, &facts.identity).then_some(&facts.identity);
            source.device.as_ref().map(|device| &device.identity).or(behind).cloned()
        }),
        confirmed: confirmed_of(confirmed, target, &AgreedDisks::default()),
        ..Wanted::default()
    };
    let verdict = target_verdict(facts, &wanted);
    tell(&verdict, observer);
    match verdict.error(WRITING) {
        Some(error) => Err(error.at(typed.as_typed())),
        None => Ok(facts.identity.place_id.clone()),
    }
}

/// Refuses a path among the devices that is not a device: data written there would be a file in memory.
///
/// # Errors
/// `Refused`.
pub fn refuse_stray(typed: &Location, target: &TargetLook) -> Result<()> {
    if !target.stray {
        return Ok(());
    }
    let words = stray_refusal(typed.as_typed()).words;
    Err(Error::new(ErrorKind::Refused, "writing to", words).at(typed.as_typed()))
}

/// Reports the reasons against overwriting a device. If its content is the only one, asks for its ID.
fn agree(
    (typed, facts): (&Location, &DeviceFacts),
    mut verdict: Verdict,
    (dry_run, agreed): (bool, &mut AgreedDisks),
    prompts: &mut dyn Prompts,
    observer: &dyn Observer,
) -> Result<()> {
    tell(&verdict, observer);
    if verdict.refusals.is_empty()
        && let Some(consent) = verdict.consent.take()
    {
        let words = described(typed, facts, &consent);
        ask(&words, &consent, (dry_run, agreed), prompts, observer)
            .map_err(|error| error.at(typed.as_typed()))?;
    }
    match verdict.error(WRITING) {
        Some(error) => Err(error.at(typed.as_typed())),
        None => Ok(()),
    }
}

fn wanted(confirmed: &[String], sources: &[SourceLook], target: &TargetLook, agreed: &AgreedDisks) -> Wanted {
    let source = sources.first().and_then(|source| source.device.as_deref());
    let content = sources.first().and_then(content_of);
    let identity = target.device.as_ref().map(|facts| &facts.identity);
    let file_behind = identity.filter(|identity| sources.iter().any(|source| is_behind(source, identity)));
    Wanted {
        source_bytes: sources.iter().map(|source| source.size_bytes).fold(0, u64::saturating_add),
        source_logical_sector_bytes: content.and_then(table_sector_bytes),
        source_has_partition_table: content.is_some_and(|content| content.table.is_some()),
        source_has_gpt: content
            .and_then(|content| content.table.as_ref())
            .is_some_and(|table| table.kind == TableKind::Gpt),
        source_identity: source.map(|source| &source.identity).or(file_behind).cloned(),
        confirmed: confirmed_of(confirmed, target, agreed),
    }
}

/// Returns the device's ID if the user confirmed it by any of its names, else the first ID that was confirmed.
fn confirmed_of(confirmed: &[String], target: &TargetLook, agreed: &AgreedDisks) -> Option<String> {
    let identity = target.device.as_ref().map(|facts| &facts.identity);
    let is_agreed = |id: &String| {
        identity.is_some_and(|identity| *id == identity.id) || target.unfinished.as_ref() == Some(id)
    };
    let earlier =
        || identity.and_then(|identity| agreed.find(identity)).is_some_and(|disk| !disk.only_goes_on);
    match confirmed.iter().any(is_agreed) || earlier() {
        true => identity.map(|identity| identity.id.clone()),
        false => confirmed.first().cloned(),
    }
}

/// Returns true if the only objection to the disk is that a process has it open and so keeps others from it.
fn is_held_open(verdict: &Verdict) -> bool {
    let kinds = || verdict.refusals.iter().map(|refusal| refusal.kind);
    let held = |kind| matches!(kind, RefusalKind::OpenForWriting | RefusalKind::Claimed);
    kinds().any(|kind| kind == RefusalKind::OpenForWriting) && kinds().all(held)
}

/// Returns the known content of a source that is a disk or the image of one.
fn content_of(source: &SourceLook) -> Option<&DeviceFacts> {
    source.device.as_deref().or(source.image.as_deref())
}

/// Returns the sector size in bytes that the source's partition table counts in, if known. An image does not tell it
/// for a PC (MBR) table. But if the partitions would not fit into the image with large sectors, the table counts in
/// the small ones with which it was read.
fn table_sector_bytes(content: &DeviceFacts) -> Option<u32> {
    const LARGE: u64 = 4096;
    let is_device = content.identity != DeviceIdentity::default();
    let is_gpt = content.table.as_ref().is_some_and(|table| table.kind == TableKind::Gpt);
    let sector_bytes = u64::from(content.logical_sector_bytes).max(1);
    let ends = content.partitions.iter().map(|part| part.start_bytes.saturating_add(part.size_bytes));
    let is_small =
        ends.max().is_some_and(|end| (end / sector_bytes).saturating_mul(LARGE) > content.size_bytes);
    (is_device || is_gpt || is_small).then_some(content.logical_sector_bytes)
}

/// Returns true if everything known to be on a disk is also on the source, with the same UUIDs. Content without a
/// signature may be a part of the source.
fn is_copy_of(facts: &DeviceFacts, sources: &[SourceLook]) -> bool {
    let [source] = sources else { return false };
    let is_known = |found: (Option<u32>, &Signature)| {
        let mut known = content_of(source).into_iter().flat_map(DeviceFacts::all_contents);
        !found.1.uuid.is_empty() && known.any(|known| known == found)
    };
    !facts.contents_hidden
        && facts.all_contents().all(|found| found.1.kind == SignatureKind::Unknown || is_known(found))
}

/// Returns true if a source is the file behind a loop device.
fn is_behind(source: &SourceLook, device: &DeviceIdentity) -> bool {
    let (Some(file), Some(found)) = (device.backing, source.ancestry.upwards.first()) else { return false };
    let number = DeviceNumber { major: major(found.device), minor: minor(found.device) };
    found.boot_id == device.boot_id && number == file.device && found.inode == file.inode
}

fn tell(verdict: &Verdict, observer: &dyn Observer) {
    for words in &verdict.notices {
        observer.event(Event::Notice { words: words.clone() });
    }
}

/// Shows the disk and asks for its ID.
fn ask(
    words: &str,
    consent: &ConsentNeeded,
    (dry_run, agreed): (bool, &mut AgreedDisks),
    prompts: &mut dyn Prompts,
    observer: &dyn Observer,
) -> Result<()> {
    if dry_run {
        for words in words.lines().chain(["its ID is asked for before it is overwritten"]) {
            observer.event(Event::Notice { words: words.trim().to_owned() });
        }
        return Ok(());
    }
    let refusal = || Error::new(ErrorKind::Refused, WRITING, consent.refusal.words.clone());
    let typed = prompts.disk_id(words).ok_or_else(refusal)?;
    if typed.trim() == consent.id {
        return Ok(());
    }
    agreed.declined = true;
    Err(Error::new(ErrorKind::Refused, WRITING, "that is not the ID of the disk; nothing was written"))
}

fn described(target: &Location, facts: &DeviceFacts, consent: &ConsentNeeded) -> String {
    let model = hakobu_core::path::lossy(&facts.model);
    let holds: Vec<_> = consent.holds.iter().map(|line| format!("  holds {line}")).collect();
    format!(
        "{target} will be overwritten:\n  {}  {} {model}\n{}",
        consent.id,
        format_bytes(facts.size_bytes),
        holds.join("\n")
    )
}
