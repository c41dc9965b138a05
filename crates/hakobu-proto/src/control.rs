//! The messages on a control connection: what a controller asks of an agent, and what it answers.
//!
//! The connection is the agent's standard input and output, begun by the preamble. Each message is
//! a length (u32, little endian) and that many bytes of postcard. The controller speaks first.

use std::time::Duration;

use hakobu_core::capabilities::Capabilities;
use hakobu_core::disk::{DeviceFacts, DiskList};
use hakobu_core::engine::Summary;
use hakobu_core::entry::{Inode, Kind};
use hakobu_core::error::{Error, ErrorKind, Result};
use hakobu_core::event::Event;
use hakobu_core::grant::Grant;
use hakobu_core::host::HostFacts;
use hakobu_core::job::Job;
use hakobu_core::landing::{Ancestry, TargetFound};
use hakobu_core::pace::Limits;
use hakobu_core::path::EntryPath;
use hakobu_core::probe::{MachineFigures, ReadAsk, ReadFigures, WayFigures, WriteAsk, WriteFigures};
use serde::{Deserialize, Serialize};

use crate::wire::{self, As, itself};

/// What the agent writes first on its standard output, before any message. The near side answers nothing to it.
pub const PREAMBLE: &[u8] = b"\0hakobu:agent\n";

/// How often a controller says that it is there.
pub const ALIVE_EVERY: Duration = Duration::from_secs(15);
/// An agent that has heard it once, and then nothing for so long, ends: the machine of its controller or the way there is gone,
/// which nobody else may find out for hours.
pub const SILENT_MAX: Duration = Duration::from_secs(120);
/// The oldest version of the protocol that this program speaks.
pub const VERSION_OLDEST: u16 = 5;
/// The oldest version in which an agent answers requests that have not changed since: `Listen`, `Serve`, `EndServing`. Everything else
/// is refused with [`too_old`].
pub const VERSION_OLDEST_ANSWERED: u16 = 3;
/// The newest version of the protocol that this program speaks.
pub const VERSION_NEWEST: u16 = 5;
/// The most directories that one [`Request::HoldApart`] may name.
pub const DIRECTORIES_APART_MAX: usize = 4096;
/// The longest message, in bytes.
pub const MESSAGE_BYTES_MAX: usize = 16 << 20;
/// The most connections that one session may have.
pub const CONNECTIONS_MAX: u16 = 72;
/// How long one attempt to make a data connection may take.
pub const ATTEMPT_LIMIT: Duration = Duration::from_secs(3);

// Parts of results.
itself!(SourceLook, TargetLook, Listening, ProbeAnswer);

/// The fingerprint of a throw-away certificate.
pub type CertificateFingerprint = [u8; 32];

