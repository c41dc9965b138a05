//! The limits set for a job since it was started: the file `limits.json`.

use serde::{Deserialize, Serialize};

/// The schema of [`JobLimits`].
pub const LIMITS_SCHEMA: &str = "hakobu.limits/1";

/// Limits as they were typed. A limit that is absent keeps the value that the job was started with.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobLimits {
    /// Always [`LIMITS_SCHEMA`].
    pub schema: String,
    /// The time at which they were set, RFC 3339 in UTC.
    pub set_at: String,
    /// The value of `--bwlimit`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bwlimit: Option<String>,
    /// The value of `--iops-limit`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub iops_limit: Option<String>,
    /// The value of `--source-p99`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_p99: Option<String>,
}

/// A stamp that distinguishes one limits file from another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LimitsStamp {
    pub(super) inode: u64,
    pub(super) changed: (i64, i64),
}
