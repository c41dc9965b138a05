//! Parses rsync's standard output: one line for each entry, and its progress figures.
//!
//! A name may contain any byte, and rsync shows unprintable ones as `\#ooo`, so a line is never split.

use hakobu_core::entry::{EntryKind, FileTime};
use hakobu_core::path::EntryPath;

/// The format in which rsync reports entries. The name comes last, since it may contain blanks.
pub(super) const FORMAT: &str = "--out-format=%i %l %M %B %U %G %n";
/// The longest line that is read: a path of which each byte is escaped, and the fields before it.
const LINE_BYTES_MAX: usize = 32 * 1024;

/// One report of rsync.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum RsyncMessage {
    /// Something was, or would be, done for an entry.
    Item(ItemizedEntry),
    /// An entry was removed.
    Deleted(EntryPath),
    /// The number of bytes of this run that are done.
    Bytes(u64),
    /// The number of bytes sent to or received from the other side, as the kernel counts them.
    Traffic(u64),
    /// The receiver may not create this entry, and has omitted it.
    Skipped(Vec<u8>),
    /// A directory to be removed remains, because it is not empty.
    NotEmpty(Vec<u8>),
    /// A line about an entry that cannot be parsed, unchanged.
    Unread(Vec<u8>),
}

/// An entry as rsync describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ItemizedEntry {
    /// The path below the root of the transfer.
    pub path: EntryPath,
    pub kind: EntryKind,
    /// True if the target lacked it.
    pub is_new: bool,
    /// True if content was sent.
    pub has_content: bool,
    /// True if it is a further name of an earlier file.
    pub is_link: bool,
    pub size_bytes: u64,
    pub mtime: FileTime,
    /// The permissions, as `rwxr-xr-x`, with the set-ID bits as `s` or `S`.
    pub permissions: String,
    pub owner: (u32, u32),
}

impl ItemizedEntry {
    /// Returns true if it has a set-user-ID or set-group-ID bit.
    pub fn has_set_id(&self) -> bool {
        let bit = |at: usize| matches!(self.permissions.as_bytes().get(at), Some(b's' | b'S'));
        self.kind == EntryKind::File && (bit(2) || bit(5))
    }
}

/// Splits a stream of bytes into lines.
#[derive(Debug, Default)]
pub(super) struct LineSplitter {
    open: Vec<u8>,
    /// True if the current line is too long to be of use, until its end.
    too_long: bool,
}

impl LineSplitter {
    /// Adds more bytes.
    pub fn take(&mut self, bytes: &[u8], each: &mut dyn FnMut(&[u8])) {
        for part in bytes.split_inclusive(|byte| matches!(byte, b'\n' | b'\r')) {
            let (text, ends) = match part.split_last() {
                Some((b'\n' | b'\r', text)) => (text, true),
                _ => (part, false),
            };
            if self.open.len() + text.len() > LINE_BYTES_MAX {
                self.too_long = true;
                self.open.clear();
            }
            if !self.too_long {
                self.open.extend_from_slice(text);
            }
            if ends {
                if !self.open.is_empty() {
                    each(&self.open);
                }
                self.open.clear();
                self.too_long = false;
            }
        }
    }

    /// Passes the last line, if it is unfinished.
    pub fn end(mut self, each: &mut dyn FnMut(&[u8])) {
        self.take(b"\n", each);
    }
}

/// Parses a line of standard output, if it is relevant.
pub(super) fn parse(line: &[u8]) -> Option<RsyncMessage> {
    if let Some(quoted) = line.strip_prefix(b"skipping non-regular file \"") {
        return Some(RsyncMessage::Skipped(unescaped(quoted.strip_suffix(b"\"").unwrap_or(quoted))));
    }
    if line.first() == Some(&b' ') {
        return progress(line).map(RsyncMessage::Bytes);
    }
    if let Some(name) = line.strip_prefix(b"cannot delete non-empty directory: ") {
        return Some(RsyncMessage::NotEmpty(unescaped(name)));
    }
    entry(line).or_else(|| begins_like_an_item(line).then(|| RsyncMessage::Unread(line.to_vec())))
}

/// Returns true if a line can only be about an entry: `>f+++++++++ `.
fn begins_like_an_item(line: &[u8]) -> bool {
    let [update, kind, rest @ ..] = line else { return false };
    let flags = rest.iter().position(|byte| *byte == b' ');
    b"<>ch.".contains(update)
        && b"fdLDS".contains(kind)
        && flags.is_some_and(|end| {
            (7..=9).contains(&end)
                && rest[..end].iter().all(|flag| flag.is_ascii_alphabetic() || b".+?".contains(flag))
        })
}

