//! The messages on a control connection: the requests of a controller and the answers of an agent.
//!
//! The connection is the agent's standard input and output, and starts with the preamble. Each message is a length
//! (u32, little endian), followed by that many bytes of postcard. The controller speaks first.

use std::time::Duration;

use hakobu_core::capabilities::Capabilities;
use hakobu_core::disk::{DeviceFacts, DiskList};
use hakobu_core::engine::RunSummary;
use hakobu_core::entry::{EntryKind, Inode};
use hakobu_core::error::{Error, ErrorKind, Result};
use hakobu_core::event::Event;
use hakobu_core::grant::Grant;
use hakobu_core::host::HostFacts;
use hakobu_core::job::Job;
use hakobu_core::landing::{Ancestry, TargetFound};
use hakobu_core::pace::RunLimits;
use hakobu_core::path::EntryPath;
use hakobu_core::probe::{MachineFigures, ReadAsk, ReadFigures, WayFigures, WriteAsk, WriteFigures};
use hakobu_core::requests::RunRequests;
use hakobu_core::store_name::StoreName;
use hakobu_core::store_settings::StoreSettings;
use serde::{Deserialize, Serialize};

use crate::wire::{self, AsMirror, itself};

/// The first bytes that the agent writes on its standard output, before any message. They are not answered.
pub const PREAMBLE: &[u8] = b"\0hakobu:agent\n";

/// The interval at which a controller sends [`Request::Alive`].
pub const ALIVE_EVERY: Duration = Duration::from_secs(15);
/// The time without a message after which an agent ends, once it has received [`Request::Alive`]. The controller's
/// machine, or the network path to it, is gone then, which might otherwise go unnoticed for hours.
pub const SILENT_MAX: Duration = Duration::from_secs(120);
/// The oldest version of the protocol that this program supports.
pub const VERSION_OLDEST: u16 = 5;
/// The oldest version in which an agent answers requests that have not changed since then: `Listen`, `Serve`,
/// `EndServing`. All others are refused with [`too_old`].
pub const VERSION_OLDEST_ANSWERED: u16 = 3;
/// The newest version of the protocol that this program supports.
pub const VERSION_NEWEST: u16 = 6;
/// The oldest version in which an agent opens stores: [`Request::OpenStore`] and what follows it.
pub const VERSION_OF_STORES: u16 = 6;
/// The maximum number of directories in one [`Request::HoldApart`].
pub const DIRECTORIES_APART_MAX: usize = 4096;
/// The maximum length of a message in bytes.
pub const MESSAGE_BYTES_MAX: usize = 16 << 20;
/// The maximum number of connections in one session.
pub const CONNECTIONS_MAX: u16 = 72;
/// The time limit for one attempt to open a data connection.
pub const ATTEMPT_LIMIT: Duration = Duration::from_secs(3);

// Types that occur inside results.
itself!(SourceLook, TargetLook, ListeningPort, ProbeAnswer, StoreFacts);

/// The fingerprint of a throw-away certificate: 32 bytes.
pub type CertificateFingerprint = [u8; 32];

