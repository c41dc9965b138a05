//! Values of metadata: numbers and times as texts. Anything else than a complete value is `None`.

use hakobu_core::entry::{EntryKind, FileTime};
use hakobu_core::times::{fraction_ns, from_rfc3339, rfc3339, year_of};

const SECOND_NS: i128 = 1_000_000_000;
/// The bits of `st_mode` that tell the type.
const TYPE_MASK: u32 = 0o170_000;

/// Returns the `st_mode` of an entry.
pub(super) fn st_mode(kind: EntryKind, mode: u32) -> u32 {
    let bits = match kind {
        EntryKind::Fifo => 0o010_000,
        EntryKind::CharDevice => 0o020_000,
        EntryKind::Directory => 0o040_000,
        EntryKind::BlockDevice => 0o060_000,
        EntryKind::File => 0o100_000,
        EntryKind::Symlink => 0o120_000,
        EntryKind::Socket => 0o140_000,
    };
    bits | mode & 0o7777
}

/// Splits an `st_mode` into the type, unless it has none, and the permissions.
pub(super) fn from_st_mode(st_mode: u32) -> Option<(Option<EntryKind>, u32)> {
    let kind = match st_mode & TYPE_MASK {
        0 => None,
        0o010_000 => Some(EntryKind::Fifo),
        0o020_000 => Some(EntryKind::CharDevice),
        0o040_000 => Some(EntryKind::Directory),
        0o060_000 => Some(EntryKind::BlockDevice),
        0o100_000 => Some(EntryKind::File),
        0o120_000 => Some(EntryKind::Symlink),
        0o140_000 => Some(EntryKind::Socket),
        _ => return None,
    };
    (st_mode & !(TYPE_MASK | 0o7777) == 0).then_some((kind, st_mode & 0o7777))
}

/// Reads an unsigned number in decimal.
pub(super) fn decimal<T: std::str::FromStr>(text: &str) -> Option<T> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if is_number { text.parse().ok() } else { None }
}

/// Reads an unsigned number in octal.
pub(super) fn octal(text: &str) -> Option<u32> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| matches!(byte, b'0'..=b'7'));
    if is_number { u32::from_str_radix(text, 8).ok() } else { None }
}

/// Reads an unsigned number in lower-case hexadecimal.
pub(super) fn hexadecimal(text: &str) -> Option<u64> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    if is_number { u64::from_str_radix(text, 16).ok() } else { None }
}

/// Reads the bytes that a text of lower-case hexadecimal digits stands for.
pub(super) fn hex_bytes<const N: usize>(text: &str) -> Option<[u8; N]> {
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    let mut bytes = [0; N];
    if pairs.len() != N || !rest.is_empty() {
        return None;
    }
    for (byte, pair) in bytes.iter_mut().zip(pairs) {
        *byte = u8::try_from(hexadecimal(std::str::from_utf8(pair).ok()?)?).ok()?;
    }
    Some(bytes)
}

/// Returns the nanoseconds since 1970.
pub(super) fn nanoseconds(time: FileTime) -> i128 {
    i128::from(time.seconds) * SECOND_NS + i128::from(time.nanoseconds)
}

fn from_nanoseconds(ns: i128) -> Option<FileTime> {
    let seconds = i64::try_from(ns.div_euclid(SECOND_NS)).ok()?;
    Some(FileTime { seconds, nanoseconds: u32::try_from(ns.rem_euclid(SECOND_NS)).ok()? })
}

fn split_sign(text: &str) -> (i128, &str) {
    text.strip_prefix('-').map_or((1, text), |rest| (-1, rest))
}

/// Reads a number of units of `unit_ns` since 1970, which may be negative.
pub(super) fn time_in(text: &str, unit_ns: i128) -> Option<FileTime> {
    let (sign, digits) = split_sign(text);
    from_nanoseconds(sign.checked_mul(decimal(digits)?)?.checked_mul(unit_ns)?)
}

/// Returns the seconds since 1970 with up to nine decimals and no zeros at the end, as rclone does in S3.
pub(super) fn decimal_time(time: FileTime) -> String {
    let ns = nanoseconds(time);
    let sign = if ns < 0 { "-" } else { "" };
    let (seconds, fraction) = (ns.unsigned_abs() / SECOND_NS as u128, ns.unsigned_abs() % SECOND_NS as u128);
    let text = format!("{sign}{seconds}.{fraction:09}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Reads seconds since 1970, with or without decimals.
fn from_decimal_time(text: &str) -> Option<FileTime> {
    let (sign, number) = split_sign(text);
    let (seconds, fraction) = match number.split_once('.') {
        Some((seconds, digits)) => (seconds, fraction_ns(digits)?),
        None => (number, 0),
    };
    let seconds: i128 = decimal::<u64>(seconds)?.into();
    from_nanoseconds(sign * (seconds * SECOND_NS + i128::from(fraction)))
}

/// Returns a time in the format of RFC 3339 without zeros at the end, as rclone does in Azure and GCS. Years that have
/// no four digits have no such text: they are written as [`decimal_time`].
pub(super) fn text_time(time: FileTime) -> String {
    if !(0..=9999).contains(&year_of(time.seconds)) {
        return decimal_time(time);
    }
    let text = rfc3339(time);
    format!("{}Z", text.trim_end_matches('Z').trim_end_matches('0').trim_end_matches('.'))
}

/// Reads a time that rclone, s3fs or gcsfuse wrote: seconds since 1970, or RFC 3339.
pub(super) fn any_time(text: &str) -> Option<FileTime> {
    from_decimal_time(text).or_else(|| from_rfc3339(text))
}
