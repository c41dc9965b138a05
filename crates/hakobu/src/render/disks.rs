//! A list of disks as a table, or as JSON.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use hakobu_core::disk::{BootObstacle, DeviceFacts, HolderKind, Partition, Signature, TableFault, UseKind};
use hakobu_core::path::lossy;
use hakobu_core::units::format_bytes;

mod as_json;
mod narrow;

#[cfg(test)]
mod tests;

pub use as_json::json;

const HEADINGS: [&str; 8] = ["ID", "DEVICE", "SIZE", "MODEL", "SECTOR", "CONTENTS", "USED BY", "BOOT"];
/// The column of sizes, whose figures stand below each other.
const SIZE: usize = 2;
/// Longer models are cut.
const MODEL_CHARACTERS_MAX: usize = 28;
/// The cell for an absent value.
const NOTHING: &str = "-";
/// The cell for a value that could not be determined.
const UNKNOWN: &str = "?";

type Row = [String; HEADINGS.len()];

/// A table with a line for each disk and each partition, and remarks below it. Where the lines would not fit in this
/// many columns, a disk has several lines.
pub fn table(disks: &[DeviceFacts], columns: Option<usize>) -> String {
    let mut rows = vec![HEADINGS.map(str::to_owned)];
    for disk in disks {
        rows.push(disk_row(disk));
        rows.extend(disk.partitions.iter().map(|partition| partition_row(disk, partition)));
    }
    let mut text = aligned(&rows);
    if let Some(columns) = columns.filter(|columns| text.lines().any(|line| line.chars().count() > *columns))
    {
        text = narrow::text(&rows, columns);
    }
    if disks.is_empty() {
        text += "no disks are to be seen\n";
    }
    match columns {
        Some(columns) => text + &narrow::wrapped_lines(&remarks(disks), columns),
        None => text + &remarks(disks),
    }
}

fn aligned(rows: &[Row]) -> String {
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: [usize; HEADINGS.len()] = std::array::from_fn(width);
    let mut text = String::new();
    for row in rows {
        let mut line = String::new();
        for (column, (cell, width)) in row.iter().zip(widths).enumerate() {
            let gap = " ".repeat(width - cell.chars().count());
            line += &if column == SIZE { format!("{gap}{cell}  ") } else { format!("{cell}{gap}  ") };
        }
        text += line.trim_end();
        text.push('\n');
    }
    text
}

fn disk_row(disk: &DeviceFacts) -> Row {
    let sector = match (disk.logical_sector_bytes, disk.physical_sector_bytes) {
        (logical, physical) if logical == physical => logical.to_string(),
        (logical, physical) => format!("{logical}/{physical}"),
    };
    [
        lossy(disk.identity.id.as_bytes()),
        lossy(&disk.path),
        format_bytes(disk.size_bytes),
        cut(&model(disk)),
        sector,
        contents(disk, &disk.contents),
        // Users of a partition are in the row of the partition.
        uses(disk, |device| !disk.partitions.iter().any(|partition| is_of(partition, device))),
        boot(disk),
    ]
}

fn partition_row(disk: &DeviceFacts, partition: &Partition) -> Row {
    let name = match partition.name.is_empty() {
        true => "(not known to the kernel)".to_owned(),
        false => format!("/dev/{}", lossy(&partition.name)),
    };
    // Where the disk's ID counts in its table, that of a partition is another word.
    let id = match disk.identity.place_id.is_empty() || disk.identity.place_id == disk.identity.id {
        true => format!("  part {}", partition.number),
        false => format!("  {}-part{}", lossy(disk.identity.place_id.as_bytes()), partition.number),
    };
    [
        id,
        format!("  {name}"),
        format_bytes(partition.size_bytes),
        cut(&lossy(partition.label.as_bytes())),
        String::new(),
        contents(disk, &partition.contents),
        uses(disk, |device| is_of(partition, device)),
        String::new(),
    ]
}