/// A message from the controller to an agent.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Request {
    /// Negotiate the version of the protocol; the first message.
    Hello {
        /// The oldest version that the controller supports.
        oldest: u16,
        /// The newest version that the controller supports.
        newest: u16,
        /// True to request the digest of the running program, which takes a moment to compute.
        digest: bool,
    },
    /// Inspect sources.
    LookAtSources {
        /// The sources, each with a flag for following a symbolic link as last component.
        sources: Vec<SourceAsk>,
    },
    /// Inspect a target.
    LookAtTarget {
        /// The path as typed, relative to the home directory unless it begins with a slash.
        #[serde(with = "AsMirror::<wire::BoundedBytes>")]
        path: Vec<u8>,
    },
    /// Return the identities of places below a directory, to find out whether they are the source.
    LookAtPlaces {
        /// The directory.
        #[serde(with = "AsMirror::<wire::BoundedBytes>")]
        root: Vec<u8>,
        /// The places.
        #[serde(with = "AsMirror::<Vec<wire::EntryPath>>")]
        places: Vec<EntryPath>,
    },
    /// Open a port for data connections. Only one can be open at a time.
    Listen {
        /// The address to listen on; all addresses if `None`.
        address: Option<String>,
        /// The port; any free port if `None`.
        port: Option<u16>,
    },
    /// Open the target of a job and serve it.
    Serve(ServeRequest),
    /// Open data connections as the engine's side, for the job that follows.
    Connect(ConnectRequest),
    /// Run a job over the connections that were opened before.
    Run(RunRequest),
    /// Run a job whose source and target are both on this machine.
    RunHere(RunHereRequest),
    /// Stop the current operation; drafts are abandoned.
    Cancel,
    /// End a session as the target's side: its connections are no longer needed.
    EndServing,
    /// List the disks of this machine.
    Disks,
    /// Return the encryption speed of this machine.
    Ciphers,
    /// Return the settings of this machine.
    Settings,
    /// Perform a measurement.
    Probe(ProbeAsk),
    /// Apply these limits to the current run from now on.
    Limits(#[serde(with = "AsMirror::<wire::RunLimits>")] RunLimits),
    /// The controller is alive. After the first one, it sends this message every [`ALIVE_EVERY`].
    Alive,
    /// The directories of the source on the agent's machine, for the `Serve` or `RunHere` that follows. They are left
    /// untouched if the target turns out to contain them under another name. At most [`DIRECTORIES_APART_MAX`].
    HoldApart(#[serde(with = "AsMirror::<Vec<wire::Inode>>")] Vec<Inode>),
    /// Open a store with the credentials of the agent's machine. It replaces one that was opened before.
    OpenStore(StoreRequest),
    /// Inspect what is in the open store.
    LookInStore(StoreLook),
    /// Run a job of which one end is in the open store and the other on this machine.
    RunWithStore(StoreRunRequest),
    /// Remove what runs from this machine have left of unfinished files in the open store.
    RemoveUnfinished {
        /// The path in the store at which, or below which, they are.
        #[serde(with = "AsMirror::<wire::BoundedBytes>")]
        path: Vec<u8>,
    },
}

/// A message from an agent to the controller.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum AgentMessage {
    /// The answer to [`Request::Hello`].
    Hello(AgentHello),
    /// The results for the sources, in order.
    Sources(#[serde(with = "AsMirror::<Vec<Result<SourceLook, wire::Error>>>")] Vec<Result<SourceLook>>),
    /// The result for the target.
    Target(#[serde(with = "AsMirror::<Result<TargetLook, wire::Error>>")] Result<TargetLook>),
    /// The identities of places.
    Places(#[serde(with = "AsMirror::<Result<Vec<wire::Ancestry>, wire::Error>>")] Result<Vec<Ancestry>>),
    /// A port was opened.
    Listening(#[serde(with = "AsMirror::<Result<ListeningPort, wire::Error>>")] Result<ListeningPort>),
    /// The target was opened, with these capabilities.
    Serving(#[serde(with = "AsMirror::<Result<wire::Capabilities, wire::Error>>")] Result<Capabilities>),
    /// The data connections were opened, or none could be.
    Connected(#[serde(with = "AsMirror::<Result<(), wire::Error>>")] Result<()>),
    /// An event of a run.
    Event(#[serde(with = "AsMirror::<wire::Event>")] Event),
    /// A run has ended.
    Ran(Box<RunUsage>),
    /// A session as the target's side has ended.
    Served(ServedUsage),
    /// The request is not valid in the current state, and the agent ends. The message may be sent in another version
    /// of the protocol.
    Refused(#[serde(with = "AsMirror::<wire::RefusedError>")] Error),
    /// The disks.
    Disks(#[serde(with = "AsMirror::<Result<wire::DiskList, wire::Error>>")] Result<DiskList>),
    /// The encryption speed of this machine.
    Ciphers(CipherSpeed),
    /// The settings of the machine.
    Settings(#[serde(with = "AsMirror::<Result<Box<wire::HostFacts>, wire::Error>>")] Result<Box<HostFacts>>),
    /// The result of a measurement.
    Probe(#[serde(with = "AsMirror::<Result<Box<ProbeAnswer>, wire::Error>>")] Result<Box<ProbeAnswer>>),
    /// The store was opened.
    StoreOpened(#[serde(with = "AsMirror::<Result<Box<StoreFacts>, wire::Error>>")] Result<Box<StoreFacts>>),
    /// A run with the open store has ended.
    RanWithStore(Box<StoreRunUsage>),
    /// The number of unfinished files that were removed.
    Removed(#[serde(with = "AsMirror::<Result<u64, wire::Error>>")] Result<u64>),
}

/// The introduction of an agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentHello {
    /// The version of the protocol that is used from now on.
    pub version: u16,
    /// The program's version, for display.
    pub program: String,
    /// The time that it took to create this answer. The rest of the time was the round trip.
    pub took: Duration,
    /// The BLAKE3 digest of the running program, if requested.
    pub digest: Option<[u8; 32]>,
    /// The fingerprint of this agent's certificate.
    pub fingerprint: CertificateFingerprint,
    /// The machine.
    pub machine: AgentMachine,
}

/// Facts about a machine and the user there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentMachine {
    /// The number of processors that this process may use.
    pub processors: u16,
    /// The kernel and architecture.
    pub system: String,
    /// The user ID.
    pub uid: u32,
    /// The address and port by which ssh reached this machine, from this machine's point of view.
    pub reached_at: Option<String>,
    /// The address from which ssh connected.
    pub reached_from: Option<String>,
    /// The machine's own name.
    pub host_name: String,
}

/// A source to inspect.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceAsk {
    /// The path as the user typed it.
    #[serde(with = "AsMirror::<wire::BoundedBytes>")]
    pub path: Vec<u8>,
    /// True if the contents of a directory are the source, so that symbolic links are followed.
    pub contents: bool,
}

/// The result of inspecting a source.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceLook {
    /// The kind of entry.
    #[serde(with = "AsMirror::<wire::EntryKind>")]
    pub kind: EntryKind,
    /// The size of a file in bytes.
    pub size_bytes: u64,
    /// The directory to open as the source's root.
    #[serde(with = "AsMirror::<wire::BoundedBytes>")]
    pub root: Vec<u8>,
    /// The path of the entry below the root; the root itself for contents.
    #[serde(with = "AsMirror::<wire::EntryPath>")]
    pub entry: EntryPath,
    /// The full path, with symbolic links resolved except in the last component.
    #[serde(with = "AsMirror::<wire::BoundedBytes>")]
    pub resolved: Vec<u8>,
    /// The identities of the entry and of all directories above it.
    #[serde(with = "AsMirror::<wire::Ancestry>")]
    pub ancestry: Ancestry,
    /// The facts about the block device, if it is one.
    #[serde(with = "AsMirror::<Option<Box<wire::DeviceFacts>>>")]
    pub device: Option<Box<DeviceFacts>>,
    /// The facts about the content, if the file may be a disk image.
    #[serde(with = "AsMirror::<Option<Box<wire::DeviceFacts>>>")]
    pub image: Option<Box<DeviceFacts>>,
    /// True if it is on a network file system.
    pub network: bool,
    /// The number of sectors written or discarded on the block device since it was attached, if it is one and the
    /// system counts them.
    pub written_sectors: Option<u64>,
}

/// The result of inspecting a target.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TargetLook {
    /// The existing entry at the target's path.
    #[serde(with = "AsMirror::<wire::TargetFound>")]
    pub found: TargetFound,
    /// The target's own path with symbolic links resolved, as far as it exists.
    #[serde(with = "AsMirror::<wire::BoundedBytes>")]
    pub resolved: Vec<u8>,
    /// The parent directory.
    #[serde(with = "AsMirror::<wire::BoundedBytes>")]
    pub parent: Vec<u8>,
    /// The name in the parent directory.
    #[serde(with = "AsMirror::<wire::BoundedBytes>")]
    pub name: Vec<u8>,
    /// The facts about the block device, if it is one.
    #[serde(with = "AsMirror::<Option<Box<wire::DeviceFacts>>>")]
    pub device: Option<Box<DeviceFacts>>,
    /// The ID of the device when an unfinished run started to write to it.
    pub unfinished: Option<String>,
    /// True if it is in a directory for devices, but is not a device.
    pub stray: bool,
    /// True if it is on a network file system.
    pub network: bool,
}

/// A port for data connections.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListeningPort {
    /// The port.
    pub port: u16,
    /// The addresses at which this machine may be reached, the likeliest first.
    pub addresses: Vec<String>,
    /// The process ID of the listener on its machine. Its program can be run again to connect to the port.
    pub process: u32,
}

/// The direction in which the data connections are opened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ConnectMode {
    /// Accept connections on the port that was opened before.
    Accept,
    /// Connect to one of these addresses.
    Dial {
        /// The addresses, the likeliest first.
        addresses: Vec<String>,
        /// The port.
        port: u16,
    },
}

/// Opens the target of a job and serves it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServeRequest {
    /// The job's identity, 16 bytes: equal for equal sources and targets.
    pub job: [u8; 16],
    /// The existing directory below which all entries are created.
    #[serde(with = "AsMirror::<wire::BoundedBytes>")]
    pub root: Vec<u8>,
    /// The rights of the engine there.
    #[serde(with = "AsMirror::<wire::Grant>")]
    pub grant: Grant,
    /// The fingerprint of the certificate of the engine's side.
    pub peer: CertificateFingerprint,
    /// The cipher of the connections.
    pub cipher: Cipher,
    /// The direction in which connections are opened.
    pub way: ConnectMode,
    /// The number of connections to open at the start, when connecting.
    pub lanes: u16,
    /// The maximum number of connections; more are opened during the run, when connecting.
    pub lanes_max: u16,
}

/// The ciphers of data connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Cipher {
    /// AES-128 in Galois/counter mode.
    Aes128Gcm,
    /// AES-256 in Galois/counter mode.
    Aes256Gcm,
    /// ChaCha20 with Poly1305.
    Chacha20Poly1305,
    /// Authenticated, with a checksum for each payload, but readable in transit.
    None,
}

/// The encryption speed of one core of a machine in bytes per second; 0 if not supported.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CipherSpeed {
    /// The speed with [`Cipher::Aes128Gcm`].
    pub aes_128_gcm: u64,
    /// The speed with [`Cipher::Aes256Gcm`].
    pub aes_256_gcm: u64,
    /// The speed with [`Cipher::Chacha20Poly1305`].
    pub chacha20_poly1305: u64,
}

/// A measurement to perform, which takes a few seconds at most.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ProbeAsk {
    /// The speed of one core of the machine.
    Machine {
        /// True for gentle load.
        gentle: bool,
    },
    /// The speed of reading at a path.
    Source(#[serde(with = "AsMirror::<wire::ReadAsk>")] ReadAsk),
    /// The speed of writing at a path.
    Target(#[serde(with = "AsMirror::<wire::WriteAsk>")] WriteAsk),
    /// The throughput of the connections that were opened before, from here to the target's side, which discards the
    /// data.
    Way {
        /// True for a single connection with pauses, which does not fill the link.
        gentle: bool,
    },
}

/// The result of a measurement.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ProbeAnswer {
    /// The figures of the machine.
    Machine(#[serde(with = "AsMirror::<wire::MachineFigures>")] MachineFigures),
    /// The figures of reading.
    Source(#[serde(with = "AsMirror::<wire::ReadFigures>")] ReadFigures),
    /// The figures of writing.
    Target(#[serde(with = "AsMirror::<wire::WriteFigures>")] WriteFigures),
    /// The figures of the network path.
    Way(#[serde(with = "AsMirror::<wire::WayFigures>")] WayFigures),
}

/// Opens data connections as the engine's side.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConnectRequest {
    /// The fingerprint of the certificate of the target's side.
    pub peer: CertificateFingerprint,
    /// The cipher.
    pub cipher: Cipher,
    /// The direction in which connections are opened.
    pub way: ConnectMode,
    /// The number of connections at the start.
    pub lanes: u16,
    /// The maximum number of connections; more are opened or accepted during the run.
    pub lanes_max: u16,
}

/// Runs a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunRequest {
    /// The job.
    #[serde(with = "AsMirror::<wire::Job>")]
    pub job: Job,
    /// The directories to open as the source's roots.
    pub roots: Vec<MachinePath>,
    /// The capabilities of the target.
    #[serde(with = "AsMirror::<wire::Capabilities>")]
    pub capabilities: Capabilities,
}

/// Runs a job on a single machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunHereRequest {
    /// The job.
    #[serde(with = "AsMirror::<wire::Job>")]
    pub job: Job,
    /// The identity of the job, as in [`ServeRequest`].
    pub identity: [u8; 16],
    /// The directories to open as the source's roots.
    pub roots: Vec<MachinePath>,
    /// The existing directory below which all entries are created.
    #[serde(with = "AsMirror::<wire::BoundedBytes>")]
    pub root: Vec<u8>,
    /// The rights of the engine there.
    #[serde(with = "AsMirror::<wire::Grant>")]
    pub grant: Grant,
}

/// A store, and how it is reached. Credentials are never sent: the agent looks for them on its machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoreRequest {
    /// The store.
    #[serde(with = "AsMirror::<wire::StoreName>")]
    pub store: StoreName,
    /// The settings that the user chose.
    #[serde(with = "AsMirror::<wire::StoreSettings>")]
    pub settings: StoreSettings,
}

/// An opened store.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoreFacts {
    /// The capabilities of a place in it at best.
    #[serde(with = "AsMirror::<wire::Capabilities>")]
    pub capabilities: Capabilities,
    /// True if holes of files become zeros.
    pub fills_holes: bool,
    /// True if an entry shows whether it has other names, although listings do not.
    pub tells_links: bool,
    /// True if a directory and another entry can have the same name.
    pub shared_names: bool,
    /// The time that the store took for an answer; zero if that is not known.
    pub round_trip: Duration,
}

/// An inspection of what is in the open store. It is answered like the request of the same name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum StoreLook {
    /// Inspect sources.
    Sources {
        /// The sources.
        sources: Vec<SourceAsk>,
    },
    /// Inspect a target.
    Target {
        /// The path as typed.
        #[serde(with = "AsMirror::<wire::BoundedBytes>")]
        path: Vec<u8>,
    },
    /// Return the identities of places below a directory.
    Places {
        /// The directory.
        #[serde(with = "AsMirror::<wire::BoundedBytes>")]
        root: Vec<u8>,
        /// The places.
        #[serde(with = "AsMirror::<Vec<wire::EntryPath>>")]
        places: Vec<EntryPath>,
    },
}

/// Runs a job between the open store and the agent's machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoreRunRequest {
    /// The job; the paths of one end are in the store.
    pub run: RunHereRequest,
    /// True if the target is in the store; otherwise the source is.
    pub to_store: bool,
    /// All content is read, also where the store keeps its digest.
    pub full: bool,
}

