//! The messages between brokers and the leader.
//!
//! Everything is asked by brokers, so that they need outbound connections only: the leader's wishes are in its answers. Both
//! sides are hostile to each other until checked: lengths and numbers are, before anything is done with them.
//!
//! Their bytes are in [`crate::message_form`].

use hakobu_core::entry::Inode;
use hakobu_core::error::{Error, ErrorKind, ErrorStep, Result};
use hakobu_core::event::Failure;
use hakobu_core::path::EntryPath;
use serde::{Deserialize, Serialize};

use crate::broker_key::BrokerPublicKey;
use crate::failure::{FailureRow, kind_of_number, number_of_kind};
use crate::ids::{Epoch, RunId, UnitKey};
use crate::lease_token::LeaseToken;
use crate::link_name::LinkNameRow;
use crate::names::BrokerName;
use crate::open_directory::OpenDirectoryRow;
use crate::open_file::{OpenFilePosition, OpenFileRow};
use crate::run_figures::RunFigures;
use crate::sent_credentials::SentCredential;
use crate::transition::RefuseCause;

/// A request of a broker.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BrokerCall {
    /// The broker.
    pub broker: BrokerName,
    /// A random number of the process: two brokers of one name are told apart.
    pub process: u64,
    /// The request.
    pub request: BrokerRequest,
}

/// The requests of a broker.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum BrokerRequest {
    /// Tells that the broker is there, and how far its units are. Renews their leases.
    Report(BrokerReport),
    /// Asks for a unit.
    Lease {
        /// Units that it was offered.
        offered: Vec<UnitKey>,
    },
    /// Ends a unit with its result.
    Commit {
        /// The lease.
        lease: LeaseName,
        /// The result.
        result: Box<CommittedWork>,
    },
    /// Returns a unit.
    Return {
        /// The lease.
        lease: LeaseName,
        /// The reason.
        cause: RefuseCause,
        /// The error, if the broker could not do the work.
        error: Option<SentError>,
    },
    /// The broker ends, and has no units.
    Leave,
    /// Answers an errand.
    ErrandDone(Box<ErrandAnswer>),
    /// Tells the time of the broker's clock, in milliseconds since 1970. Nothing is decided by it: people learn of a clock that is
    /// wrong.
    Clock(u64),
}

/// A lease, as its broker names it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeaseName {
    /// The unit.
    pub key: UnitKey,
    /// The epoch.
    pub epoch: Epoch,
    /// The proof that this broker was given the lease.
    pub token: LeaseToken,
}

impl LeaseName {
    /// Returns the purpose for which the credentials of this lease are sealed.
    pub fn credentials_purpose(&self) -> String {
        format!("credentials of unit {}/{} in epoch {}", self.key.run, self.key.unit, self.epoch)
    }
}

/// The state of a broker.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct BrokerReport {
    /// The version of the program.
    pub version: String,
    /// The number of units that it works on at a time.
    pub slots: u16,
    /// True if it takes no further units, because it is asked to end.
    pub is_ending: bool,
    /// Its units.
    pub units: Vec<UnitProgress>,
    /// The key for which credentials are sealed.
    pub key: Option<BrokerPublicKey>,
    /// The locations that it reaches; none if it reaches everything. It is the end of the message, see
    /// [`VERSION_BEFORE`](crate::message_form::VERSION_BEFORE).
    pub reaches: Vec<Vec<u8>>,
}

/// The progress of a unit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct UnitProgress {
    /// The lease.
    pub lease: LeaseName,
    /// The time since the unit was begun in milliseconds.
    pub running_ms: u64,
    /// The entries that were found so far.
    pub entries: u64,
    /// The bytes of content that are at the target so far, or on their way.
    pub bytes: u64,
    /// The requests to source and target so far.
    pub operations: u64,
    /// The bytes of files that are dealt with, those that are unchanged among them.
    pub bytes_settled: u64,
    /// The entries that are done.
    pub entries_done: u64,
    /// The entries that failed.
    pub failures: u64,
    /// The number of lanes that work; 0 if it is not known.
    pub lanes: u16,
    /// The present bottleneck, one of [`bottleneck_names`](hakobu_core::report::bottleneck_names); empty if it is not known.
    pub limited_by: String,
}

impl UnitProgress {
    /// Returns how much is done. Who works on a slice of a directory has not found its entries.
    pub fn figures(&self) -> RunFigures {
        let Self { entries: entries_found, entries_done, bytes: bytes_done, .. } = *self;
        RunFigures { entries_found, entries_done, bytes_done }
    }
}

