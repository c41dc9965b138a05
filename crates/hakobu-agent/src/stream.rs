//! Standard input and other descriptors as a source, standard output and others as a target.
//!
//! `-` is this process's standard input or output as it is. A name that leads to a descriptor, such as `/dev/stdin`,
//! `/dev/fd/63` or `<(command)` of a shell, stands for what the descriptor refers to. A source is read as `cp` reads
//! it: of a file the whole content is read, whatever has been read of it before. A target is written to at the
//! descriptor's position, and the file it refers to is never replaced.

use std::fs;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use hakobu_core::entry::EntryKind;
use hakobu_core::error::{Error, ErrorKind, Result};
use hakobu_core::landing::{Ancestry, TargetFound};
use hakobu_core::location::{Location, LocationKind};
use hakobu_core::path::EntryPath;
use hakobu_proto::control::{SourceLook, TargetLook};
use hakobu_sys::standard::{duplicate, was_closed};
use rustix::fs::{CWD, Mode, OFlags, PROC_SUPER_MAGIC, openat, statfs};
use rustix::termios::isatty;

use hakobu_core::request::CopyRequest;

/// The names used in messages instead of a path.
pub const INPUT_NAME: &[u8] = b"standard input";
/// The name of standard output for users.
pub const OUTPUT_NAME: &[u8] = b"standard output";

/// The directory of this process's descriptors. Nobody can create a file in it, not even an engine that lies.
const DIRECTORY: &[u8] = b"/proc/self/fd";
/// The location typed for standard input or output.
const STANDARD: &[u8] = b"-";
/// The maximum number of symbolic links in one path that the kernel follows.
const LINKS_MAX: usize = 40;
const OPENING_INPUT: &str = "opening standard input";
const OPENING_OUTPUT: &str = "opening standard output";

/// The ends of a copy that are streams of this process, as typed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Streams {
    /// The source.
    pub input: Option<Vec<u8>>,
    /// The target.
    pub output: Option<Vec<u8>>,
}

impl Streams {
    /// Returns the streams of a request.
    pub fn of(request: &CopyRequest) -> Self {
        let typed = |location: &Location| location.is_stream().then(|| location.as_typed().to_vec());
        Self { input: request.sources.iter().find_map(typed), output: typed(&request.target) }
    }
}

/// A descriptor of a process that a path leads to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Descriptor {
    /// The kernel's link to it, in a directory of `/proc`.
    link: PathBuf,
    /// The number, if it is a descriptor of this process.
    own: Option<u32>,
}

impl Descriptor {
    /// Returns the descriptor that a path names: a path in `/dev` or below `/proc`, directly or through links there.
    /// A symbolic link elsewhere is an ordinary link, even if it leads to a descriptor.
    pub fn of(path: &Path) -> Option<Self> {
        let mut at = path.to_path_buf();
        for _ in 0..LINKS_MAX {
            let name = at.file_name()?.to_owned();
            let parent = match at.parent() {
                Some(parent) if !parent.as_os_str().is_empty() => parent,
                _ => Path::new("."),
            };
            let parent = fs::canonicalize(parent).ok()?;
            let in_proc = statfs(&parent).is_ok_and(|found| found.f_type == PROC_SUPER_MAGIC);
            if !in_proc && parent != Path::new("/dev") {
                return None;
            }
            let link = parent.join(name);
            let text = fs::read_link(&link).ok()?;
            if in_proc && parent.file_name().is_some_and(|name| name == "fd") {
                return Some(Self { own: own_number(&link), link });
            }
            at = parent.join(text);
        }
        None
    }
}

/// Returns the number of a descriptor if it belongs to this process.
fn own_number(link: &Path) -> Option<u32> {
    let own = std::process::id().to_string();
    let is_own = link.components().any(|part| part.as_os_str() == own.as_str());
    let number = link.file_name()?.to_str()?.parse().ok()?;
    is_own.then_some(number)
}