/// The result of a run with a store, and what only such a run has.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct StoreRunUsage {
    /// The result.
    pub usage: RunUsage,
    /// The requests that were sent.
    #[serde(with = "AsMirror::<wire::RunRequests>")]
    pub requests: RunRequests,
    /// The requests that the changes of a dry run would take.
    #[serde(with = "AsMirror::<wire::RunRequests>")]
    pub planned_requests: RunRequests,
    /// The number of entries that were asked for one by one.
    pub entries_examined: u64,
}

impl StoreRunUsage {
    /// Returns the usage of a run for the wire.
    pub fn new(usage: RunUsage) -> Self {
        let summary = &usage.summary;
        let (requests, planned_requests) = (summary.requests, summary.planned_requests);
        Self { requests, planned_requests, entries_examined: summary.counters.entries_examined, usage }
    }

    /// Returns the usage with everything that was sent beside it.
    pub fn into_usage(self) -> RunUsage {
        let Self { mut usage, requests, planned_requests, entries_examined } = self;
        let summary = &mut usage.summary;
        (summary.requests, summary.planned_requests) = (requests, planned_requests);
        summary.counters.entries_examined = entries_examined;
        usage
    }
}

/// A path on the machine, as bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MachinePath(#[serde(with = "AsMirror::<wire::BoundedBytes>")] pub Vec<u8>);