/// The answer of the leader.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum LeaderAnswer {
    /// To a report.
    Orders(BrokerOrders),
    /// To a request for units. Empty if there are none.
    Leases(Vec<GrantedUnit>),
    /// Done.
    Done,
    /// Refused: the unit is no longer that of the broker, which throws its result away.
    Lost,
    /// The message is not understood, or not allowed now. The text is for people.
    Refused(String),
    /// The result is none of this unit, and will not be taken later either. The text is for people.
    Unacceptable(String),
}

impl LeaderAnswer {
    /// Returns the limits of all units in it.
    pub fn limits_mut(&mut self) -> impl Iterator<Item = &mut SentLimits> {
        let (orders, leases): (&mut [UnitOrder], &mut [GrantedUnit]) = match self {
            Self::Orders(orders) => (&mut orders.units, &mut []),
            Self::Leases(leases) => (&mut [], leases),
            _ => (&mut [], &mut []),
        };
        let continued = orders.iter_mut().filter_map(|order| match order {
            UnitOrder::Continue { limits, .. } => Some(limits),
            UnitOrder::Stop => None,
        });
        continued.chain(leases.iter_mut().map(|lease| &mut lease.limits))
    }
}

/// The wishes of the leader.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct BrokerOrders {
    /// True if the broker gets no further units.
    pub is_draining: bool,
    /// An order for each unit of the report, in its order.
    pub units: Vec<UnitOrder>,
    /// Errands to begin with.
    pub errands: Vec<SentErrand>,
}

/// The wish for a unit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum UnitOrder {
    /// The lease goes on.
    Continue {
        /// The time for which the lease lasts from now, in milliseconds.
        lease_ms: u64,
        /// True if the unit gives away what waits, because others are idle.
        splits: bool,
        /// The limits, if they are others than before.
        limits: SentLimits,
    },
    /// The unit is no longer that of the broker.
    Stop,
}

/// The limits of a unit: the share of this broker in those of the run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SentLimits {
    /// The rate in bytes a second.
    pub bytes_per_second: Option<u64>,
    /// The operations a second.
    pub operations_per_second: Option<u32>,
    /// The 99th percentile of the source's response time in microseconds above which fewer requests are made.
    pub source_p99_us: Option<u32>,
    /// True if nothing is transferred now.
    pub is_paused: bool,
}

/// A unit that is leased to the broker.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GrantedUnit {
    /// The lease.
    pub lease: LeaseName,
    /// The time for which it lasts in milliseconds.
    pub lease_ms: u64,
    /// Locations and options of the run, as JSON.
    pub request: String,
    /// The limits.
    pub limits: SentLimits,
    /// The work.
    pub work: GrantedWork,
    /// The credentials.
    pub credentials: Vec<SentCredential>,
}

/// The work of a unit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum GrantedWork {
    /// Copies, without what has several names: the bytes of a [`crate::unit::UnitWork`].
    Copy(Vec<u8>),
    /// Copies files with several names, and links them. Names of one file are neighbours.
    Names(Vec<SentName>),
    /// Sets the attributes of open directories, in this order.
    Ends {
        /// The directories.
        ends: Vec<SentDirectory>,
        /// True if nothing failed in the run.
        is_examined: bool,
        /// True if nothing else of the run is left to do.
        is_last: bool,
    },
    /// Removes what only the target has.
    Removal {
        /// The number of entries that the run has created at the target, or may have.
        created: u64,
    },
    /// Compares source and target.
    Verify,
    /// Finishes an open file, with the reason for which a range of it could not be copied, as kept.
    File(SentFile, Option<Vec<u8>>),
}

/// The result of a unit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommittedWork {
    /// Directories that were given away: the bytes of one or more [`crate::unit::UnitWork`].
    pub given: Vec<Vec<u8>>,
    /// The counters, as JSON.
    pub counters: String,
    /// Directories that stay open.
    pub ends: Vec<SentDirectory>,
    /// Names of files with several.
    pub names: Vec<SentName>,
    /// Files whose ranges were given away, and reasons for which a range could not be copied.
    pub files: Vec<SentFile>,
    /// Entries that failed.
    pub failures: Vec<SentFailure>,
    /// Properties that were not kept, as the JSON of a [`crate::run_losses::RunLosses`]; empty if there are none.
    pub losses: String,
}

/// A row of [`OpenDirectoryRow`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SentDirectory(u16, Vec<u8>, Vec<u8>);

/// A row of [`OpenFileRow`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SentFile(u16, Vec<u8>, bool, Vec<u8>);