/// Parses a line about one entry.
fn entry(line: &[u8]) -> Option<RsyncMessage> {
    let mut rest = line;
    let is_deletion = line.starts_with(b"*deleting");
    let change = field(&mut rest)?;
    if is_deletion {
        rest = rest.trim_ascii_start();
    }
    let size = text(field(&mut rest)?)?.replace(',', "");
    let time = text(field(&mut rest)?)?;
    let permissions = text(field(&mut rest)?)?.to_owned();
    let owner = (number(field(&mut rest)?), number(field(&mut rest)?));
    let path = path(rest)?;
    if is_deletion {
        return Some(RsyncMessage::Deleted(path));
    }
    let [update, kind, flags @ ..] = change else { return None };
    let kind = match kind {
        b'f' => EntryKind::File,
        b'd' => EntryKind::Directory,
        b'L' => EntryKind::Symlink,
        // rsync does not report which device it is; none of these has content.
        b'D' => EntryKind::CharDevice,
        b'S' => EntryKind::Fifo,
        _ => return None,
    };
    if !b"<>ch.".contains(update) || flags.len() < 7 {
        return None;
    }
    Some(RsyncMessage::Item(ItemizedEntry {
        path,
        kind,
        is_new: flags.iter().all(|flag| *flag == b'+'),
        has_content: matches!(update, b'<' | b'>'),
        is_link: *update == b'h',
        size_bytes: size.parse().ok()?,
        // rsync truncates or pads extreme times; the line describes an entry anyway.
        mtime: FileTime { seconds: seconds(time).unwrap_or(0), nanoseconds: 0 },
        permissions,
        owner,
    }))
}

/// Parses the bytes at the beginning of a progress line: `     32,768  12%  1.2MB/s ...`.
fn progress(line: &[u8]) -> Option<u64> {
    let line = text(line)?;
    let mut words = line.split_ascii_whitespace();
    let bytes = words.next()?.replace(',', "").parse().ok()?;
    words.next()?.ends_with('%').then_some(bytes)
}

fn field<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let blank = rest.iter().position(|byte| *byte == b' ')?;
    let (field, behind) = rest.split_at(blank);
    *rest = &behind[1..];
    Some(field)
}

fn text(bytes: &[u8]) -> Option<&str> {
    std::str::from_utf8(bytes).ok()
}

/// Parses a user or group. rsync prints `DEFAULT` for an unknown one.
fn number(bytes: &[u8]) -> u32 {
    text(bytes).and_then(|text| text.parse().ok()).unwrap_or(0)
}

/// Parses the path of an entry; `./` is the root itself. Returns `None` for one that could leave the root.
fn path(shown: &[u8]) -> Option<EntryPath> {
    let path = unescaped(shown);
    let path = path.strip_suffix(b"/").unwrap_or(&path);
    let path = path.strip_prefix(b"./").unwrap_or(path);
    EntryPath::new(if path == b"." { b"" } else { path }).ok()
}

/// Decodes bytes that rsync shows as `\#ooo`.
pub(super) fn unescaped(shown: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(shown.len());
    let mut rest = shown;
    while let Some((first, behind)) = rest.split_first() {
        match behind {
            [b'#', a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7', more @ ..] if *first == b'\\' => {
                bytes.push((a - b'0') << 6 | (b - b'0') << 3 | (c - b'0'));
                rest = more;
            }
            _ => {
                bytes.push(*first);
                rest = behind;
            }
        }
    }
    bytes
}