fn is_of(partition: &Partition, device: &[u8]) -> bool {
    !device.is_empty() && partition.name == device
}

/// The model; for a loop device, what is behind it.
fn model(disk: &DeviceFacts) -> String {
    match (&disk.model[..], &disk.identity.backing_path[..]) {
        (b"", b"") => String::new(),
        (b"", path) => lossy(path),
        (model, _) => lossy(model),
    }
}

fn cut(text: &str) -> String {
    if text.is_empty() {
        return NOTHING.to_owned();
    }
    match text.char_indices().nth(MODEL_CHARACTERS_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

fn listed(words: impl Iterator<Item = String>) -> String {
    let words: Vec<_> = words.collect();
    if words.is_empty() { NOTHING.to_owned() } else { words.join(", ") }
}

fn contents(disk: &DeviceFacts, found: &[Signature]) -> String {
    match found {
        [] if disk.contents_hidden => UNKNOWN.to_owned(),
        found => listed(found.iter().map(content)),
    }
}

fn content(signature: &Signature) -> String {
    match signature.label.is_empty() {
        true => signature.kind.name().to_owned(),
        false => format!("{} \"{}\"", signature.kind.name(), lossy(&signature.label)),
    }
}

/// The uses of those devices that are wanted; a volume's have its name, and places where one is
/// mounted stand together.
fn uses(disk: &DeviceFacts, wanted: impl Fn(&[u8]) -> bool) -> String {
    let is_part = |device: &[u8]| {
        device == disk.name || disk.partitions.iter().any(|partition| is_of(partition, device))
    };
    let mut groups: Vec<(&[u8], bool, String)> = Vec::new();
    for used in disk.uses.iter().filter(|used| wanted(&used.device)) {
        let is_mount = matches!(used.kind, UseKind::Mounted { .. });
        let words = use_words(&used.kind);
        match groups.last_mut() {
            Some((device, true, group)) if is_mount && *device == used.device => {
                *group += &format!(" and {words}");
            }
            _ if is_mount => groups.push((&used.device, true, format!("mounted at {words}"))),
            _ => groups.push((&used.device, false, words)),
        }
    }
    listed(groups.into_iter().map(|(device, _, words)| match is_part(device) {
        true => words,
        false => format!("{} {words}", lossy(device)),
    }))
}

fn use_words(kind: &UseKind) -> String {
    match kind {
        UseKind::Mounted { path, read_only: false, .. } => lossy(path),
        UseKind::Mounted { path, .. } => format!("{} (read-only)", lossy(path)),
        UseKind::Swap => "swap".to_owned(),
        UseKind::Holder { name, label, kind } => {
            let name = lossy(if label.is_empty() { name } else { label });
            match kind {
                HolderKind::Md => format!("RAID {name}"),
                HolderKind::Lvm => format!("LVM {name}"),
                HolderKind::Crypt => format!("encrypted {name}"),
                HolderKind::Multipath => format!("multipath {name}"),
                HolderKind::OtherDm | HolderKind::Bcache | HolderKind::Other => format!("volume {name}"),
            }
        }
        UseKind::Loop { name } => lossy(name),
        UseKind::Zfs { pool, imported } => {
            let pool = if pool.is_empty() { "of unknown name".to_owned() } else { lossy(pool) };
            match imported {
                Some(true) => format!("ZFS pool {pool}"),
                Some(false) => format!("ZFS pool {pool} (not imported)"),
                None => format!("ZFS pool {pool} (may be imported)"),
            }
        }
        UseKind::OpenForWriting { pid, command } => format!("process {pid} ({})", lossy(command)),
        UseKind::Claimed => "held by the kernel".to_owned(),
    }
}

fn boot(disk: &DeviceFacts) -> String {
    let ways = [(disk.boot.efi, "EFI"), (disk.boot.bios, "BIOS")];
    listed(ways.iter().filter(|(is_way, _)| *is_way).map(|(_, name)| (*name).to_owned()))
}

/// Returns the remarks, each once for all disks that it applies to.
fn remarks(disks: &[DeviceFacts]) -> String {
    let mut remarks: Vec<(String, Vec<String>)> = Vec::new();
    for disk in disks {
        for remark in remarks_on(disk) {
            let place = lossy(&disk.path);
            match remarks.iter_mut().find(|(known, _)| *known == remark) {
                Some((_, places)) => places.push(place),
                None => remarks.push((remark, vec![place])),
            }
        }
    }
    let doubles = doubles(disks);
    let nothing = remarks.is_empty() && doubles.is_empty();
    let mut text = if nothing { String::new() } else { "\n".to_owned() };
    for (remark, places) in remarks {
        let all = places.len() > 1 && places.len() == disks.len();
        let places = if all { "all".to_owned() } else { places.join(", ") };
        let _ = writeln!(text, "{places}: {remark}");
    }
    doubles.into_iter().fold(text, |text, line| text + &line + "\n")
}

/// A line for each UUID that several disks have.
fn doubles(disks: &[DeviceFacts]) -> Vec<String> {
    let mut owners: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    for (disk, obstacle) in
        disks.iter().flat_map(|disk| disk.boot.obstacles.iter().map(move |one| (disk, one)))
    {
        if let BootObstacle::SameUuid { uuid, disk: other } = obstacle {
            let owners = owners.entry(uuid).or_default();
            owners.insert(lossy(&disk.path));
            owners.insert(lossy(&[b"/dev/", &other[..]].concat()));
        }
    }
    let line = |(uuid, owners): (&str, BTreeSet<String>)| {
        let what = disks.iter().find_map(|disk| bearer(disk, uuid)).unwrap_or_else(|| "something".to_owned());
        let owners = owners.into_iter().collect::<Vec<_>>().join(", ");
        format!("{owners}: have {what} with the same UUID, {}", lossy(uuid.as_bytes()))
    };
    owners.into_iter().map(line).collect()
}

/// Returns the part of a disk that has this UUID.
fn bearer(disk: &DeviceFacts, uuid: &str) -> Option<String> {
    let content = |found: &[Signature]| found.iter().find(|found| found.uuid == uuid).map(content);
    if disk.table.as_ref().is_some_and(|table| table.uuid == uuid) {
        return Some("a partition table".to_owned());
    }
    content(&disk.contents).or_else(|| {
        disk.partitions.iter().find_map(|partition| match partition.uuid == uuid {
            true => Some(format!("a partition {}", partition.number)),
            false => {
                content(&partition.contents).map(|what| format!("{what} in partition {}", partition.number))
            }
        })
    })
}

/// The remarks on one disk.
fn remarks_on(disk: &DeviceFacts) -> Vec<String> {
    let mut remarks = Vec::new();
    if disk.read_only {
        remarks.push("takes no writes".to_owned());
    }
    if disk.removable {
        remarks.push("can be taken out".to_owned());
    }
    // A UUID that several disks share is reported once for all of them.
    let own = disk.boot.obstacles.iter().filter(|one| !matches!(one, BootObstacle::SameUuid { .. }));
    remarks.extend(own.map(ToString::to_string));
    let faults = disk.table.iter().flat_map(|table| &table.faults);
    remarks.extend(faults.filter_map(|fault| match fault {
        // These stand among the obstacles to starting.
        TableFault::PrimaryDamaged | TableFault::BackupDamaged => None,
        TableFault::TooMany => Some("has more partitions than are listed".to_owned()),
        TableFault::BeyondEnd => Some("a partition lies beyond the end of the disk".to_owned()),
        TableFault::ChainBroken => Some("its chain of logical partitions is broken".to_owned()),
    }));
    remarks.extend(disk.notes.iter().map(|note| lossy(note.as_bytes())));
    remarks
}
