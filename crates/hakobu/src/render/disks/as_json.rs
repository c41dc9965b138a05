//! A list of disks as JSON: `hakobu.disks/1`, described in `docs/book/disks.md`.

use hakobu_core::disk::{
    BootObstacle, DeviceFacts, DeviceUse, HolderKind, IdKind, Partition, PartitionTable, Signature,
    TableFault, TableKind, UseKind,
};
use hakobu_core::error::{Error, Result};
use hakobu_core::report::text_and_base64;
use serde_json::{Map, Value, json};

use crate::render::json::pretty;

/// The schema of the list.
pub const DISKS_SCHEMA: &str = "hakobu.disks/1";

/// The list as one object.
///
/// # Errors
/// None that is known; serialising could fail.
pub fn json(host: Option<&str>, disks: &[DeviceFacts]) -> Result<String> {
    let disks: Vec<_> = disks.iter().map(disk).collect();
    let list = json!({ "schema": DISKS_SCHEMA, "host": host, "disks": disks });
    pretty(&list).map_err(|error| Error::io("writing the list", &error))
}

fn disk(facts: &DeviceFacts) -> Value {
    let identity = &facts.identity;
    let mut object = ObjectBuilder::default();
    object.bytes("name", &facts.name);
    object.bytes("path", &facts.path);
    object.put("id", identity.id.as_str());
    object.put("id_kind", id_kind(identity.kind));
    object.put("place_id", identity.place_id.as_str());
    object.put("number", identity.number.to_string());
    object.put("size_bytes", facts.size_bytes);
    object.put("logical_sector_bytes", facts.logical_sector_bytes);
    object.put("physical_sector_bytes", facts.physical_sector_bytes);
    object.put("read_only", facts.read_only);
    object.put("removable", facts.removable);
    object.put("rotational", facts.rotational);
    object.bytes_or_null("model", &facts.model);
    object.bytes_or_null("serial", &facts.serial);
    object.bytes_or_null("wwn", &facts.wwn);
    object.bytes_or_null("backing_path", &identity.backing_path);
    object.put("table", facts.table.as_ref().map(table));
    object.put("partitions", facts.partitions.iter().map(partition).collect::<Vec<_>>());
    object.put("contents", facts.contents.iter().map(signature).collect::<Vec<_>>());
    object.put("uses", facts.uses.iter().map(use_of).collect::<Vec<_>>());
    let obstacles: Vec<_> = facts.boot.obstacles.iter().map(obstacle).collect();
    object.put(
        "boot",
        json!({
            "efi": facts.boot.efi,
            "bios": facts.boot.bios,
            "bios_partition": facts.boot.bios_partition,
            "obstacles": obstacles,
        }),
    );
    object.put("notes", facts.notes.clone());
    object.put("contents_hidden", facts.contents_hidden);
    object.into()
}

fn id_kind(kind: IdKind) -> &'static str {
    match kind {
        IdKind::WorldWideName => "world_wide_name",
        IdKind::Volume => "volume",
        IdKind::Serial => "serial",
        IdKind::Made => "made",
    }
}

fn table(table: &PartitionTable) -> Value {
    let kind = match table.kind {
        TableKind::Gpt => "gpt",
        TableKind::Mbr => "mbr",
    };
    let fault = |fault: &TableFault| match fault {
        TableFault::PrimaryDamaged => "primary_damaged",
        TableFault::BackupDamaged => "backup_damaged",
        TableFault::TooMany => "too_many_partitions",
        TableFault::BeyondEnd => "beyond_end",
        TableFault::ChainBroken => "chain_broken",
    };
    json!({
        "kind": kind,
        "uuid": text_or_null(&table.uuid),
        "sector_bytes": table.sector_bytes,
        "backup_offset_bytes": table.backup.map(|backup| backup.offset_bytes),
        "backup_at_end": table.backup.map(|backup| backup.at_end),
        "faults": table.faults.iter().map(fault).collect::<Vec<_>>(),
    })
}