/// A row of [`LinkNameRow`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SentName {
    inode: (u64, u64),
    size_bytes: u64,
    root: u16,
    path: Vec<u8>,
    detail: Vec<u8>,
}

/// An error, as it is sent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SentError {
    kind: u8,
    step: String,
    during: String,
    at: Vec<u8>,
    detail: String,
    hint: Option<String>,
}

/// A row of [`FailureRow`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SentFailure(u16, Vec<u8>, SentError);

/// A unit that a broker may ask for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnitOffer {
    /// The run.
    pub run: RunId,
    /// The units.
    pub units: Vec<UnitKey>,
}

/// An errand: a short request of the interface, which changes nothing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SentErrand {
    /// Its number.
    pub id: u64,
    /// The time within which it must be answered, in milliseconds.
    pub limit_ms: u64,
    /// The JSON of a [`crate::errand::Errand`].
    pub errand: String,
    /// The credentials.
    pub credentials: Vec<SentCredential>,
}

impl SentErrand {
    /// Returns the purpose for which the credentials of an errand are sealed.
    pub fn credentials_purpose(id: u64) -> String {
        format!("credentials of errand {id}")
    }
}

/// The answer to an errand.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrandAnswer {
    /// The number of the errand.
    pub id: u64,
    /// The JSON of a [`crate::errand::ErrandResult`], or the error.
    pub result: std::result::Result<String, SentError>,
}

impl From<&OpenDirectoryRow> for SentDirectory {
    fn from(row: &OpenDirectoryRow) -> Self {
        Self(row.root, row.path.as_bytes().to_vec(), row.detail.clone())
    }
}

impl TryFrom<SentDirectory> for OpenDirectoryRow {
    type Error = Error;

    fn try_from(SentDirectory(root, path, detail): SentDirectory) -> Result<Self> {
        Ok(Self { root, path: EntryPath::new(path)?, detail })
    }
}

impl From<&OpenFileRow> for SentFile {
    fn from(row: &OpenFileRow) -> Self {
        let OpenFilePosition { root, path } = &row.position;
        Self(*root, path.as_bytes().to_vec(), row.is_torn, row.detail.clone())
    }
}

impl TryFrom<SentFile> for OpenFileRow {
    type Error = Error;

    fn try_from(SentFile(root, path, is_torn, detail): SentFile) -> Result<Self> {
        Ok(Self { position: OpenFilePosition { root, path: EntryPath::new(path)? }, is_torn, detail })
    }
}

impl From<&LinkNameRow> for SentName {
    fn from(row: &LinkNameRow) -> Self {
        Self {
            inode: (row.inode.file_system, row.inode.number),
            size_bytes: row.size,
            root: row.root,
            path: row.path.as_bytes().to_vec(),
            detail: row.detail.clone(),
        }
    }
}

impl TryFrom<SentName> for LinkNameRow {
    type Error = Error;

    fn try_from(sent: SentName) -> Result<Self> {
        let SentName { inode: (file_system, number), size_bytes, root, path, detail } = sent;
        let path = EntryPath::new(path)?;
        Ok(Self { inode: Inode { file_system, number }, size: size_bytes, root, path, detail })
    }
}

impl From<&Error> for SentError {
    fn from(error: &Error) -> Self {
        Self {
            kind: number_of_kind(error.kind),
            step: error.step.name().to_owned(),
            during: error.during.to_string(),
            at: error.at.clone(),
            detail: error.detail.clone(),
            hint: error.hint.as_deref().map(str::to_owned),
        }
    }
}

impl From<SentError> for Error {
    fn from(sent: SentError) -> Self {
        Self {
            // A kind that only a newer broker knows is some error.
            kind: kind_of_number(sent.kind).unwrap_or(ErrorKind::Io),
            step: ErrorStep::from_name(&sent.step),
            during: sent.during.into(),
            at: sent.at,
            detail: sent.detail,
            hint: sent.hint.map(Into::into),
        }
    }
}

impl From<&FailureRow> for SentFailure {
    fn from(row: &FailureRow) -> Self {
        Self(row.root, row.failure.path.clone(), SentError::from(&row.failure.error))
    }
}

impl From<SentFailure> for FailureRow {
    fn from(SentFailure(root, path, error): SentFailure) -> Self {
        Self::new(root, &Failure { path, error: error.into() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_come_back_as_they_were() {
        let error = Error::new(ErrorKind::NoSpace, "writing", "full").at(b"a\xff").hint("free some");
        assert_eq!(Error::from(SentError::from(&error)), error);
    }
}
