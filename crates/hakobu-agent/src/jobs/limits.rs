//! What a job is held to since it was started: the file `limits.json`.

use serde::{Deserialize, Serialize};

/// The schema of [`JobLimits`].
pub const LIMITS_SCHEMA: &str = "hakobu.limits/1";

/// Limits as they were typed. What is not among them is as the job was started.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobLimits {
    /// Always [`LIMITS_SCHEMA`].
    pub schema: String,
    /// When they were set, RFC 3339 in UTC.
    pub set_at: String,
    /// As `--bwlimit`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bwlimit: Option<String>,
    /// As `--iops-limit`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub iops_limit: Option<String>,
    /// As `--source-p99`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_p99: Option<String>,
}

/// Tells one file of limits from another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LimitsStamp {
    pub(super) inode: u64,
    pub(super) changed: (i64, i64),
}
