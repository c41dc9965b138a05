//! The verb `ls`, from the arguments to the exit code.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::time::Duration;

use clap::Args;
use hakobu_core::entry::{AccountId, EntryKind, EntryMetadata, FileTime};
use hakobu_core::error::{Error, ErrorKind, Result};
use hakobu_core::location::Location;
use hakobu_core::path::{EntryPath, lossy};
use hakobu_transfer::list::{DirectoryEntries, LsRequest, list};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde::Serialize;

use crate::commands::shared::findings::Findings;
use crate::commands::shared::headings::OUTPUT;
use crate::commands::shared::login::LoginArguments;
use crate::commands::shared::looking;
use crate::commands::shared::store::{ObjectArguments, StoreArguments, is_in_object_store};
use crate::language::Language;
use crate::render::json::{JsonPath, one_line};
use crate::settings_file::{name_places, ssh_variable};
use crate::{exit, messages, output, words};

/// The schema of what `--json` prints.
const SCHEMA: &str = "hakobu.ls/1";
/// The exit code if some directories could not be listed.
const PARTLY: u8 = 3;
/// The time that a run has to end after an interruption. Nothing has to be removed.
const FAREWELL: Duration = Duration::from_millis(300);
/// The value of what a listing does not show.
const UNKNOWN: &str = "?";
/// The number of bytes of output that are printed at a time.
const HELD_BYTES: usize = 64 * 1024;

/// An entry as `--json` prints it.
#[derive(Serialize)]
struct JsonEntry<'a> {
    schema: &'static str,
    #[serde(flatten)]
    path: JsonPath,
    kind: &'static str,
    size_bytes: u64,
    /// `None`, as the three below, if the listing does not show it.
    mode: Option<String>,
    uid: Option<u32>,
    gid: Option<u32>,
    owner: Option<&'a str>,
    group: Option<&'a str>,
    modified: Option<String>,
    links: u32,
}

/// The text below the help.
pub(crate) const LS_HELP: &str = "\
Entries are sorted by the bytes of their names. Directory names end in a slash. With -R, the content of each directory \
follows that of its parent, and paths are relative to LOCATION. Characters that would confuse a terminal are escaped; --json has the bytes. A \
host is listed through its SFTP server, so it needs no hakobu.

The long form has the mode, owner, group, size in bytes and modification time. Over SFTP, owners are numbers; \
of a device node, the size column has the device number, or `?` over SFTP. In S3, a listing shows only sizes and the times \
of uploads: what is unknown is `?`, in JSON null, and symbolic links look like files. A single object is shown with all. \
Symbolic links are not followed, except LOCATION itself.

Examples:
  hakobu ls -l host:/data
  hakobu ls sftp://user@host:2222/upload
  hakobu ls -l s3://bucket/data
  hakobu ls -R --json host:/data | jq -r 'select(.kind == \"file\") | .path'

Exit codes: 0 listed, 1 failed, 2 wrong usage, 3 some directories could not be listed, 130 interrupted.";

/// The arguments of `ls`.
#[derive(Debug, Args)]
pub struct LsArguments {
    /// Directory or file: a path, host:path, ssh://host:port/path, sftp://host/path, s3://bucket/path, az://container/path or gs://bucket/path
    #[arg(value_name = "LOCATION", default_value = ".")]
    pub location: OsString,

    /// List mode, owner, group, size and time as well
    #[arg(short = 'l', long, help_heading = OUTPUT)]
    pub long: bool,

    /// List the directories below LOCATION, too
    #[arg(short = 'R', long, help_heading = OUTPUT)]
    pub recursive: bool,

    /// Print a JSON object for each entry
    #[arg(long, help_heading = OUTPUT)]
    pub json: bool,

    /// The login on the other machine.
    #[command(flatten)]
    pub login: LoginArguments,

    /// The options for reaching object stores.
    #[command(flatten)]
    pub store: StoreArguments,
}