/// The result of a run, and its resource usage.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct RunUsage {
    /// The engine's summary.
    #[serde(with = "AsMirror::<wire::RunSummary>")]
    pub summary: RunSummary,
    /// The number of bytes sent over the data connections.
    pub wire_sent_bytes: u64,
    /// The number of bytes received over the data connections.
    pub wire_received_bytes: u64,
    /// The peak memory usage of the process in bytes.
    pub peak_memory_bytes: Option<u64>,
}

/// The resource usage of a session as the target's side.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServedUsage {
    /// The first error that made this side close a connection.
    #[serde(with = "AsMirror::<Option<wire::Error>>")]
    pub error: Option<Error>,
    /// The peak memory usage of the process in bytes.
    pub peak_memory_bytes: Option<u64>,
    /// The maximum number of entries that the session may have created on the target; `None` if some of its threads
    /// did not end.
    pub entries_made: Option<u64>,
}

/// Returns the version that an agent uses for its answers.
///
/// # Errors
/// `Unsupported`, naming the older side.
pub fn negotiate(oldest: u16, newest: u16) -> Result<u16> {
    let common = newest.min(VERSION_NEWEST);
    match common >= oldest.max(VERSION_OLDEST_ANSWERED) {
        true => Ok(common),
        false => Err(no_common_version(oldest, newest)),
    }
}

/// Returns the error for requests in a version older than [`VERSION_OLDEST`].
pub fn too_old(version: u16) -> Error {
    no_common_version(version, version)
}

fn no_common_version(oldest: u16, newest: u16) -> Error {
    let older = if newest < VERSION_OLDEST { "this host" } else { "the other host" };
    let words = format!(
        "no common protocol version: this host speaks {oldest} to {newest}, the other host \
         {VERSION_OLDEST} to {VERSION_NEWEST}; bring hakobu up to date on {older}"
    );
    Error::new(ErrorKind::Unsupported, "agreeing on a protocol version", words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_meet_or_the_older_side_is_named() {
        assert_eq!(negotiate(1, 9), Ok(VERSION_NEWEST));
        let error = negotiate(VERSION_NEWEST + 1, VERSION_NEWEST + 3).unwrap_err();
        assert!(error.detail.contains("on the other host"), "{error}");
        assert_eq!(negotiate(3, 3), Ok(3));
        assert!(too_old(3).detail.contains("on this host"));
        assert!(negotiate(0, 0).unwrap_err().detail.contains("on this host"));
    }
}
