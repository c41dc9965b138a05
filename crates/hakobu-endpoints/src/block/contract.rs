//! Decides whether a device may be written or read, from facts alone.
//!
//! A copy onto a device destroys its contents, so every objection is found before the first byte is written. Each
//! objection has its own message, which names the problem, the device and the next step. Nothing here inspects the
//! machine: the facts come from [`super::inspect`], possibly run on another machine.

use hakobu_core::disk::{
    DeviceFacts, DeviceIdentity, DeviceRelation, HolderKind, Signature, UseKind, relation,
};
use hakobu_core::error::{Error, ErrorKind};
use hakobu_core::path::lossy;
use hakobu_core::units::format_bytes;

mod messages;

#[cfg(test)]
mod tests;

/// The facts about the source and the user's consent that decide about a copy onto a device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// The number of bytes to write.
    pub source_bytes: u64,
    /// The size of the source's logical sector in bytes, if the source is a device.
    pub source_logical_sector_bytes: Option<u32>,
    /// True if the source has a partition table, which counts in logical sectors.
    pub source_has_partition_table: bool,
    /// True if that table is a GPT, which has a second copy at the end of the disk.
    pub source_has_gpt: bool,
    /// The identity of the source device, if the source is one.
    pub source_identity: Option<DeviceIdentity>,
    /// The ID that the user typed to confirm that this device may be overwritten.
    pub confirmed: Option<String>,
}

/// The decision whether a device may be used.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// The reasons against it. No option overrides them.
    pub refusals: Vec<Refusal>,
    /// Facts that the user should know.
    pub notices: Vec<String>,
    /// The consent that the user has to give first.
    pub consent: Option<ConsentNeeded>,
}

/// One reason not to use a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The kind of reason.
    pub kind: RefusalKind,
    /// The message: the problem, the device and the next step.
    pub words: String,
}

/// The reasons not to use a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RefusalKind {
    /// The device, a partition of it or a volume on it is mounted.
    Mounted,
    /// The device is swap space in use.
    Swap,
    /// The device belongs to a running software RAID.
    Md,
    /// The device holds an active logical volume.
    Lvm,
    /// The device is open as an encrypted volume.
    Crypt,
    /// The device is one of the paths of a multipath device.
    Multipath,
    /// The device holds another device-mapper volume.
    DeviceMapper,
    /// The device belongs to a running bcache.
    Bcache,
    /// The device is part of another kernel block device.
    OtherHolder,
    /// The device belongs to a ZFS pool that is imported, or may be.
    Zfs,
    /// The device backs a loop device.
    Loop,
    /// A process has the device open for writing.
    OpenForWriting,
    /// The kernel holds the device for a use that cannot be determined.
    Claimed,
    /// The device is read-only.
    ReadOnly,
    /// The drive has no medium.
    NoMedium,
    /// The device is smaller than the source.
    TooSmall,
    /// The device is the source itself.
    IsSource,
    /// The device is a part of the source.
    PartOfSource,
    /// The source is a part of the device.
    HoldsSource,
    /// The device's sector size differs from the one in which the source's partition table counts.
    SectorSize,
    /// The user confirmed another device.
    OtherConfirmed,
    /// The device has contents, and the user has not agreed to lose them.
    NoConsent,
    /// The path is where devices are, but is not a device.
    NoDevice,
}

/// The contents of a device that would be destroyed, and the ID that confirms it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConsentNeeded {
    /// The ID that the user types to agree.
    pub id: String,
    /// The contents, one line each.
    pub holds: Vec<String>,
    /// The complete refusal, for use when the user cannot be asked.
    pub refusal: Refusal,
    /// The refusal without the next step, for use when there are other refusals too.
    pub lost: String,
}

impl Verdict {
    /// Returns the error that ends the copy if there is a refusal or consent is missing.
    pub fn error(&self, during: &'static str) -> Option<Error> {
        let asked = self.consent.as_ref().map(|consent| match self.refusals.is_empty() {
            true => consent.refusal.words.as_str(),
            // Consent alone would not suffice.
            false => consent.lost.as_str(),
        });
        let words: Vec<_> = self.refusals.iter().map(|refusal| refusal.words.as_str()).chain(asked).collect();
        (!words.is_empty()).then(|| Error::new(ErrorKind::Refused, during, words.join("\n")))
    }

    fn refuse(&mut self, kind: RefusalKind, words: String) {
        let refusal = Refusal { kind, words };
        if !self.refusals.contains(&refusal) {
            self.refusals.push(refusal);
        }
    }
}