/// Returns the request that the arguments of `ls` stand for.
///
/// # Errors
/// `Usage` for each value that is wrong.
pub fn ls_request(
    typed: &LsArguments,
    environment_ssh: Option<OsString>,
) -> std::result::Result<LsRequest, Vec<Error>> {
    let mut found = Findings::default();
    let location = found.keep(Location::parse(typed.location.as_bytes())).unwrap_or_default();
    let name = location.to_string();
    if location.is_stream() {
        found.usage(&name, "a stream has no entries; a file named - is ./-");
    }
    if location.rsync_host().is_some() {
        found.usage(
            &name,
            "hakobu ls does not list rsync daemons in this version; rsync without a target does",
        );
    }
    let mut request = LsRequest::new(location);
    (request.recursive, request.names) = (typed.recursive, typed.long || typed.json);
    for (keyword, is_set) in [("sudo", typed.login.sudo), ("agent", typed.login.agent.is_some())] {
        if is_set && !typed.login.from_files.iter().any(|from| from.keyword == keyword) {
            let words = "hakobu ls lists a host through its SFTP server, as the user who logs in; leave this option out";
            found.usage(&format!("--{keyword}"), words);
        }
    }
    found.login(&typed.login, environment_ssh, &mut request.copy);
    let settings = found.store(&typed.store, &ObjectArguments::default(), request.copy.sources.first());
    (request.copy.source_store, request.copy.target_store) = (settings.clone(), settings);
    // From settings files they are for other commands.
    (request.copy.sudo, request.copy.agent) = (false, None);
    request.copy.logins.iter_mut().for_each(|login| (login.sudo, login.agent) = (false, None));
    name_places(&mut found.errors, &typed.login.from_files);
    found.or(request)
}