/// From the controller to an agent.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Request {
    /// The first message.
    Hello {
        /// The oldest version the controller speaks.
        oldest: u16,
        /// The newest version the controller speaks.
        newest: u16,
        /// Whether to tell the running program's digest, which takes a moment.
        digest: bool,
    },
    /// Look at sources.
    LookAtSources {
        /// Each with whether a link at its end is followed.
        sources: Vec<SourceAsk>,
    },
    /// Look at a target.
    LookAtTarget {
        /// The path as typed, relative to the home directory unless it begins with a slash.
        #[serde(with = "As::<wire::Bytes>")]
        path: Vec<u8>,
    },
    /// Tell the identities of places below a directory, to find out whether they are the source.
    LookAtPlaces {
        /// The directory.
        #[serde(with = "As::<wire::Bytes>")]
        root: Vec<u8>,
        /// The places.
        #[serde(with = "As::<Vec<wire::EntryPath>>")]
        places: Vec<EntryPath>,
    },
    /// Open a port for data connections. One at a time.
    Listen {
        /// The address to listen on; all without.
        address: Option<String>,
        /// The port; any without.
        port: Option<u16>,
    },
    /// Hold the target of a job.
    Serve(ServeRequest),
    /// Make data connections as the engine's side, for the job that follows.
    Connect(ConnectRequest),
    /// Run a job over the connections made before.
    Run(RunRequest),
    /// Run a job of which source and target are both here.
    RunHere(RunHereRequest),
    /// Stop what is under way; drafts are abandoned.
    Cancel,
    /// End a session as the target's side: no connection is needed any more.
    EndServing,
    /// List the disks of this machine.
    Disks,
    /// Say how fast this machine encrypts.
    Ciphers,
    /// Tell what this machine is set to.
    Settings,
    /// Measure something.
    Probe(ProbeAsk),
    /// From now on the run that is under way is held to these.
    Limits(#[serde(with = "As::<wire::Limits>")] Limits),
    /// The controller is there. From the first one on it says so every [`ALIVE_EVERY`].
    Alive,
    /// Directories of the source on the agent's machine, for the `Serve` or `RunHere` that follows: they are left alone if the
    /// target turns out to lead to them by another name. At most [`DIRECTORIES_APART_MAX`].
    HoldApart(#[serde(with = "As::<Vec<wire::Inode>>")] Vec<Inode>),
}

/// From an agent to the controller.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Answer {
    /// The answer to [`Request::Hello`].
    Hello(AgentHello),
    /// What the sources are.
    Sources(#[serde(with = "As::<Vec<Result<SourceLook, wire::Error>>>")] Vec<Result<SourceLook>>),
    /// What the target is.
    Target(#[serde(with = "As::<Result<TargetLook, wire::Error>>")] Result<TargetLook>),
    /// The identities of places.
    Places(#[serde(with = "As::<Result<Vec<wire::Ancestry>, wire::Error>>")] Result<Vec<Ancestry>>),
    /// A port is open.
    Listening(#[serde(with = "As::<Result<Listening, wire::Error>>")] Result<Listening>),
    /// The target is held.
    Serving(#[serde(with = "As::<Result<wire::Capabilities, wire::Error>>")] Result<Capabilities>),
    /// The data connections are made, or none came about.
    Connected(#[serde(with = "As::<Result<(), wire::Error>>")] Result<()>),
    /// Something happened in a run.
    Event(#[serde(with = "As::<wire::Event>")] Event),
    /// A run has ended.
    Ran(Box<Ran>),
    /// A session as the target's side has ended.
    Served(Served),
    /// The request makes no sense here; the agent ends. It may have been made in another version.
    Refused(#[serde(with = "As::<wire::RefusedError>")] Error),
    /// The disks.
    Disks(#[serde(with = "As::<Result<wire::DiskList, wire::Error>>")] Result<DiskList>),
    /// How fast this machine encrypts.
    Ciphers(CipherSpeed),
    /// What the machine is set to.
    Settings(#[serde(with = "As::<Result<Box<wire::HostFacts>, wire::Error>>")] Result<Box<HostFacts>>),
    /// What was measured.
    Probe(#[serde(with = "As::<Result<Box<ProbeAnswer>, wire::Error>>")] Result<Box<ProbeAnswer>>),
}

/// Who an agent is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentHello {
    /// The version of the protocol from now on.
    pub version: u16,
    /// The program's version, for people.
    pub program: String,
    /// How long making this answer took, so that the rest is the way there and back.
    pub took: Duration,
    /// BLAKE3 of the running program, if it was asked for.
    pub digest: Option<[u8; 32]>,
    /// The fingerprint of this agent's certificate.
    pub fingerprint: CertificateFingerprint,
    /// The machine.
    pub machine: Machine,
}

/// Facts about a machine and the user there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// Processors that this process may use.
    pub processors: u16,
    /// Kernel and architecture.
    pub system: String,
    /// The user's number.
    pub uid: u32,
    /// The address and port by which ssh reached this machine, as this machine sees it.
    pub reached_at: Option<String>,
    /// The address from which ssh came.
    pub reached_from: Option<String>,
}

/// A source to look at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceAsk {
    /// The path as typed.
    #[serde(with = "As::<wire::Bytes>")]
    pub path: Vec<u8>,
    /// Whether the contents of a directory are meant, so that links are followed.
    pub contents: bool,
}

/// What a source is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceLook {
    /// The kind.
    #[serde(with = "As::<wire::Kind>")]
    pub kind: Kind,
    /// The size of a file.
    pub size_bytes: u64,
    /// The directory to open as the source's root.
    #[serde(with = "As::<wire::Bytes>")]
    pub root: Vec<u8>,
    /// The entry below it; the root itself for contents.
    #[serde(with = "As::<wire::EntryPath>")]
    pub entry: EntryPath,
    /// The whole path, links resolved except the last.
    #[serde(with = "As::<wire::Bytes>")]
    pub resolved: Vec<u8>,
    /// Its identity and those of the directories above.
    #[serde(with = "As::<wire::Ancestry>")]
    pub ancestry: Ancestry,
    /// What it is, if it is a block device.
    #[serde(with = "As::<Option<Box<wire::DeviceFacts>>>")]
    pub device: Option<Box<DeviceFacts>>,
    /// What is in it, if it may be the image of a disk.
    #[serde(with = "As::<Option<Box<wire::DeviceFacts>>>")]
    pub image: Option<Box<DeviceFacts>>,
    /// Whether it is on a file system that is mounted over a network.
    pub network: bool,
    /// How many sectors were written to the block device or discarded on it since it is there, if it is one and the system
    /// counts that.
    pub written_sectors: Option<u64>,
}

/// What a target is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TargetLook {
    /// What is there.
    #[serde(with = "As::<wire::TargetFound>")]
    pub found: TargetFound,
    /// The target's own path, links resolved, as far as it exists.
    #[serde(with = "As::<wire::Bytes>")]
    pub resolved: Vec<u8>,
    /// The directory that holds it.
    #[serde(with = "As::<wire::Bytes>")]
    pub parent: Vec<u8>,
    /// The name in that directory.
    #[serde(with = "As::<wire::Bytes>")]
    pub name: Vec<u8>,
    /// What it is, if it is a block device.
    #[serde(with = "As::<Option<Box<wire::DeviceFacts>>>")]
    pub device: Option<Box<DeviceFacts>>,
    /// The ID that the device had when a run that did not finish began to write to it.
    pub unfinished: Option<String>,
    /// Whether it is where devices are, and is none.
    pub stray: bool,
    /// Whether it is on a file system that is mounted over a network.
    pub network: bool,
}

/// A port for data connections.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Listening {
    /// The port.
    pub port: u16,
    /// Addresses of this machine at which it may be reached, the likeliest first.
    pub addresses: Vec<String>,
    /// The process that listens, by its number there: its program can be run again to dial the port.
    pub process: u32,
}

/// How the data connections come about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Way {
    /// Take connections on the port opened before.
    Accept,
    /// Dial one of these addresses.
    Dial {
        /// The addresses, the likeliest first.
        addresses: Vec<String>,
        /// The port.
        port: u16,
    },
}

/// Holds the target of a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServeRequest {
    /// The job's identity, 16 bytes: the same for the same sources and target.
    pub job: [u8; 16],
    /// The existing directory below which everything lands.
    #[serde(with = "As::<wire::Bytes>")]
    pub root: Vec<u8>,
    /// What the engine may do there.
    #[serde(with = "As::<wire::Grant>")]
    pub grant: Grant,
    /// The certificate of the engine's side.
    pub peer: CertificateFingerprint,
    /// The cipher's name, as in [`Cipher`].
    pub cipher: Cipher,
    /// How connections come about.
    pub way: Way,
    /// How many connections to make at once, when dialling.
    pub lanes: u16,
    /// How many there may be in the end: more are made while the run goes on, when dialling.
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
    /// Authenticated, and each payload checked, but readable on the way.
    None,
}

/// How fast one core of a machine encrypts, in bytes a second; 0 where it cannot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CipherSpeed {
    /// With [`Cipher::Aes128Gcm`].
    pub aes_128_gcm: u64,
    /// With [`Cipher::Aes256Gcm`].
    pub aes_256_gcm: u64,
    /// With [`Cipher::Chacha20Poly1305`].
    pub chacha20_poly1305: u64,
}

/// What to measure. Each takes some seconds at most.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ProbeAsk {
    /// What one core of the machine does.
    Machine {
        /// With little load.
        gentle: bool,
    },
    /// How fast a place is read.
    Source(#[serde(with = "As::<wire::ReadAsk>")] ReadAsk),
    /// How fast a place is written to.
    Target(#[serde(with = "As::<wire::WriteAsk>")] WriteAsk),
    /// What the connections made before carry, from here to the target's side, which swallows it.
    Way {
        /// One connection, with pauses, and without filling the line.
        gentle: bool,
    },
}

/// What was measured, as it was asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ProbeAnswer {
    /// Of the machine.
    Machine(#[serde(with = "As::<wire::MachineFigures>")] MachineFigures),
    /// Of a place that is read.
    Source(#[serde(with = "As::<wire::ReadFigures>")] ReadFigures),
    /// Of a place that is written to.
    Target(#[serde(with = "As::<wire::WriteFigures>")] WriteFigures),
    /// Of the way.
    Way(#[serde(with = "As::<wire::WayFigures>")] WayFigures),
}

/// Makes data connections as the engine's side.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConnectRequest {
    /// The certificate of the target's side.
    pub peer: CertificateFingerprint,
    /// The cipher.
    pub cipher: Cipher,
    /// How connections come about.
    pub way: Way,
    /// How many connections to begin with.
    pub lanes: u16,
    /// How many there may be in the end: more are made, or come, while the run goes on.
    pub lanes_max: u16,
}

/// Runs a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunRequest {
    /// The job.
    #[serde(with = "As::<wire::Job>")]
    pub job: Job,
    /// The directories to open as the source's roots.
    pub roots: Vec<PathBytes>,
    /// What the target can do.
    #[serde(with = "As::<wire::Capabilities>")]
    pub capabilities: Capabilities,
}

/// Runs a job on one machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunHereRequest {
    /// The job.
    #[serde(with = "As::<wire::Job>")]
    pub job: Job,
    /// Its identity, as in [`ServeRequest`].
    pub identity: [u8; 16],
    /// The directories to open as the source's roots.
    pub roots: Vec<PathBytes>,
    /// The existing directory below which everything lands.
    #[serde(with = "As::<wire::Bytes>")]
    pub root: Vec<u8>,
    /// What the engine may do there.
    #[serde(with = "As::<wire::Grant>")]
    pub grant: Grant,
}

/// A path of the machine, as bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PathBytes(#[serde(with = "As::<wire::Bytes>")] pub Vec<u8>);

/// What came of a run, and what it took.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Ran {
    /// What the engine says.
    #[serde(with = "As::<wire::Summary>")]
    pub summary: Summary,
    /// Bytes sent over the data connections.
    pub wire_sent_bytes: u64,
    /// Bytes received over the data connections.
    pub wire_received_bytes: u64,
    /// The most memory that the process has had, in bytes.
    pub peak_memory_bytes: Option<u64>,
}

/// What a session as the target's side took.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Served {
    /// The first error that ended a connection from this side.
    #[serde(with = "As::<Option<wire::Error>>")]
    pub error: Option<Error>,
    /// The most memory that the process has had, in bytes.
    pub peak_memory_bytes: Option<u64>,
    /// How many entries the session may have made at the target; none where some of its threads would not end.
    pub entries_made: Option<u64>,
}

/// The version in which an agent answers.
///
/// # Errors
/// `Unsupported`, saying which side is the older one.
pub fn negotiate(oldest: u16, newest: u16) -> Result<u16> {
    let common = newest.min(VERSION_NEWEST);
    match common >= oldest.max(VERSION_OLDEST_ANSWERED) {
        true => Ok(common),
        false => Err(no_common_version(oldest, newest)),
    }
}

/// What an agent refuses in a version older than [`VERSION_OLDEST`].
pub fn too_old(version: u16) -> Error {
    no_common_version(version, version)
}

fn no_common_version(oldest: u16, newest: u16) -> Error {
    let older = if newest < VERSION_OLDEST { "the near side" } else { "the far side" };
    let words = format!(
        "no common protocol version: the near side speaks {oldest} to {newest}, the far side \
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
        assert!(error.detail.contains("on the far side"), "{error}");
        assert_eq!(negotiate(3, 3), Ok(3));
        assert!(too_old(3).detail.contains("on the near side"));
        assert!(negotiate(0, 0).unwrap_err().detail.contains("on the near side"));
    }
}
