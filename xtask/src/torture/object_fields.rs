//! The attributes in the metadata of an object, by the names of each provider's tools (docs/book/object-stores.md).

use std::collections::BTreeMap;

use anyhow::{Context, ensure};

use super::environment::object_store::TortureStoreKind;
use super::model::{Name, Time};
use super::walk::SeenKind;

/// The mode bits of a type.
const TYPE_MASK: u32 = 0o170_000;
const SECOND_NS: i128 = 1_000_000_000;

/// The attributes in the metadata of an object.
#[derive(Debug, Default)]
pub struct ObjectFields {
    /// The kind. That of a link has no text, that of a file no content.
    pub kind: Option<SeenKind>,
    /// Permissions, set-ID and sticky bits.
    pub mode: Option<u32>,
    /// Owner and group.
    pub owner: Option<(u32, u32)>,
    /// The time of the last change.
    pub mtime: Option<Time>,
    /// The value with extended attributes.
    pub attributes: Option<String>,
    /// The identity that all names of a file share.
    pub identity: Option<String>,
}

impl ObjectFields {
    /// Reads metadata. Both times have to agree.
    ///
    /// # Errors
    /// Returns an error if something is not as the book says.
    pub fn of(store: TortureStoreKind, pairs: &BTreeMap<String, String>) -> anyhow::Result<Self> {
        // fake-gcs-server keeps names that were removed, with empty values.
        let value = |name: &str| {
            pairs
                .get(name)
                .map(String::as_str)
                .filter(|value| store != TortureStoreKind::FakeGcs || !value.is_empty())
        };
        let own = |name: &str| match store {
            TortureStoreKind::Azurite => value(&name.replace('-', "_")),
            _ => value(name),
        };
        let number = |name: &str| value(name).and_then(|text| text.parse::<u32>().ok());
        let octal = |text: &str| u32::from_str_radix(text, 8).ok();
        let (st_mode, owner, group) = match store {
            TortureStoreKind::Versitygw => {
                (value("file-permissions").and_then(octal), number("file-owner"), number("file-group"))
            }
            TortureStoreKind::Azurite => {
                (number("permissions"), number("posix_owner"), number("posix_group"))
            }
            TortureStoreKind::FakeGcs => (
                value("hakobu-mode").or(value("goog-reserved-posix-mode")).and_then(octal),
                number("goog-reserved-posix-uid"),
                number("goog-reserved-posix-gid"),
            ),
        };
        let is_link = value("goog-reserved-file-is-symlink") == Some("true");
        let device = || match store {
            TortureStoreKind::Azurite => value("posix_rdev").and_then(|text| text.parse().ok()),
            _ => {
                let number = value("hakobu-device").and_then(|text| text.split_once(':'));
                number.and_then(|(major, minor)| {
                    Some(rustix::fs::makedev(major.parse().ok()?, minor.parse().ok()?))
                })
            }
        };
        let kind = match st_mode.map(|mode| mode & TYPE_MASK) {
            _ if is_link => Some(SeenKind::Link(Vec::new())),
            Some(0o120_000) => Some(SeenKind::Link(Vec::new())),
            Some(0o010_000) => Some(SeenKind::Pipe),
            Some(0o020_000) => Some(SeenKind::Character(device().context("a device without its number")?)),
            Some(0o060_000) => Some(SeenKind::Block(device().context("a device without its number")?)),
            _ => None,
        };
        let mtime = match (store, value("mtime")) {
            (_, None) => None,
            (TortureStoreKind::Versitygw, Some(text)) => {
                let convention = value("file-mtime").and_then(|text| text.strip_suffix("ns"));
                Some(agreeing(decimal_ns(text)?, convention.context("no time with a unit")?, 1)?)
            }
            (TortureStoreKind::Azurite, Some(text)) => {
                Some(agreeing(clock_ns(text)?, value("modtime").context("no modtime")?, 1)?)
            }
            (TortureStoreKind::FakeGcs, Some(text)) => {
                let seconds = value("goog-reserved-file-mtime").context("no time of gcloud")?;
                Some(agreeing(clock_ns(text)?, seconds, SECOND_NS)?)
            }
        };
        Ok(Self {
            kind,
            mode: st_mode.map(|mode| mode & 0o7777),
            owner: owner.zip(group),
            mtime,
            attributes: own("hakobu-attributes").map(str::to_owned),
            identity: own("hakobu-inode").map(str::to_owned),
        })
    }
}

/// Returns the time of so many nanoseconds, which has to agree with a number in another unit.
fn agreeing(ns: i128, other: &str, unit_ns: i128) -> anyhow::Result<Time> {
    let number: i128 = other.parse()?;
    ensure!(ns.div_euclid(unit_ns) == number, "the times {ns} and {other} disagree");
    Ok(Time { s: i64::try_from(ns.div_euclid(SECOND_NS))?, ns: ns.rem_euclid(SECOND_NS) as u32 })
}

/// Returns the nanoseconds of a decimal number of seconds.
fn decimal_ns(text: &str) -> anyhow::Result<i128> {
    let (sign, digits) = text.strip_prefix('-').map_or((1, text), |digits| (-1, digits));
    let (seconds, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let ns: i128 = format!("{fraction:0<9}").parse()?;
    Ok(sign * (seconds.parse::<i128>()? * SECOND_NS + ns))
}

/// Returns the nanoseconds of a time as RFC 3339 writes it.
fn clock_ns(text: &str) -> anyhow::Result<i128> {
    let time: jiff::Timestamp = text.parse().with_context(|| format!("the time {text}"))?;
    Ok(time.as_nanosecond())
}

/// Decodes extended attributes: the classes, a count of 16 bits, and for each the lengths of its name (8 bits) and value
/// (32 bits), the name and the value, all little endian.
///
/// # Errors
/// Returns an error if they end too early or too late.
pub fn extended_attributes(bytes: &[u8]) -> anyhow::Result<BTreeMap<Name, Vec<u8>>> {
    let mut rest = bytes;
    let mut take = |length: usize| {
        let (taken, after) = rest.split_at_checked(length).context("extended attributes end too early")?;
        rest = after;
        anyhow::Ok(taken)
    };
    let header = take(3)?;
    let count = u16::from_le_bytes([header[1], header[2]]);
    let mut found = BTreeMap::new();
    for _ in 0..count {
        let lengths = take(5)?;
        let value_bytes = u32::from_le_bytes([lengths[1], lengths[2], lengths[3], lengths[4]]);
        let name = Name(take(usize::from(lengths[0]))?.to_vec());
        let value = take(value_bytes as usize)?.to_vec();
        found.insert(name, value);
    }
    ensure!(rest.is_empty(), "extended attributes have {} bytes too many", rest.len());
    Ok(found)
}
