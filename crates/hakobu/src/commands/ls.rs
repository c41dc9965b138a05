//! The verb `ls`, from the arguments to the exit code.

use std::collections::HashMap;
use std::time::Duration;

use hakobu_core::entry::{Account, Kind, Metadata, Time};
use hakobu_core::error::{Error, ErrorKind, Result};
use hakobu_core::path::{EntryPath, lossy};
use hakobu_transfer::list::{DirectoryEntries, list};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde::Serialize;

use crate::arguments::ls::LsArguments;
use crate::render::json::{JsonPath, one_line};
use crate::{exit, looking, output, settings, settings_file, words};

/// The schema of what `--json` prints.
const SCHEMA: &str = "hakobu.ls/1";
/// The exit code if some directories could not be listed.
const PARTLY: u8 = 3;
/// Nothing is made that would have to be cleared away.
const FAREWELL: Duration = Duration::from_millis(300);
/// Entries are printed so many bytes at a time.
const HELD_BYTES: usize = 64 * 1024;

/// What `--json` prints of each entry.
#[derive(Serialize)]
struct JsonEntry<'a> {
    schema: &'static str,
    #[serde(flatten)]
    path: JsonPath,
    kind: &'static str,
    size_bytes: u64,
    mode: String,
    uid: u32,
    gid: u32,
    owner: Option<&'a str>,
    group: Option<&'a str>,
    modified: Option<String>,
    links: u32,
}

/// Lists a location; returns the exit code.
pub fn ls(typed: &LsArguments) -> u8 {
    let request = match settings::ls_request(typed, settings_file::ssh_variable()) {
        Ok(request) => request,
        Err(errors) => return exit::errors(&errors),
    };
    let hosts: Vec<_> = request.copy.sources.iter().filter_map(|location| location.ssh_host()).collect();
    let mut failed = 0_u64;
    let zone = TimeZone::system();
    let form = match (typed.json, typed.long) {
        (true, _) => Form::Json,
        (false, true) => Form::Long(&zone),
        (false, false) => Form::Short,
    };
    let looks = (request.copy.sudo, typed.json);
    let code = looking::look_partly(&hosts, looks, FAREWELL, |terminal, observer, cancel| {
        let mut show = |entries: DirectoryEntries<'_>| {
            match print(&entries, form)? {
                0 => Ok(()),
                // The reason was told.
                _ => Err(Error::new(ErrorKind::Io, "listing", "the output could not be written")),
            }
        };
        let mut fail = |_: &EntryPath, error: Error| {
            failed += 1;
            output::tell(&words::error(&error));
        };
        let listed = list(&request, (terminal, observer), cancel, &mut show, &mut fail);
        Ok((String::new(), listed.err()))
    });
    match code {
        0 if failed > 0 => PARTLY,
        code => code,
    }
}

/// The form in which entries are printed.
#[derive(Clone, Copy)]
enum Form<'a> {
    Short,
    Long(&'a TimeZone),
    Json,
}

/// Prints the entries of one directory; returns the exit code.
fn print(entries: &DirectoryEntries<'_>, form: Form<'_>) -> Result<u8> {
    let widths = match form {
        Form::Long(_) => Widths::of(entries),
        _ => Widths::default(),
    };
    let mut held = Vec::new();
    for index in 0..entries.listing.len() {
        let (name, entry) = (entries.listing.name(index), entries.listing.metadata(index));
        let path = match entries.path.is_root() {
            true => name.to_vec(),
            false => [entries.path.as_bytes(), b"/", name].concat(),
        };
        let line = match form {
            Form::Json => json(&path, entry, entries.names)?,
            Form::Short => shown(&path, entry),
            Form::Long(zone) => {
                let [owner, group] = accounts(entry).map(|account| name_of(account, entries.names));
                let (mode, time) = (mode(entry), local_time(entry.mtime, zone));
                let size = size(entry);
                let Widths { owner: owner_width, group: group_width, size: size_width } = widths;
                format!(
                    "{mode}  {owner:<owner_width$}  {group:<group_width$}  {size:>size_width$}  {time}  {}",
                    shown(&path, entry)
                )
            }
        };
        held.extend_from_slice(line.as_bytes());
        held.push(b'\n');
        if held.len() >= HELD_BYTES {
            let code = output::print(&std::mem::take(&mut held));
            if code != 0 {
                return Ok(code);
            }
        }
    }
    Ok(output::print(&held))
}

/// The widths of the columns of one directory.
#[derive(Clone, Copy, Default)]
struct Widths {
    owner: usize,
    group: usize,
    size: usize,
}

impl Widths {
    fn of(entries: &DirectoryEntries<'_>) -> Self {
        let mut widths = Self::default();
        for entry in (0..entries.listing.len()).map(|index| entries.listing.metadata(index)) {
            let [owner, group] =
                accounts(entry).map(|account| name_of(account, entries.names).chars().count());
            widths.owner = widths.owner.max(owner);
            widths.group = widths.group.max(group);
            widths.size = widths.size.max(size(entry).len());
        }
        widths
    }
}

