//! The resource limits of processes, and the login limits of an ssh server.

/// A limit that may be absent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Capped {
    /// It could not be read.
    #[default]
    Unknown,
    /// There is no limit.
    Unlimited,
    /// The limit, in the unit of what is limited.
    At(u64),
}

/// The resource limits of one process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProcessLimits {
    /// The maximum number of open files and connections, and the maximum to which the process may raise that.
    pub open_files: (Capped, Capped),
    /// The maximum size of a file that it writes, in bytes.
    pub file_bytes: Capped,
    /// The maximum processor time in seconds.
    pub processor_seconds: Capped,
    /// The maximum memory that it may request, in bytes.
    pub address_space_bytes: Capped,
}

/// The limits of an ssh server. Options that are not configured are `None`; their defaults apply.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LoginServer {
    /// `MaxStartups`: the number of unauthenticated connections from which some are refused, the percentage that is
    /// refused, and the number from which all are refused.
    pub max_startups: Option<(u32, u32, u32)>,
    /// `PerSourceMaxStartups`: the maximum number of unauthenticated connections from one address.
    pub max_startups_of_one: Option<u32>,
    /// `MaxSessions`: the maximum number of sessions per login.
    pub max_sessions: Option<u32>,
    /// `RekeyLimit`: the number of bytes after which keys are renegotiated.
    pub rekey_bytes: Option<u64>,
    /// True if `MaxSessions` and `RekeyLimit`, respectively, are set in a `Match` block, which takes precedence over
    /// lines at the beginning of the configuration.
    pub of_match: (bool, bool),
    /// `PerSourcePenalties`, as configured.
    pub penalties: Option<Penalties>,
}

/// The penalties of an ssh server for clients that fail.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Penalties {
    /// The penalty for a refused login, in seconds.
    pub refused_seconds: Option<u32>,
    /// The penalty for a connection that did not try to log in, in seconds.
    pub silent_seconds: Option<u32>,
    /// The accumulated penalty from which clients are refused, in seconds.
    pub from_seconds: Option<u32>,
}