/// Converts a location to a stream if it is a source on this host and leads to a descriptor of a process, unless that
/// refers to a directory.
#[must_use]
pub fn named_source(location: Location) -> Location {
    match descriptor_of(&location) {
        Some(descriptor) if !descriptor.link.is_dir() => location.as_stream(),
        _ => location,
    }
}

/// Converts a location to a stream if it is a target on this host and leads to a descriptor of this process, unless
/// that is standard error or refers to a directory.
#[must_use]
pub fn named_target(location: Location) -> Location {
    match descriptor_of(&location) {
        Some(Descriptor { own: Some(number), link }) if number != 2 && !link.is_dir() => location.as_stream(),
        _ => location,
    }
}

fn descriptor_of(location: &Location) -> Option<Descriptor> {
    let LocationKind::Local { path } = location.place() else { return None };
    match location.names_a_directory() {
        true => None,
        false => Descriptor::of(Path::new(std::ffi::OsStr::from_bytes(path))),
    }
}

/// Returns true if a stream is a terminal, which nobody intends to copy.
pub fn is_terminal(location: &Location, is_input: bool) -> bool {
    match location.as_typed() {
        STANDARD if is_input => isatty(io::stdin()),
        STANDARD => isatty(io::stdout()),
        typed => Descriptor::of(Path::new(std::ffi::OsStr::from_bytes(typed)))
            .and_then(|found| fs::File::open(found.link).ok())
            .is_some_and(isatty),
    }
}

/// Returns the description of standard input as a source.
pub fn look_at_input() -> Result<SourceLook> {
    Ok(SourceLook {
        kind: EntryKind::Fifo,
        size_bytes: 0,
        device: None,
        image: None,
        network: false,
        written_sectors: None,
        // It may come from a file, but that file is not looked up again.
        ancestry: Ancestry::default(),
        root: DIRECTORY.to_vec(),
        // The name in failures.
        entry: EntryPath::new(INPUT_NAME.to_vec())?,
        resolved: INPUT_NAME.to_vec(),
    })
}

/// Returns the description of standard output as a target.
pub fn look_at_output() -> TargetLook {
    TargetLook {
        found: TargetFound::Stream,
        resolved: OUTPUT_NAME.to_vec(),
        parent: DIRECTORY.to_vec(),
        name: b"1".to_vec(),
        device: None,
        unfinished: None,
        stray: false,
        network: false,
    }
}

/// Opens the stream to read: this process's standard input, or the descriptor that was typed.
///
/// # Errors
/// `Io` if a standard stream was closed, `NotFound` if the descriptor is gone, or an error of the system.
pub fn open_input(typed: &[u8]) -> Result<OwnedFd> {
    if typed == STANDARD {
        refuse_closed(0, OPENING_INPUT, "-")?;
        let error = |error: io::Error| Error::io(OPENING_INPUT, &error);
        return io::stdin().as_fd().try_clone_to_owned().map_err(error);
    }
    let during = "opening the source";
    let failed = |error: io::Error| Error::io(during, &error).at(typed);
    let descriptor = find(typed, during)?;
    refuse_closed(descriptor.own.unwrap_or(u32::MAX), during, typed)?;
    let found = fs::metadata(&descriptor.link).map_err(failed)?;
    let by_content = found.is_file() || found.file_type().is_block_device();
    match descriptor.own {
        Some(number) if !by_content => duplicate(number).map_err(|errno| failed(errno.into())),
        // Opening a pipe must not wait for a writer.
        _ => {
            let flags = OFlags::RDONLY | OFlags::NOCTTY | OFlags::NONBLOCK | OFlags::CLOEXEC;
            openat(CWD, &descriptor.link, flags, Mode::empty()).map_err(|errno| failed(errno.into()))
        }
    }
}