fn partition(partition: &Partition) -> Value {
    let mut object = ObjectBuilder::default();
    object.put("number", partition.number);
    object.bytes_or_null("name", &partition.name);
    object.put("start_bytes", partition.start_bytes);
    object.put("size_bytes", partition.size_bytes);
    object.put("type", partition.type_id.as_str());
    object.put("uuid", text_or_null(&partition.uuid));
    object.put("label", text_or_null(&partition.label));
    object.put("contents", partition.contents.iter().map(signature).collect::<Vec<_>>());
    object.into()
}

fn signature(signature: &Signature) -> Value {
    let mut object = ObjectBuilder::default();
    object.put("kind", signature.kind.name());
    object.put("offset_bytes", signature.offset_bytes);
    object.put("uuid", text_or_null(&signature.uuid));
    object.bytes_or_null("label", &signature.label);
    object.into()
}

fn use_of(used: &DeviceUse) -> Value {
    let mut object = ObjectBuilder::default();
    object.bytes("device", &used.device);
    match &used.kind {
        UseKind::Mounted { path, file_system, read_only } => {
            object.put("use", "mounted");
            object.bytes("path", path);
            object.put("file_system", file_system.as_str());
            object.put("read_only", *read_only);
        }
        UseKind::Swap => object.put("use", "swap"),
        UseKind::Holder { name, label, kind } => {
            object.put("use", holder(*kind));
            object.bytes("volume", name);
            object.bytes_or_null("label", label);
        }
        UseKind::Loop { name } => {
            object.put("use", "loop");
            object.bytes("volume", name);
        }
        UseKind::Zfs { pool, imported } => {
            object.put("use", "zfs");
            object.bytes_or_null("pool", pool);
            object.put("imported", *imported);
        }
        UseKind::OpenForWriting { pid, command } => {
            object.put("use", "open_for_writing");
            object.put("pid", *pid);
            object.bytes("command", command);
        }
        UseKind::Claimed => object.put("use", "claimed"),
    }
    object.into()
}

fn holder(kind: HolderKind) -> &'static str {
    match kind {
        HolderKind::Md => "md",
        HolderKind::Lvm => "lvm",
        HolderKind::Crypt => "crypt",
        HolderKind::Multipath => "multipath",
        HolderKind::OtherDm => "device_mapper",
        HolderKind::Bcache => "bcache",
        HolderKind::Other => "volume",
    }
}

fn obstacle(obstacle: &BootObstacle) -> Value {
    let mut object = ObjectBuilder::default();
    match obstacle {
        BootObstacle::SectorSize { table_bytes, device_bytes } => {
            object.put("obstacle", "sector_size");
            object.put("table_sector_bytes", *table_bytes);
            object.put("device_sector_bytes", *device_bytes);
        }
        BootObstacle::BackupNotAtEnd => object.put("obstacle", "backup_not_at_end"),
        BootObstacle::TableDamaged => object.put("obstacle", "table_damaged"),
        BootObstacle::SameUuid { uuid, disk } => {
            object.put("obstacle", "same_uuid");
            object.put("uuid", uuid.as_str());
            object.bytes("disk", disk);
        }
    }
    object.put("words", obstacle.to_string());
    object.into()
}

fn text_or_null(text: &str) -> Value {
    if text.is_empty() { Value::Null } else { text.into() }
}

/// An object under construction.
#[derive(Default)]
struct ObjectBuilder(Map<String, Value>);

impl ObjectBuilder {
    fn put(&mut self, name: &str, value: impl Into<Value>) {
        self.0.insert(name.to_owned(), value.into());
    }

    /// Bytes as text, and in base64 as well where they are not UTF-8.
    fn bytes(&mut self, name: &str, bytes: &[u8]) {
        let (text, base64) = text_and_base64(bytes);
        self.put(name, text);
        if let Some(base64) = base64 {
            self.put(&format!("{name}_base64"), base64);
        }
    }

    fn bytes_or_null(&mut self, name: &str, bytes: &[u8]) {
        match bytes {
            [] => self.put(name, Value::Null),
            bytes => self.bytes(name, bytes),
        }
    }
}

impl From<ObjectBuilder> for Value {
    fn from(object: ObjectBuilder) -> Self {
        Value::Object(object.0)
    }
}
