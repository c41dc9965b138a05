//! The directory of one job.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::Duration;

use hakobu_core::error::{Error, ErrorKind, Result};
use hakobu_core::report::Report;
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{
    AtFlags, Dir, FileType, FlockOperation, Mode, OFlags, fchmod, flock, fstat, fsync, openat, renameat,
    unlinkat,
};
use rustix::io::Errno;

use super::{EndedReport, JobId, JobLimits, JobRecord, JobState, LIMITS_SCHEMA, LimitsStamp};

const RECORD: &str = "job.json";
const LOCK: &str = "lock";
const LOG: &str = "log";
const PROGRESS: &str = "progress";
const REPORT: &str = "report.json";
const PAUSED: &str = "paused";
const LIMITS: &str = "limits.json";

/// The longest record that is read, in bytes. Linux does not accept a longer command line.
pub(super) const RECORD_BYTES_MAX: u64 = 8 << 20;
/// The longest report that is read, in bytes. A report lists at most 10 000 failures, each with paths of a few KiB.
const REPORT_BYTES_MAX: u64 = 512 << 20;
/// The longest report that is read into memory as a whole, in bytes. For a longer one the caller gets its path.
const REPORT_HELD_BYTES_MAX: u64 = 64 << 20;
/// The longest limits file that is read, in bytes.
const LIMITS_BYTES_MAX: u64 = 64 * 1024;
/// The longest progress line that is read, in bytes.
pub(super) const PROGRESS_BYTES_MAX: u64 = 4096;
/// The number of attempts to take the lock: a process that checks whether it is locked holds it for a moment.
const LOCK_TRIES: u32 = 20;
const LOCK_PAUSE: Duration = Duration::from_millis(50);

/// The open directory of a job, which only its owner can access.
#[derive(Debug)]
pub struct JobFolder {
    id: JobId,
    directory: OwnedFd,
    path: PathBuf,
}

/// The lock of the process that runs a job. It is released when the process ends for any reason.
#[derive(Debug)]
pub struct JobRunLock {
    _file: OwnedFd,
}

impl JobFolder {
    /// Opens the directory of a job below the directory of all jobs.
    pub(super) fn open(jobs: impl AsFd, jobs_path: &Path, id: JobId) -> Result<Self> {
        let path = jobs_path.join(id.as_str());
        let directory = open_own(jobs, id.as_str(), &path)?;
        Ok(Self { id, directory, path })
    }

    /// Returns the job's ID.
    pub fn id(&self) -> JobId {
        self.id
    }

    /// Returns the path of the directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the record of what is to be run.
    ///
    /// # Errors
    /// The record is missing, too long, or of a schema that this version does not know.
    pub fn record(&self) -> Result<JobRecord> {
        let during = "reading the job";
        let bytes =
            self.read(RECORD, RECORD_BYTES_MAX).map_err(|error| self.error(during, RECORD, &error))?;
        let record: JobRecord = serde_json::from_slice(&bytes).map_err(|error| {
            Error::new(ErrorKind::Corrupt, during, error.to_string()).at(self.place(RECORD))
        })?;
        if record.is_of(self.id) {
            return Ok(record);
        }
        Err(Error::new(ErrorKind::Unsupported, during, "it is not a job of this version")
            .at(self.place(RECORD)))
    }

    /// Writes the record of what is to be run.
    ///
    /// # Errors
    /// An I/O error.
    pub fn write_record(&self, record: &JobRecord) -> Result<()> {
        let written = serde_json::to_vec_pretty(record).map_err(io::Error::from);
        let written = written.and_then(|bytes| self.replace(RECORD, &bytes, true));
        written.map_err(|error| self.error("writing the job", RECORD, &error))
    }

    /// Locks the job for a run.
    ///
    /// # Errors
    /// `Locked` if a run holds the lock.
    pub fn lock(&self) -> Result<JobRunLock> {
        for attempt in 1.. {
            match self.try_lock(FlockOperation::NonBlockingLockExclusive) {
                Ok(file) => return Ok(JobRunLock { _file: file }),
                Err(Errno::WOULDBLOCK) if attempt == LOCK_TRIES => break,
                Err(Errno::WOULDBLOCK) => sleep(LOCK_PAUSE),
                Err(errno) => return Err(self.error("locking the job", LOCK, &errno.into())),
            }
        }
        Err(Error::new(ErrorKind::Locked, "locking the job", "it is running")
            .at(self.id.as_str())
            .hint("hakobu jobs attach ID watches it, hakobu jobs pause ID stops it"))
    }