fn accounts(entry: &Metadata) -> [Account; 2] {
    [Account::User(entry.uid), Account::Group(entry.gid)]
}

/// The name of an account, or its number.
fn name_of(account: Account, names: &HashMap<Account, Vec<u8>>) -> String {
    names.get(&account).map_or_else(|| account.number().to_string(), |name| lossy(name))
}

/// The path for people, with a slash behind a directory.
fn shown(path: &[u8], entry: &Metadata) -> String {
    let slash = if entry.kind == Kind::Directory { "/" } else { "" };
    format!("{}{slash}", lossy(path))
}

/// The size in bytes; of a device, its numbers.
fn size(entry: &Metadata) -> String {
    match entry.kind {
        Kind::BlockDevice | Kind::CharDevice => {
            format!("{},{}", entry.device >> 20, entry.device & 0xf_ffff)
        }
        _ => entry.size_bytes.to_string(),
    }
}

/// Kind and permissions as `ls` shows them: `drwxr-xr-x`.
fn mode(entry: &Metadata) -> String {
    let kind = match entry.kind {
        Kind::File => '-',
        Kind::Directory => 'd',
        Kind::Symlink => 'l',
        Kind::Fifo => 'p',
        Kind::Socket => 's',
        Kind::BlockDevice => 'b',
        Kind::CharDevice => 'c',
    };
    let bit = |bit: u32| entry.mode & bit != 0;
    let mut words = String::from(kind);
    for (shift, special, letter) in [(6, 0o4000, 's'), (3, 0o2000, 's'), (0, 0o1000, 't')] {
        words.push(if bit(0o4 << shift) { 'r' } else { '-' });
        words.push(if bit(0o2 << shift) { 'w' } else { '-' });
        words.push(match (bit(0o1 << shift), bit(special)) {
            (true, true) => letter,
            (false, true) => letter.to_ascii_uppercase(),
            (true, false) => 'x',
            (false, false) => '-',
        });
    }
    words
}

fn timestamp(time: Time) -> Option<Timestamp> {
    // The fraction counts forward, and that of a `Timestamp` has the sign of its seconds.
    let second = Timestamp::from_second(time.seconds).ok()?;
    second.checked_add(jiff::SignedDuration::from_nanos(time.nanoseconds.into())).ok()
}

fn local_time(time: Time, zone: &TimeZone) -> String {
    let local = timestamp(time).map(|time| time.to_zoned(zone.clone()));
    local.map_or_else(|| time.seconds.to_string(), |time| time.strftime("%Y-%m-%d %H:%M:%S").to_string())
}

fn json(path: &[u8], entry: &Metadata, names: &HashMap<Account, Vec<u8>>) -> Result<String> {
    let [owner, group] =
        accounts(entry).map(|account| names.get(&account).and_then(|name| str::from_utf8(name).ok()));
    let is_name = |name: &&str| name.parse::<u32>().is_err();
    let entry = JsonEntry {
        schema: SCHEMA,
        path: JsonPath::new(path),
        kind: kind_name(entry.kind),
        size_bytes: entry.size_bytes,
        mode: format!("{:04o}", entry.mode),
        uid: entry.uid,
        gid: entry.gid,
        owner: owner.filter(is_name),
        group: group.filter(is_name),
        modified: timestamp(entry.mtime).map(|time| time.to_string()),
        links: entry.links,
    };
    one_line(&entry).map_err(|error| Error::io("writing JSON", &error))
}

/// The name of a kind in JSON.
fn kind_name(kind: Kind) -> &'static str {
    match kind {
        Kind::File => "file",
        Kind::Directory => "directory",
        Kind::Symlink => "symlink",
        Kind::Fifo => "fifo",
        Kind::Socket => "socket",
        Kind::BlockDevice => "block_device",
        Kind::CharDevice => "char_device",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_are_shown_as_by_ls() {
        let shown = |kind, bits| mode(&Metadata { mode: bits, ..Metadata::new(kind) });
        assert_eq!(shown(Kind::File, 0o644), "-rw-r--r--");
        assert_eq!(shown(Kind::Directory, 0o1777), "drwxrwxrwt");
        assert_eq!(shown(Kind::File, 0o6750), "-rwsr-s---");
        assert_eq!(shown(Kind::File, 0o7000), "---S--S--T");
        assert_eq!(shown(Kind::Symlink, 0o777), "lrwxrwxrwx");
    }

    #[test]
    fn times_before_1970_count_their_fraction_forward() {
        let time = |seconds, nanoseconds| timestamp(Time { seconds, nanoseconds }).unwrap().to_string();
        assert_eq!(time(-1, 500_000_000), "1969-12-31T23:59:59.5Z");
        assert_eq!(time(0, 0), "1970-01-01T00:00:00Z");
        assert_eq!(
            local_time(Time { seconds: i64::MAX, nanoseconds: 0 }, &TimeZone::UTC),
            i64::MAX.to_string()
        );
    }
}