/// Decides whether a device may be overwritten.
pub fn target_verdict(facts: &DeviceFacts, wanted: &Wanted) -> Verdict {
    let mut verdict = Verdict::default();
    if let Some(source) = &wanted.source_identity {
        refuse_source(&mut verdict, facts, source);
    }
    refuse_uses(&mut verdict, facts);
    refuse_shape(&mut verdict, facts, wanted);
    match &wanted.confirmed {
        Some(id) if *id == facts.identity.id => {}
        Some(id) => {
            let (place, own) = (messages::device(facts), &facts.identity.id);
            let typed = lossy(id.as_bytes());
            let words = format!(
                "the confirmed device is {typed}, but {place} is {own}: see with `hakobu disks` which one is meant"
            );
            verdict.refuse(RefusalKind::OtherConfirmed, words);
        }
        None => verdict.consent = consent(facts),
    }
    let spare_bytes = facts.size_bytes.saturating_sub(wanted.source_bytes);
    if spare_bytes > 0 && wanted.source_has_gpt {
        verdict.notices.push(format!(
            "{} is {} larger than the source: the second copy of the source's GPT will not be at the end of the disk; \
             `sgdisk -e {}` moves it there",
            messages::device(facts),
            format_bytes(spare_bytes),
            messages::path(facts)
        ));
    }
    verdict.notices.extend(facts.notes.iter().map(|note| format!("{}: {note}", messages::path(facts))));
    verdict
}

/// Returns true if a process is known to have the device open for writing. The kernel may hold the device for it.
fn is_open(facts: &DeviceFacts) -> bool {
    facts.uses.iter().any(|used| matches!(used.kind, UseKind::OpenForWriting { .. }))
}

/// Decides whether a device may be read as the source of an exact copy. With `live`, concurrent writes are only a
/// notice.
pub fn source_verdict(facts: &DeviceFacts, live: bool) -> Verdict {
    let mut verdict = Verdict::default();
    for (device, places) in messages::mounts(facts, |read_only| !read_only) {
        let words = format!("{device} is mounted for writing at {}", messages::list(&places));
        verdict.refuse(RefusalKind::Mounted, words);
    }
    for used in &facts.uses {
        let device = messages::used(facts, &used.device);
        match &used.kind {
            UseKind::Swap => verdict.refuse(RefusalKind::Swap, format!("{device} is swap space in use")),
            UseKind::OpenForWriting { pid, command } => verdict.refuse(
                RefusalKind::OpenForWriting,
                format!("{device} is open for writing by process {pid} ({})", lossy(command)),
            ),
            UseKind::Zfs { pool, imported } if *imported != Some(false) => verdict.refuse(
                RefusalKind::Zfs,
                format!("{device} belongs to the ZFS pool {}", messages::pool(pool)),
            ),
            UseKind::Claimed if is_open(facts) => {}
            UseKind::Claimed => verdict.refuse(
                RefusalKind::Claimed,
                format!("{device} is held by the kernel, it cannot be seen for what"),
            ),
            _ => {}
        }
    }
    if facts.size_bytes == 0 {
        let words = format!("{}: there is no medium in it, or it is not set up", messages::device(facts));
        return Verdict { refusals: vec![Refusal { kind: RefusalKind::NoMedium, words }], ..verdict };
    }
    if live {
        let changes = std::mem::take(&mut verdict.refusals).into_iter();
        verdict
            .notices
            .extend(changes.map(|refusal| format!("{}: the copy may mix old and new", refusal.words)));
    }
    for refusal in &mut verdict.refusals {
        let stop = match refusal.kind {
            RefusalKind::Mounted => "unmount it, or mount it read-only",
            RefusalKind::Swap => "swapoff",
            RefusalKind::Zfs => "zpool export",
            _ => "end what writes to it",
        };
        refusal.words += &format!(
            ", and may change while it is read: stop that first ({stop}), or say --live to read it all the same"
        );
    }
    verdict.notices.extend(facts.notes.iter().map(|note| format!("{}: {note}", messages::path(facts))));
    verdict
}

/// Returns the refusal of a target path where devices are that is not a device, as reported by
/// [`is_stray`](super::inspect::is_stray).
pub fn stray_refusal(path: &[u8]) -> Refusal {
    let words = format!(
        "{} is no device, and what is written there would be a file in memory: look for the right name \
         (hakobu disks), or name a path outside of /dev",
        lossy(path)
    );
    Refusal { kind: RefusalKind::NoDevice, words }
}

fn refuse_source(verdict: &mut Verdict, facts: &DeviceFacts, source: &DeviceIdentity) {
    let (place, id) = (messages::device(facts), &source.id);
    match relation(&facts.identity, source) {
        DeviceRelation::Same => verdict.refuse(
            RefusalKind::IsSource,
            format!("{place} is the source itself ({id}), maybe by another name: name another target"),
        ),
        DeviceRelation::PartOf => verdict.refuse(
            RefusalKind::PartOfSource,
            format!("{place} is a part of the source ({id}), or lies on it: name another target"),
        ),
        DeviceRelation::WholeOf => verdict.refuse(
            RefusalKind::HoldsSource,
            format!("{place} is the disk on which the source ({id}) lies: name another target"),
        ),
        DeviceRelation::Unrelated => {}
    }
}

