//! Jobs: runs that continue without a terminal, and their records.
//!
//! Each job has its own directory below `jobs` in the state directory, named by its ID and accessible only to its
//! owner:
//!
//! | file | |
//! |---|---|
//! | `job.json` | what to run: the schema `hakobu.job/1` |
//! | `lock` | locked by the process that runs it |
//! | `log` | the output of its runs |
//! | `progress` | one line, of the current run |
//! | `report.json` | the report of the last run, once it has ended |
//! | `limits.json` | its limits since `hakobu jobs set`: the schema `hakobu.limits/1` |
//! | `paused` | exists if the user asked it to stop |
//!
//! The state of a job is derived from the lock and the report, and stored nowhere.

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
pub use record::{ArgumentWord, JOB_SCHEMA, JobRecord, going_on};
pub use state::{EndedError, EndedReport, JobState};
pub use store::Jobs;

#[cfg(test)]
mod tests;
