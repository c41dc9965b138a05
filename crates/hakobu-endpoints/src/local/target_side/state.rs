//! The state directory of this machine, for data that cannot be beside the copied data: journals of devices, and jobs.

use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use hakobu_core::disk::{DeviceIdentity, ID_BYTES_MAX};
use hakobu_core::{Error, Result};
use rustix::fd::OwnedFd;
use rustix::fs::{CWD, Mode, OFlags, mkdirat, openat};
use rustix::io::Errno;

use crate::local::errno::fault;

/// A directory that is created when it is needed, accessible only to its owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateDirectory(PathBuf);

impl StateDirectory {
    /// Returns the directory at a path chosen by the user or by root.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self(path.into())
    }

    /// Returns the customary directory: `/var/lib/hakobu` for root, otherwise `hakobu` in the user's state directory.
    /// `home` and `state_home` are the values of the variables `HOME` and `XDG_STATE_HOME`.
    pub fn by_custom(is_root: bool, home: Option<&Path>, state_home: Option<&Path>) -> Option<Self> {
        if is_root {
            return Some(Self::new("/var/lib/hakobu"));
        }
        let user = home.filter(|home| home.is_absolute()).map(|home| home.join(".local/state"));
        let state = state_home.filter(|state| state.is_absolute()).map(Path::to_path_buf).or(user)?;
        Some(Self(state.join("hakobu")))
    }

    /// Returns the path.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Opens the directory, and creates it if needed.
    ///
    /// # Errors
    /// The system's, with the path.
    pub fn open(&self) -> Result<Arc<OwnedFd>> {
        let failed =
            |errno| fault("opening the state directory", errno).at(self.0.as_os_str().as_encoded_bytes());
        let mut missing: Vec<_> = self.0.ancestors().take_while(|path| !path.exists()).collect();
        missing.reverse();
        for path in missing {
            match mkdirat(CWD, path, Mode::RWXU) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(errno) => return Err(failed(errno)),
            }
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        openat(CWD, &self.0, flags, Mode::empty()).map(Arc::new).map_err(failed)
    }
}

impl StateDirectory {
    /// Returns the ID of a disk when an unfinished run began to write to it. IDs from the partition table change by
    /// writing.
    pub fn unfinished(&self, identity: &DeviceIdentity) -> Option<String> {
        let id = std::fs::read_to_string(self.0.join(unfinished_name(identity))).ok()?;
        (id.len() <= ID_BYTES_MAX).then_some(id)
    }

    /// Records that a disk is being written to.
    pub(crate) fn begin(&self, identity: &DeviceIdentity) -> Result<()> {
        self.open()?;
        if self.unfinished(identity).is_some() {
            return Ok(());
        }
        let path = self.0.join(unfinished_name(identity));
        let mut options = std::fs::OpenOptions::new();
        let file = options.write(true).create(true).truncate(true).mode(0o600).open(&path);
        file.and_then(|mut file| file.write_all(identity.id.as_bytes())).map_err(|error| {
            Error::io("remembering the disk", &error).at(path.as_os_str().as_encoded_bytes())
        })
    }

    /// Records that a disk is complete.
    pub(crate) fn end(&self, identity: &DeviceIdentity) {
        let _ = std::fs::remove_file(self.0.join(unfinished_name(identity)));
    }
}

fn unfinished_name(identity: &DeviceIdentity) -> String {
    let hash = blake3::hash(identity.place_id.as_bytes());
    format!("unfinished.{}", &hash.to_hex()[..24])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_have_one_of_their_own() {
        let path = |text: &'static str| Some(Path::new(text));
        let custom = |root, home, state| StateDirectory::by_custom(root, home, state).map(|state| state.0);
        assert_eq!(custom(true, path("/root"), None).unwrap(), Path::new("/var/lib/hakobu"));
        assert_eq!(custom(false, path("/home/a"), None).unwrap(), Path::new("/home/a/.local/state/hakobu"));
        assert_eq!(custom(false, path("/home/a"), path("/s")).unwrap(), Path::new("/s/hakobu"));
        assert_eq!(custom(false, path("relative"), None), None);
    }

    #[test]
    fn a_disk_is_known_by_the_id_it_had_before() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let state = StateDirectory::new(folder.path().join("state"));
        let identity = |id: &str| DeviceIdentity {
            id: id.to_owned(),
            place_id: "made.here".to_owned(),
            ..DeviceIdentity::default()
        };
        assert_eq!(state.unfinished(&identity("made.1")), None);
        state.begin(&identity("made.1")).unwrap();
        state.begin(&identity("made.2")).unwrap();
        let file = state.path().join(unfinished_name(&identity("made.1")));
        assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(state.unfinished(&identity("made.2")).unwrap(), "made.1");
        state.end(&identity("made.2"));
        assert_eq!(state.unfinished(&identity("made.1")), None);
    }

    #[test]
    fn it_is_made_for_its_owner_alone() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let state = StateDirectory::new(folder.path().join("a/b"));
        state.open().unwrap();
        state.open().unwrap();
        assert_eq!(folder.path().join("a/b").metadata().unwrap().permissions().mode() & 0o777, 0o700);
    }
}