    fn try_lock(&self, how: FlockOperation) -> Result<OwnedFd, Errno> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let file = openat(&self.directory, LOCK, flags, Mode::RUSR | Mode::WUSR)?;
        flock(&file, how)?;
        Ok(file)
    }

    /// Returns true if a run holds the lock.
    pub fn is_running(&self) -> bool {
        self.try_lock(FlockOperation::NonBlockingLockShared).is_err_and(|errno| errno == Errno::WOULDBLOCK)
    }

    /// Removes the report, progress and pause mark of the last run, because another run begins.
    ///
    /// # Errors
    /// An I/O error: a stale report must not be taken for that of the new run.
    pub fn begin(&self, _lock: &JobRunLock) -> Result<()> {
        for name in [REPORT, PAUSED, PROGRESS] {
            match unlinkat(&self.directory, name, AtFlags::empty()) {
                Ok(()) | Err(Errno::NOENT) => {}
                Err(errno) => return Err(self.error("beginning the job", name, &errno.into())),
            }
        }
        Ok(())
    }

    /// Returns the state of the job, and the end of its last run, if it ended.
    pub fn state(&self) -> (JobState, Option<EndedReport>) {
        // The order matters: a run that ends meanwhile writes its report before it releases its lock.
        let runs = self.is_running();
        let ended = if runs { None } else { self.ended() };
        (JobState::of(runs, self.is_paused(), ended.as_ref()), ended)
    }

    /// Returns the end of the last run. Only this part of its report, which may be long, is kept in memory.
    fn ended(&self) -> Option<EndedReport> {
        let file = match self.open_short(REPORT, REPORT_BYTES_MAX) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
            Err(error) => return Some(EndedReport::unreadable(error.to_string())),
        };
        let read = serde_json::from_reader(io::BufReader::new(file));
        Some(read.unwrap_or_else(|error: serde_json::Error| EndedReport::unreadable(error.to_string())))
    }

    /// Returns the report of the last run as JSON, if it has ended; for a very long one only its path.
    pub fn report(&self) -> Option<serde_json::Value> {
        match self.read(REPORT, REPORT_HELD_BYTES_MAX) {
            Ok(bytes) => serde_json::from_slice(&bytes).ok(),
            Err(error) if error.kind() == io::ErrorKind::FileTooLarge => {
                let at = String::from_utf8_lossy(&self.place(REPORT)).into_owned();
                Some(serde_json::json!({ "too_long_to_show": true, "path": at }))
            }
            Err(_) => None,
        }
    }

    /// Writes the report of a run.
    ///
    /// # Errors
    /// An I/O error.
    pub fn write_report(&self, report: &Report) -> Result<()> {
        let written = serde_json::to_vec_pretty(report).map_err(io::Error::from);
        let written = written.and_then(|bytes| self.replace(REPORT, &bytes, true));
        written.map_err(|error| self.error("writing the report", REPORT, &error))
    }

    /// Asks the run to stop, and records that the user did.
    ///
    /// # Errors
    /// An I/O error.
    pub fn pause(&self) -> Result<()> {
        self.replace(PAUSED, b"", true).map_err(|error| self.error("pausing the job", PAUSED, &error))
    }

    /// Returns true if the user asked the job to stop.
    pub fn is_paused(&self) -> bool {
        rustix::fs::statat(&self.directory, PAUSED, AtFlags::SYMLINK_NOFOLLOW).is_ok()
    }

    /// Returns the limits set for the job since it was started, if any.
    ///
    /// # Errors
    /// The file is too long, or of a schema that this version does not know.
    pub fn limits(&self) -> Result<Option<JobLimits>> {
        let during = "reading the limits of the job";
        let bytes = match self.read(LIMITS, LIMITS_BYTES_MAX) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(self.error(during, LIMITS, &error)),
        };
        let limits: JobLimits = serde_json::from_slice(&bytes).map_err(|error| {
            Error::new(ErrorKind::Corrupt, during, error.to_string()).at(self.place(LIMITS))
        })?;
        match limits.schema == LIMITS_SCHEMA {
            true => Ok(Some(limits)),
            false => Err(Error::new(ErrorKind::Unsupported, during, "they are not of this version")
                .at(self.place(LIMITS))),
        }
    }

    /// Sets the limits of the job. A run in progress polls for them.
    ///
    /// # Errors
    /// An I/O error.
    pub fn write_limits(&self, limits: &JobLimits) -> Result<()> {
        let written = serde_json::to_vec_pretty(limits).map_err(io::Error::from);
        let written = written.and_then(|bytes| self.replace(LIMITS, &bytes, true));
        written.map_err(|error| self.error("setting the limits of the job", LIMITS, &error))
    }

    /// Returns a stamp of the limits file, to detect changes.
    pub fn limits_stamp(&self) -> Option<LimitsStamp> {
        let found = rustix::fs::statat(&self.directory, LIMITS, AtFlags::SYMLINK_NOFOLLOW).ok()?;
        Some(LimitsStamp { inode: found.st_ino, changed: (found.st_ctime, found.st_ctime_nsec as i64) })
    }

    /// Returns the progress line of the current run. It is not essential.
    pub fn progress(&self) -> Option<String> {
        let line = self.read(PROGRESS, PROGRESS_BYTES_MAX).ok()?;
        Some(String::from_utf8_lossy(&line).into_owned())
    }

    /// Replaces the progress line. Errors are ignored because it is not essential.
    pub fn write_progress(&self, line: &str) {
        let _ = self.replace(PROGRESS, line.as_bytes(), false);
    }

    /// Opens the log to append to it.
    ///
    /// # Errors
    /// An I/O error.
    pub fn append_to_log(&self) -> Result<File> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::APPEND | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        openat(&self.directory, LOG, flags, Mode::RUSR | Mode::WUSR)
            .map(File::from)
            .map_err(|errno| self.error("opening the log", LOG, &errno.into()))
    }

    /// Opens the log for reading, `back_bytes` before its end or at its beginning.
    ///
    /// # Errors
    /// An I/O error; `NotFound` before the first run.
    pub fn read_log(&self, back_bytes: u64) -> Result<File> {
        let mut log = self.open_file(LOG).map_err(|error| self.error("reading the log", LOG, &error))?;
        let sought = log
            .seek(SeekFrom::End(0))
            .and_then(|end| log.seek(SeekFrom::Start(end.saturating_sub(back_bytes))));
        sought.map_err(|error| self.error("reading the log", LOG, &error))?;
        Ok(log)
    }

    /// Removes all files of the job. Returns the state that it was in.
    pub(super) fn remove(&self, jobs: impl AsFd) -> Result<JobState> {
        let failed = |errno: Errno| self.error("forgetting the job", "", &errno.into());
        let _lock = self.lock()?;
        // The state is computed under the lock, because the job may have run until now.
        let state = JobState::of(false, self.is_paused(), self.ended().as_ref());
        for entry in Dir::read_from(&self.directory).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            if !matches!(entry.file_name().to_bytes(), b"." | b"..") {
                unlinkat(&self.directory, entry.file_name(), AtFlags::empty()).map_err(failed)?;
            }
        }
        unlinkat(jobs, self.id.as_str(), AtFlags::REMOVEDIR).map_err(failed)?;
        Ok(state)
    }

    fn open_file(&self, name: &str) -> io::Result<File> {
        // If the name is something else than a file, it must be neither followed nor waited for.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = openat(&self.directory, name, flags, Mode::empty())?;
        if FileType::from_raw_mode(fstat(&file)?.st_mode) != FileType::RegularFile {
            return Err(io::Error::other("it is no regular file"));
        }
        Ok(File::from(file))
    }

    /// Opens a file of at most `bytes_max` bytes; bytes appended meanwhile are not read.
    fn open_short(&self, name: &str, bytes_max: u64) -> io::Result<io::Take<File>> {
        let file = self.open_file(name)?;
        match file.metadata()?.len() {
            length if length > bytes_max => {
                let words = format!("it has {length} bytes, and at most {bytes_max} are read");
                Err(io::Error::new(io::ErrorKind::FileTooLarge, words))
            }
            _ => Ok(file.take(bytes_max)),
        }
    }

    fn read(&self, name: &str, bytes_max: u64) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.open_short(name, bytes_max)?.read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    /// Writes a draft next to the old file and renames it into place.
    fn replace(&self, name: &str, bytes: &[u8], durable: bool) -> io::Result<()> {
        let draft = format!("{name}.new");
        match unlinkat(&self.directory, &draft, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(errno) => return Err(errno.into()),
        }
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let mut file = File::from(openat(&self.directory, &draft, flags, Mode::RUSR | Mode::WUSR)?);
        file.write_all(bytes)?;
        if durable {
            file.sync_all()?;
        }
        renameat(&self.directory, &draft, &self.directory, name)?;
        if durable {
            fsync(&self.directory)?;
        }
        Ok(())
    }

    fn place(&self, name: &str) -> Vec<u8> {
        self.path.join(name).into_os_string().into_encoded_bytes()
    }

    fn error(&self, during: &'static str, name: &str, error: &io::Error) -> Error {
        Error::io(during, error).at(self.place(name))
    }
}

/// Opens a directory that must belong to the user and grant no access to others.
pub(super) fn open_own(parent: impl AsFd, name: &str, path: &Path) -> Result<OwnedFd> {
    let during = "opening the directory of jobs";
    let place = || path.as_os_str().as_encoded_bytes();
    let failed = |errno: Errno| Error::io(during, &errno.into()).at(place());
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let directory = openat(parent, name, flags, Mode::empty()).map_err(failed)?;
    let found = fstat(&directory).map_err(failed)?;
    if found.st_uid != rustix::process::geteuid().as_raw() {
        let words = "it belongs to another user, who could have anything run; remove it";
        return Err(Error::new(ErrorKind::Refused, during, words).at(place()));
    }
    if found.st_mode & 0o077 != 0 {
        let words = "others may write or read it; see what is in it, then: chmod 700";
        return Err(Error::new(ErrorKind::Refused, during, words).at(place()));
    }
    Ok(directory)
}

/// Creates a directory with mode 0700, regardless of the umask.
pub(super) fn make_own(parent: impl AsFd, name: &str) -> Result<(), Errno> {
    rustix::fs::mkdirat(&parent, name, Mode::RWXU)?;
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    fchmod(openat(&parent, name, flags, Mode::empty())?, Mode::RWXU)
}