/// Parses `2026/11/22-13:04:49`, in UTC, to seconds since 1970.
fn seconds(time: &str) -> Option<i64> {
    let mut numbers = time.split(['/', '-', ':']).map(str::parse::<i64>);
    let mut next = || numbers.next()?.ok();
    let (year, month, day) = (next()?, next()?, next()?);
    let (hour, minute, second) = (next()?, next()?, next()?);
    if !(1..=12).contains(&month) || !(1..=31).contains(&day) || !(0..=9999).contains(&year) {
        return None;
    }
    // Days in the Gregorian calendar, with years that begin in March.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let era = year.div_euclid(400);
    let of_era = year.rem_euclid(400);
    let of_year = (153 * month + 2) / 5 + day - 1;
    let days = era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468;
    Some(days * 86_400 + hour * 3600 + minute * 60 + second)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(line: &[u8]) -> ItemizedEntry {
        match parse(line) {
            Some(RsyncMessage::Item(item)) => item,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn entries_are_read_with_every_byte_of_their_names() {
        let found = item(br">f+++++++++ 31457280 2026/11/22-13:05:20 rw-r--r-- 0 12 a \#134#123\#012\#377 b");
        assert_eq!(found.path.as_bytes(), b"a \\#123\n\xff b");
        assert_eq!((found.size_bytes, found.owner, found.is_new), (31_457_280, (0, 12), true));
        assert_eq!(found.mtime.seconds, 1_795_352_720);
        let root = item(b".d..t...... 4096 1970/01/01-00:00:01 rwxr-xr-x 0 0 ./");
        assert!(root.path.is_root() && root.kind == EntryKind::Directory && !root.is_new);
        assert_eq!(root.mtime.seconds, 1);
        assert!(item(b"hf+++++++++ 2 2026/11/22-13:04:49 rwSr--r-- 0 0 a").is_link);
        assert!(item(b"<f.st...... 2,000 2026/11/22-13:04:49 rwSr--r-- 0 DEFAULT a").has_set_id());
        // rsync 3.0 has two columns less.
        assert!(item(b">f+++++++ 2 2026/11/22-13:04:49 rw-r--r-- 0 0 a").is_new);
    }

    #[test]
    fn other_lines_are_told_apart() {
        let deleted = parse(b"*deleting   0 1970/01/01-00:00:00 --------- 0 0 x/y/");
        assert_eq!(deleted, Some(RsyncMessage::Deleted(EntryPath::new("x/y").unwrap())));
        assert_eq!(parse(b"      1,024  12%    0.00kB/s    0:00:00  "), Some(RsyncMessage::Bytes(1024)));
        assert_eq!(
            parse(b"skipping non-regular file \"d/null\""),
            Some(RsyncMessage::Skipped(b"d/null".to_vec()))
        );
        for line in [&b"created directory /x"[..], b"", b"   ", b"sending incremental file list", b">f"] {
            assert_eq!(parse(line), None, "{line:?}");
        }
    }

    #[test]
    fn an_entry_with_an_odd_time_is_one_and_no_line_about_one_is_dropped() {
        for time in ["11476/08/15-05:20:0", "-1199/01/01-00:00:00", "---1/01/01-00:00:00", "never"] {
            let line = format!(">f+++++++++ 7 {time} rw-r--r-- 0 0 a");
            assert_eq!(item(line.as_bytes()).path.as_bytes(), b"a", "{time}");
        }
        for line in [&b">f+++++++++ 99x 2026/11/22-13:05:20 rw-r--r-- 0 0 a"[..], b".d..t...... 4096"] {
            assert_eq!(parse(line), Some(RsyncMessage::Unread(line.to_vec())));
        }
        for line in [&b"chosen daemon of ours"[..], b"cd /somewhere else", b"hf"] {
            assert_eq!(parse(line), None, "{line:?}");
        }
        let full = parse(br"cannot delete non-empty directory: a\#012b");
        assert_eq!(full, Some(RsyncMessage::NotEmpty(b"a\nb".to_vec())));
    }

    #[test]
    fn a_path_that_leaves_the_root_is_no_entry() {
        for name in ["../x", "/etc/passwd", "a/../../b", "a//b"] {
            let line = format!(">f+++++++++ 1 2026/11/22-13:05:20 rw-r--r-- 0 0 {name}");
            assert_eq!(parse(line.as_bytes()), Some(RsyncMessage::Unread(line.into_bytes())), "{name}");
        }
    }

    #[test]
    fn lines_come_in_pieces_and_have_a_limit() {
        let mut said = Vec::new();
        let mut each = |line: &[u8]| said.push(line.to_vec());
        let mut lines = LineSplitter::default();
        lines.take(b"one\r  tw", &mut each);
        lines.take(b"o\n\n", &mut each);
        for _ in 0..3 {
            lines.take(&[b'x'; LINE_BYTES_MAX / 2], &mut each);
        }
        lines.take(b"\nthree", &mut each);
        lines.end(&mut each);
        assert_eq!(said, [&b"one"[..], b"  two", b"three"]);
    }
}
