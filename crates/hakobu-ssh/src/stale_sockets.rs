//! Removes socket directories of logins that killed processes have left. Each is locked by the process that made it.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::time::{Duration, SystemTime};

use rustix::fs::{FlockOperation, OFlags, flock};

/// The prefix of the names of these directories.
pub(super) const PREFIX: &str = "hakobu-ssh-";
/// Their prefix in 0.1.0, which did not lock them: one in use looks like one that was left.
const PREFIX_UNLOCKED: &str = "hakobu-ssh.";
/// The most entries of a directory that are examined.
const LOOKED_AT_MAX: usize = 20_000;
/// The age below which a directory may not be locked yet.
const YOUNG: Duration = Duration::from_secs(1);
/// The age from which a directory of 0.1.0 is removed. No login is expected to last that long.
const OLD: Duration = Duration::from_secs(30 * 24 * 3600);

/// Marks a directory as in use, for as long as the file is open and this process lives.
pub(super) fn lock(directory: &Path) -> Option<File> {
    let file = open(directory)?;
    flock(&file, FlockOperation::NonBlockingLockExclusive).ok()?;
    Some(file)
}

/// Removes this user's directories in `place` that are not locked.
pub(super) fn remove(place: &Path) {
    let Ok(entries) = std::fs::read_dir(place) else { return };
    for path in entries.take(LOOKED_AT_MAX).flatten().map(|entry| entry.path()) {
        let Some(age_least) = age_least(&path) else { continue };
        let Some(file) = open(&path) else { continue };
        let Ok(found) = file.metadata() else { continue };
        let own = found.uid() == rustix::process::geteuid().as_raw() && found.mode() & 0o077 == 0;
        let changed = SystemTime::UNIX_EPOCH + Duration::from_secs(u64::try_from(found.ctime()).unwrap_or(0));
        let is_young = changed.elapsed().is_ok_and(|age| age < age_least);
        if own && !is_young && flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok() {
            empty(&path);
            let _ = std::fs::remove_dir(&path);
        }
    }
}

/// Returns the age that a directory must have to be removed, or `None` if it is not such a directory.
fn age_least(path: &Path) -> Option<Duration> {
    let name = path.file_name()?.as_encoded_bytes();
    match () {
        () if name.starts_with(PREFIX.as_bytes()) => Some(YOUNG),
        () if name.starts_with(PREFIX_UNLOCKED.as_bytes()) => Some(OLD),
        () => None,
    }
}

/// Removes sockets. Any other file remains, and with it the directory.
fn empty(directory: &Path) {
    let Ok(entries) = std::fs::read_dir(directory) else { return };
    for entry in entries.flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_socket()) {
            let _ = std::fs::remove_file(entry.path());
        }
    }
}

fn open(directory: &Path) -> Option<File> {
    let flags = (OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC).bits();
    OpenOptions::new().read(true).custom_flags(flags.cast_signed()).open(directory).ok()
}

#[cfg(test)]
mod tests {
    use std::fs::{DirBuilder, write};
    use std::os::unix::fs::DirBuilderExt;
    use std::os::unix::net::UnixListener;
    use std::time::Instant;

    use super::*;

    #[test]
    fn what_nobody_holds_goes_and_nothing_else_does() {
        let place = tempfile::tempdir().unwrap();
        let make = |name: &str| {
            let path = place.path().join(name);
            DirBuilder::new().mode(0o700).create(&path).unwrap();
            path
        };
        let (dead, alive) = (make("hakobu-ssh-0123456789abcdef"), make("hakobu-ssh-fedcba9876543210"));
        let (others, theirs) = (make("ssh.x"), make("hakobu-ssh-with-a-file"));
        let unlocked = make("hakobu-ssh.0123456789abcdef");
        drop(UnixListener::bind(dead.join("s")).unwrap());
        write(theirs.join("file"), "kept").unwrap();
        let held = lock(&alive).unwrap();
        remove(place.path());
        assert!(dead.exists(), "it was made a moment ago");
        std::thread::sleep(Duration::from_millis(2100));
        remove(place.path());
        assert!(
            !dead.exists()
                && alive.exists()
                && unlocked.exists()
                && others.exists()
                && theirs.join("file").exists()
        );
        drop(held);
        // A process that another test starts at this moment also has the lock, until it executes another program.
        let deadline = Instant::now() + Duration::from_secs(10);
        while alive.exists() && Instant::now() < deadline {
            remove(place.path());
        }
        assert!(!alive.exists());
    }
}