/// Lists a location; returns the exit code.
pub fn ls(typed: &LsArguments) -> u8 {
    let request = match ls_request(typed, ssh_variable()) {
        Ok(request) => request,
        Err(errors) => return exit::errors(&errors),
    };
    let in_vain = typed.store.without_effect(request.copy.sources.iter().any(is_in_object_store));
    in_vain.iter().for_each(|words| output::tell_translated(&messages::note(words)));
    let hosts: Vec<_> = request.copy.sources.iter().filter_map(|location| location.ssh_host()).collect();
    let mut failed = 0_u64;
    let zone = TimeZone::system();
    let form = match (typed.json, typed.long) {
        (true, _) => Form::Json,
        (false, true) => Form::Long(&zone, request.copy.sources.iter().all(Location::is_local)),
        (false, false) => Form::Short,
    };
    let looks = (request.copy.sudo, typed.json);
    let code = looking::look_partly(&hosts, looks, FAREWELL, |terminal, observer, cancel| {
        let mut show = |entries: DirectoryEntries<'_>| {
            match print(&entries, form)? {
                0 => Ok(()),
                // `output::print` has reported the reason.
                _ => Err(Error::new(ErrorKind::Io, "listing", "the output could not be written")),
            }
        };
        let mut fail = |_: &EntryPath, error: Error| {
            failed += 1;
            output::tell(&words::error(&error, Language::from_environment()));
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
    /// In the time zone; false if the numbers of devices are unknown.
    Long(&'a TimeZone, bool),
    Json,
}

/// Prints the entries of one directory; returns the exit code.
fn print(entries: &DirectoryEntries<'_>, form: Form<'_>) -> Result<u8> {
    let widths = match form {
        Form::Long(_, knows_devices) => Widths::of(entries, knows_devices),
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
            Form::Json => json(&path, entry, entries)?,
            Form::Short => shown(&path, entry),
            Form::Long(zone, knows_devices) => {
                let [owner, group] = accounts(entry).map(|account| name_of(account, entries));
                let (mode, time) = (mode(entry, entries.listed.modes), local_time(entry.mtime, zone));
                let size = size(entry, knows_devices);
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
    fn of(entries: &DirectoryEntries<'_>, knows_devices: bool) -> Self {
        let mut widths = Self::default();
        for entry in (0..entries.listing.len()).map(|index| entries.listing.metadata(index)) {
            let [owner, group] = accounts(entry).map(|account| name_of(account, entries).chars().count());
            widths.owner = widths.owner.max(owner);
            widths.group = widths.group.max(group);
            widths.size = widths.size.max(size(entry, knows_devices).len());
        }
        widths
    }
}

fn accounts(entry: &EntryMetadata) -> [AccountId; 2] {
    [AccountId::User(entry.uid), AccountId::Group(entry.gid)]
}

/// Returns the name of an account, or its number.
fn name_of(account: AccountId, entries: &DirectoryEntries<'_>) -> String {
    match entries.names.get(&account) {
        _ if !entries.listed.owners => UNKNOWN.to_owned(),
        Some(name) => lossy(name),
        None => account.number().to_string(),
    }
}

/// Returns the path for people. That of a directory ends in a slash.
fn shown(path: &[u8], entry: &EntryMetadata) -> String {
    let slash = if entry.kind == EntryKind::Directory { "/" } else { "" };
    format!("{}{slash}", lossy(path))
}

/// Returns the size in bytes, or the numbers of a device.
fn size(entry: &EntryMetadata, knows_devices: bool) -> String {
    match entry.kind {
        EntryKind::BlockDevice | EntryKind::CharDevice if !knows_devices => "?".to_owned(),
        EntryKind::BlockDevice | EntryKind::CharDevice => {
            format!("{},{}", entry.device >> 20, entry.device & 0xf_ffff)
        }
        _ => entry.size_bytes.to_string(),
    }
}

/// Returns kind and permissions as `ls` shows them: `drwxr-xr-x`, or `d?????????` if they are unknown.
fn mode(entry: &EntryMetadata, is_known: bool) -> String {
    let kind = match entry.kind {
        EntryKind::File => '-',
        EntryKind::Directory => 'd',
        EntryKind::Symlink => 'l',
        EntryKind::Fifo => 'p',
        EntryKind::Socket => 's',
        EntryKind::BlockDevice => 'b',
        EntryKind::CharDevice => 'c',
    };
    let bit = |bit: u32| entry.mode & bit != 0;
    let mut words = String::from(kind);
    if !is_known {
        words.push_str(&UNKNOWN.repeat(9));
        return words;
    }
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

fn timestamp(time: FileTime) -> Option<Timestamp> {
    // The nanoseconds always count forward; those of a `Timestamp` have the sign of its seconds.
    let second = Timestamp::from_second(time.seconds).ok()?;
    second.checked_add(jiff::SignedDuration::from_nanos(time.nanoseconds.into())).ok()
}

fn local_time(time: FileTime, zone: &TimeZone) -> String {
    let local = timestamp(time).map(|time| time.to_zoned(zone.clone()));
    local.map_or_else(|| time.seconds.to_string(), |time| time.strftime("%Y-%m-%d %H:%M:%S").to_string())
}

fn json(path: &[u8], entry: &EntryMetadata, entries: &DirectoryEntries<'_>) -> Result<String> {
    let DirectoryEntries { names, listed, .. } = entries;
    let [owner, group] =
        accounts(entry).map(|account| names.get(&account).and_then(|name| str::from_utf8(name).ok()));
    let is_name = |name: &&str| name.parse::<u32>().is_err();
    let entry = JsonEntry {
        schema: SCHEMA,
        path: JsonPath::new(path),
        kind: kind_name(entry.kind),
        size_bytes: entry.size_bytes,
        mode: listed.modes.then(|| format!("{:04o}", entry.mode)),
        uid: listed.owners.then_some(entry.uid),
        gid: listed.owners.then_some(entry.gid),
        owner: owner.filter(is_name),
        group: group.filter(is_name),
        modified: timestamp(entry.mtime).map(|time| time.to_string()),
        links: entry.links,
    };
    one_line(&entry).map_err(|error| Error::io("writing JSON", &error))
}

/// Returns the name of a kind in JSON.
pub(crate) fn kind_name(kind: EntryKind) -> &'static str {
    match kind {
        EntryKind::File => "file",
        EntryKind::Directory => "directory",
        EntryKind::Symlink => "symlink",
        EntryKind::Fifo => "fifo",
        EntryKind::Socket => "socket",
        EntryKind::BlockDevice => "block_device",
        EntryKind::CharDevice => "char_device",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_are_shown_as_by_ls() {
        let shown = |kind, bits| mode(&EntryMetadata { mode: bits, ..EntryMetadata::new(kind) }, true);
        assert_eq!(shown(EntryKind::File, 0o644), "-rw-r--r--");
        assert_eq!(shown(EntryKind::Directory, 0o1777), "drwxrwxrwt");
        assert_eq!(shown(EntryKind::File, 0o6750), "-rwsr-s---");
        assert_eq!(shown(EntryKind::File, 0o7000), "---S--S--T");
        assert_eq!(shown(EntryKind::Symlink, 0o777), "lrwxrwxrwx");
        assert_eq!(mode(&EntryMetadata::new(EntryKind::Directory), false), "d?????????");
    }

    #[test]
    fn times_before_1970_count_their_fraction_forward() {
        let time = |seconds, nanoseconds| timestamp(FileTime { seconds, nanoseconds }).unwrap().to_string();
        assert_eq!(time(-1, 500_000_000), "1969-12-31T23:59:59.5Z");
        assert_eq!(time(0, 0), "1970-01-01T00:00:00Z");
        assert_eq!(
            local_time(FileTime { seconds: i64::MAX, nanoseconds: 0 }, &TimeZone::UTC),
            i64::MAX.to_string()
        );
    }
}
