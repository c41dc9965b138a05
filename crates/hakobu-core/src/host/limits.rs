//! What processes may have, and how many logins an ssh server takes.

/// A limit that may not be there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Capped {
    /// It could not be read.
    #[default]
    Unknown,
    /// There is none.
    Unlimited,
    /// So many, in the unit of what is limited.
    At(u64),
}

/// What one process may have before the system refuses it more.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProcessLimits {
    /// Files and connections that are open at a time, and what it may raise this to.
    pub open_files: (Capped, Capped),
    /// The size of a file that it writes, in bytes.
    pub file_bytes: Capped,
    /// Time on processors, in seconds.
    pub processor_seconds: Capped,
    /// Memory that it has asked for, in bytes.
    pub address_space_bytes: Capped,
}

/// What an ssh server allows. What its configuration does not say is `None`: its default holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LoginServer {
    /// `MaxStartups`: from so many connections that are not logged in on, this share in percent is refused, and from so many all.
    pub max_startups: Option<(u32, u32, u32)>,
    /// `PerSourceMaxStartups`: connections from one address that are not logged in.
    pub max_startups_of_one: Option<u32>,
    /// `MaxSessions`: sessions of one login.
    pub max_sessions: Option<u32>,
    /// `RekeyLimit`: new keys are made after so many bytes.
    pub rekey_bytes: Option<u64>,
    /// Whether these two stand in a `Match`, where the first lines of the configuration do not count.
    pub of_match: (bool, bool),
    /// `PerSourcePenalties`: what it says of them.
    pub penalties: Option<Penalties>,
}

/// How an ssh server keeps away who fails.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Penalties {
    /// Seconds for a login that was refused.
    pub refused_seconds: Option<u32>,
    /// Seconds for a connection that did not try to log in.
    pub silent_seconds: Option<u32>,
    /// From so many seconds on they count.
    pub from_seconds: Option<u32>,
}