fn refuse_uses(verdict: &mut Verdict, facts: &DeviceFacts) {
    for (device, places) in messages::mounts(facts, |_| true) {
        verdict.refuse(RefusalKind::Mounted, messages::mounted(&device, &places));
    }
    for used in &facts.uses {
        let device = messages::used(facts, &used.device);
        match &used.kind {
            UseKind::Mounted { .. } => {}
            UseKind::Swap => verdict.refuse(
                RefusalKind::Swap,
                format!(
                    "{device} is swap space in use: end that first (swapoff {}), or name another target",
                    messages::node(&used.device)
                ),
            ),
            UseKind::Holder { name, label, kind } => {
                let (kind, words) = messages::holder(&device, name, label, *kind);
                verdict.refuse(kind, words);
            }
            UseKind::Loop { name } => verdict.refuse(
                RefusalKind::Loop,
                format!(
                    "{device} is behind the loop device {0}: detach that first (losetup -d {0})",
                    messages::node(name)
                ),
            ),
            UseKind::Zfs { imported: Some(false), .. } => {}
            UseKind::Zfs { pool, imported } => {
                verdict.refuse(RefusalKind::Zfs, messages::zfs(&device, pool, imported.is_some()));
            }
            UseKind::OpenForWriting { pid, command } => verdict.refuse(
                RefusalKind::OpenForWriting,
                format!(
                    "{device} is open for writing by process {pid} ({}): end that first, or name another target",
                    lossy(command)
                ),
            ),
            UseKind::Claimed if is_open(facts) => {}
            UseKind::Claimed => verdict.refuse(
                RefusalKind::Claimed,
                format!(
                    "{device} is held by the kernel for something that cannot be seen from here, such as a mount \
                     in a container or a volume: end that first, or name another target"
                ),
            ),
        }
    }
}

fn refuse_shape(verdict: &mut Verdict, facts: &DeviceFacts, wanted: &Wanted) {
    let place = messages::device(facts);
    if facts.size_bytes == 0 {
        let words = format!("{place}: there is no medium in it, or it is not set up: put one in");
        return verdict.refuse(RefusalKind::NoMedium, words);
    }
    if facts.read_only {
        let words = format!(
            "{place} takes no writes: look for a lock on it, or allow them (blockdev --setrw {})",
            messages::path(facts)
        );
        verdict.refuse(RefusalKind::ReadOnly, words);
    }
    if facts.size_bytes < wanted.source_bytes {
        let words = format!(
            "{place} has {} bytes, which is {} less than the {} of the source: take a larger one",
            facts.size_bytes,
            format_bytes(wanted.source_bytes - facts.size_bytes),
            wanted.source_bytes
        );
        verdict.refuse(RefusalKind::TooSmall, words);
    }
    match wanted.source_logical_sector_bytes {
        Some(source) if wanted.source_has_partition_table && source != facts.logical_sector_bytes => {
            let words = format!(
                "{place} has sectors of {} bytes, the source has {source}, and its partition table counts in \
                 them, so that no partition would be found: take a disk with sectors of {source} bytes (some \
                 NVMe disks can be changed: nvme format --lbaf), or copy the partitions one by one",
                facts.logical_sector_bytes
            );
            verdict.refuse(RefusalKind::SectorSize, words);
        }
        _ => {}
    }
}

/// Returns the consent that is needed, or `None` if the device has no contents.
fn consent(facts: &DeviceFacts) -> Option<ConsentNeeded> {
    let found = facts.all_contents().map(|(partition, signature)| messages::content(partition, signature));
    let hidden = facts.contents_hidden.then(|| "what cannot be read".to_owned());
    let holds: Vec<_> = found.chain(hidden).collect();
    if holds.is_empty() {
        return None;
    }
    let id = facts.identity.id.clone();
    let mut shown: Vec<_> = holds.iter().take(messages::SHOWN_MAX).cloned().collect();
    if holds.len() > shown.len() {
        shown.push(format!("{} more", holds.len() - shown.len()));
    }
    let lost =
        format!("{} holds data: {}. All of it would be lost.", messages::device(facts), shown.join(", "));
    let words = format!("{lost} If that is meant, say so: --confirm {id}");
    let refusal = Refusal { kind: RefusalKind::NoConsent, words };
    Some(ConsentNeeded { id, holds, refusal, lost })
}