/// Opens the stream to write to: this process's standard output, or its descriptor that was typed.
///
/// # Errors
/// `Io` if a standard stream was closed, `NotFound` if the descriptor is gone, `Refused` if it is another process's,
/// or an error of the system.
pub fn open_output(typed: &[u8]) -> Result<OwnedFd> {
    if typed == STANDARD {
        refuse_closed(1, OPENING_OUTPUT, "-")?;
        let error = |error: io::Error| Error::io(OPENING_OUTPUT, &error);
        return io::stdout().as_fd().try_clone_to_owned().map_err(error);
    }
    let during = "opening the target";
    let Some(number) = find(typed, during)?.own else { return Err(not_own(typed)) };
    refuse_closed(number, during, typed)?;
    duplicate(number).map_err(|errno| Error::io(during, &errno.into()).at(typed))
}

fn find(typed: &[u8], during: &'static str) -> Result<Descriptor> {
    let gone = || Error::new(ErrorKind::NotFound, during, "there is no such descriptor any more").at(typed);
    Descriptor::of(Path::new(std::ffi::OsStr::from_bytes(typed))).ok_or_else(gone)
}

fn not_own(typed: &[u8]) -> Error {
    let words = "it is a descriptor of another process";
    Error::new(ErrorKind::Refused, "opening the target", words).at(typed)
}

/// Refuses a standard stream that was closed, because something else has its number now.
fn refuse_closed(number: u32, during: &'static str, typed: impl AsRef<[u8]>) -> Result<()> {
    if u8::try_from(number).is_ok_and(was_closed) {
        return Err(Error::new(ErrorKind::Io, during, "it is closed").at(typed));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Seek, SeekFrom, Write};
    use std::os::fd::AsRawFd;

    use super::*;

    fn named(file: &impl AsRawFd) -> Vec<String> {
        let number = file.as_raw_fd();
        let own = std::process::id();
        let below = ["/dev/fd", "/proc/self/fd", "/proc/thread-self/fd", &format!("/proc/{own}/fd")]
            .map(str::to_owned);
        below.into_iter().map(|directory| format!("{directory}/{number}")).collect()
    }

    #[test]
    fn names_of_descriptors_are_known() {
        let (reader, _writer) = io::pipe().unwrap();
        for name in named(&reader) {
            let location = named_source(Location::local(name.clone()));
            assert!(location.is_stream() && location.as_typed() == name.as_bytes(), "{name}");
            assert!(named_target(Location::local(name)).is_stream());
        }
        for name in ["/dev/stdin", "/dev/stdout", "-"] {
            assert!(named_source(Location::parse(name.as_bytes()).unwrap()).is_stream(), "{name}");
        }
        // Standard error, a missing descriptor, names that are no descriptors, and a symbolic link of the user's own.
        let directory = tempfile::tempdir().unwrap();
        let link = directory.path().join("link");
        std::os::unix::fs::symlink("/dev/fd/0", &link).unwrap();
        for name in
            ["/dev/stderr", "/dev/fd/2", "/dev/fd/999999", "/dev/null", "/proc/self/exe", "/proc/self/fd"]
        {
            assert!(!named_target(Location::local(name)).is_stream(), "{name}");
        }
        assert!(!named_source(Location::local(link.to_str().unwrap())).is_stream());
        let opened = fs::File::open(directory.path()).unwrap();
        for name in named(&opened) {
            assert!(!named_source(Location::local(name.clone())).is_stream(), "{name} is a directory");
        }
    }

    #[test]
    fn a_file_behind_a_descriptor_is_read_whole_and_written_where_it_stands() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"content").unwrap();
        file.seek(SeekFrom::Start(3)).unwrap();
        let name = &named(&file)[0];
        let mut read = String::new();
        fs::File::from(open_input(name.as_bytes()).unwrap()).read_to_string(&mut read).unwrap();
        assert_eq!(read, "content");
        fs::File::from(open_output(name.as_bytes()).unwrap()).write_all(b"..").unwrap();
        file.seek(SeekFrom::Start(0)).unwrap();
        read.clear();
        file.read_to_string(&mut read).unwrap();
        assert_eq!(read, "con..nt");
        // No other test can have opened this one.
        assert_eq!(open_input(b"/dev/fd/999999").unwrap_err().kind, ErrorKind::NotFound);
    }
}
