//! All jobs of the user on this host.

use std::path::PathBuf;

use hakobu_core::error::{Error, ErrorKind, Result};
use hakobu_endpoints::local::StateDirectory;
use rustix::fd::OwnedFd;
use rustix::fs::Dir;
use rustix::io::Errno;

use super::folder::{make_own, open_own};
use super::{JobFolder, JobId, JobState};
use hakobu_agent::machine;

/// The name of the directory of jobs in the state directory.
const JOBS: &str = "jobs";
/// The number of IDs that are tried before the directory counts as broken.
const NAMES_TRIED_MAX: u32 = 100;

/// The directory of all jobs.
#[derive(Debug)]
pub struct Jobs {
    directory: OwnedFd,
    path: PathBuf,
}

impl Jobs {
    /// Opens the jobs of the user who runs this process.
    ///
    /// # Errors
    /// `Refused` if the directory is accessible to others; `NotFound` if the user has no state directory.
    pub fn of_user() -> Result<Self> {
        let state = machine::state_directory().ok_or_else(|| {
            let words = "neither HOME nor XDG_STATE_HOME is set, so there is no place for jobs";
            Error::new(ErrorKind::NotFound, "opening the directory of jobs", words)
        })?;
        Self::below(&state)
    }

    /// Opens the jobs in this state directory.
    ///
    /// # Errors
    /// The errors of [`of_user`](Self::of_user).
    pub fn below(state: &StateDirectory) -> Result<Self> {
        let (parent, path) = (state.open()?, state.path().join(JOBS));
        match make_own(&parent, JOBS) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(errno) => return Err(failed(errno).at(path.as_os_str().as_encoded_bytes())),
        }
        Ok(Self { directory: open_own(&parent, JOBS, &path)?, path })
    }

    /// Creates the directory of a new job.
    ///
    /// # Errors
    /// An I/O error.
    pub fn create(&self) -> Result<JobFolder> {
        for _ in 0..NAMES_TRIED_MAX {
            let id = JobId::random()?;
            match make_own(&self.directory, id.as_str()) {
                Ok(()) => return self.open(id),
                Err(Errno::EXIST) => {}
                Err(errno) => return Err(failed(errno).at(self.path.as_os_str().as_encoded_bytes())),
            }
        }
        Err(failed(Errno::EXIST).at(self.path.as_os_str().as_encoded_bytes()))
    }

    /// Opens a job.
    ///
    /// # Errors
    /// An I/O error; `Refused` if the directory is accessible to others.
    pub fn open(&self, id: JobId) -> Result<JobFolder> {
        JobFolder::open(&self.directory, &self.path, id)
    }

    /// Returns the IDs of all jobs, sorted.
    ///
    /// # Errors
    /// An I/O error.
    pub fn ids(&self) -> Result<Vec<JobId>> {
        let at = |error: Error| error.at(self.path.as_os_str().as_encoded_bytes());
        let mut ids = Vec::new();
        for entry in Dir::read_from(&self.directory).map_err(|errno| at(failed(errno)))? {
            let entry = entry.map_err(|errno| at(failed(errno)))?;
            ids.extend(JobId::parse(entry.file_name().to_bytes()));
        }
        ids.sort();
        Ok(ids)
    }

    /// Opens the job whose ID begins with `prefix`.
    ///
    /// # Errors
    /// `Usage` if no job or several jobs match.
    pub fn find(&self, prefix: &str) -> Result<JobFolder> {
        let fitting: Vec<_> = self
            .ids()?
            .into_iter()
            .filter(|id| !prefix.is_empty() && id.as_str().starts_with(prefix))
            .collect();
        let wrong =
            |words: String| Err(Error::new(ErrorKind::Usage, "looking for the job", words).at(prefix));
        match fitting[..] {
            [id] => self.open(id),
            [] => wrong("there is none; hakobu jobs list shows them all".to_owned()),
            [..] => {
                let all: Vec<_> = fitting.iter().take(9).map(JobId::as_str).collect();
                wrong(format!("several begin so: {}", all.join(", ")))
            }
        }
    }

    /// Removes a job: its record, log and report. Its data is not touched. Returns the state that it was in.
    ///
    /// # Errors
    /// `Locked` while it runs.
    pub fn forget(&self, folder: &JobFolder) -> Result<JobState> {
        folder.remove(&self.directory)
    }
}

fn failed(errno: Errno) -> Error {
    Error::io("opening the directory of jobs", &errno.into())
}
