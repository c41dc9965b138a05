//! Jobs: runs that go on without a terminal, and what is kept of them.
//!
//! Each has a directory of its own below `jobs` in the state directory, named by its ID and open to
//! its owner alone:
//!
//! | file | |
//! |---|---|
//! | `job.json` | what to run: the schema `hakobu.job/1` |
//! | `lock` | locked by the process that runs it |
//! | `log` | what the runs said |
//! | `progress` | one line, of the run that is under way |
//! | `report.json` | the report of the last run, once it has ended |
//! | `limits.json` | what it is held to since `hakobu jobs set`: the schema `hakobu.limits/1` |
//! | `paused` | is there when the user asked it to stop |
//!
//! How a job stands is found out from the lock and the report, and recorded nowhere.

mod folder;
mod id;
mod limits;
mod login;
mod record;
mod state;
mod store;

pub use folder::{JobFolder, JobRunLock};
pub use id::JobId;
pub use limits::{JobLimits, LIMITS_SCHEMA, LimitsStamp};
pub use login::logins;
pub use record::{JOB_SCHEMA, JobRecord, Word, going_on};
pub use state::{Ended, EndedError, JobState};
pub use store::Jobs;

#[cfg(test)]
mod tests;
