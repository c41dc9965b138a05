//! The request for one copy, which a front end makes of what the user typed.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use crate::compression::Compression;
use crate::extended::Classes;
use crate::filter::FilterRules;
use crate::job::{FileSample, Mode, Removal};
use crate::location::Location;
use crate::losses::LossKind;
use crate::pace::RunLimits;
use crate::store_settings::StoreSettings;

/// The default time for which a lost connection is retried.
pub const RETRY_FOR_DEFAULT: Duration = Duration::from_secs(30);
/// The default time for a job, which nobody watches.
pub const RETRY_FOR_DETACHED: Duration = Duration::from_secs(3600);

/// A request for one copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopyRequest {
    /// The sources in the order typed; at least one.
    pub sources: Vec<Location>,
    /// The target.
    pub target: Location,
    /// Files and disks with a target each, instead of sources and target.
    pub pairs: Vec<(Location, Location)>,
    /// The number of lanes.
    pub lanes: LaneSetting,
    /// The limits when the run begins.
    pub limits: RunLimits,
    /// The cipher of the data connections.
    pub cipher: CipherChoice,
    /// The compression of content on the data connections.
    pub compression: Compression,
    /// The transport to the other host.
    pub transport: Transport,
    /// The verification of data at the target.
    pub verify: Verify,
    /// The guarantee when the run ends successfully.
    pub durable: Durability,
    /// The losses that are not permitted.
    pub require: BTreeSet<LossKind>,
    /// The time for which a lost connection is retried.
    pub retry_for: Duration,
    /// The ssh program and its arguments. Never empty.
    pub ssh: Vec<OsString>,
    /// The path of the agent on the other host, unless it is to be searched for or uploaded.
    pub agent: Option<PathBuf>,
    /// True if the agent runs under sudo.
    pub sudo: bool,
    /// The logins on other hosts that differ from the three fields above.
    pub logins: Vec<HostLogin>,
    /// The file with the password for a module of an rsync daemon.
    pub password_file: Option<PathBuf>,
    /// The settings of the store that holds the sources, if one does.
    pub source_store: StoreSettings,
    /// The settings of the store that holds the target, if one does.
    pub target_store: StoreSettings,
    /// The other host's name or address for data, if it is not that of the login.
    pub data_address: Option<String>,
    /// The port that the listening host uses for all data connections.
    pub data_port: Option<u16>,
    /// True if only a plan is reported.
    pub dry_run: bool,
    /// True if each change of an entry is reported as an event.
    pub itemize: bool,
    /// The handling of content.
    pub mode: Mode,
    /// True if the state left by an interrupted run is discarded and the copy starts anew.
    pub restart: bool,
    /// The IDs of disks that may be overwritten although they hold data.
    pub confirmed: Vec<String>,
    /// True if a source that is in use may be read: mounted, or open for writing.
    pub live: bool,
    /// The passes over a source that is in use, if there are several.
    pub passes: Option<Passes>,
    /// The rules that include and exclude entries.
    pub filter: FilterRules,
    /// The attributes that are kept besides content, mode and times.
    pub preserve: Preserve,
    /// True if files of equal size are compared by content, regardless of their times.
    pub compare_content: bool,
    /// True if other processes on the hosts take precedence.
    pub nice: bool,
    /// True if changed files of a tree are updated in place.
    pub in_place: bool,
    /// True if changed files of a tree are sent as a whole.
    pub whole_file: bool,
    /// The sample of files whose content is compared in a run that writes nothing; all files if `None`.
    pub sample: Option<FileSample>,
    /// True if all content is read, even if a store keeps its digest.
    pub full: bool,
    /// True if directories on other file systems are left empty.
    pub one_file_system: bool,
    /// The rights that a source on another host may copy as well.
    pub allow: AllowedRights,
    /// The handling by `sync` of entries that only the target has.
    pub deletion: Option<Deletion>,
    /// The handling of such entries in the current run.
    pub removal: Removal,
    /// The maximum number of entries that the run may remove, see [`Job::removals_max`](hakobu_core::job::Job).
    pub removals_max: u64,
    /// True if the run continues where the source cannot be read, with zeros in place of that.
    pub skip_unreadable: bool,
    /// True if nobody waits for the run. A first login that fails is then retried like a lost connection, for example
    /// after a restart of both hosts.
    pub unattended: bool,
}

impl CopyRequest {
    /// Returns true if content must be compressed, which needs an agent at both ends.
    pub fn wants_compression(&self) -> bool {
        self.compression.is_asked_for()
    }
}

impl Default for CopyRequest {
    /// Returns the defaults of all options, without sources. Everything is on this host.
    fn default() -> Self {
        Self {
            sources: Vec::new(),
            target: Location::default(),
            pairs: Vec::new(),
            lanes: LaneSetting::default(),
            limits: RunLimits::default(),
            cipher: CipherChoice::default(),
            compression: Compression::default(),
            transport: Transport::default(),
            verify: Verify::default(),
            durable: Durability::default(),
            require: BTreeSet::new(),
            retry_for: RETRY_FOR_DEFAULT,
            ssh: vec![OsString::from("ssh")],
            agent: None,
            sudo: false,
            logins: Vec::new(),
            password_file: None,
            source_store: StoreSettings::default(),
            target_store: StoreSettings::default(),
            data_address: None,
            data_port: None,
            dry_run: false,
            itemize: false,
            mode: Mode::Copy,
            restart: false,
            confirmed: Vec::new(),
            live: false,
            passes: None,
            filter: FilterRules::default(),
            preserve: Preserve::default(),
            compare_content: false,
            nice: false,
            in_place: false,
            whole_file: false,
            sample: None,
            full: false,
            one_file_system: false,
            allow: AllowedRights::default(),
            deletion: None,
            removal: Removal::Leave,
            removals_max: 0,
            skip_unreadable: false,
            unattended: false,
        }
    }
}

/// The login on one of the other hosts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostLogin {
    /// The host as typed.
    pub host: String,
    /// The ssh program and its arguments. Never empty.
    pub ssh: Vec<OsString>,
    /// The path of the agent there, unless it is to be searched for or uploaded.
    pub agent: Option<PathBuf>,
    /// True if the agent runs under sudo.
    pub sudo: bool,
}

/// The attributes of entries that are kept besides content, mode and times, as far as both ends support them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Preserve {
    /// Owner and group.
    pub owner: bool,
    /// Owner and group are mapped by name, not by number.
    pub by_name: bool,
    /// Extended attributes, access control lists among them.
    pub extended: Classes,
    /// Hard links: names of one inode stay names of one inode.
    pub hard_links: bool,
}

impl Default for Preserve {
    fn default() -> Self {
        Self { owner: true, by_name: false, extended: Classes::USUAL, hard_links: true }
    }
}

/// The rights at the target that a source on another host may copy. A source on this host or on the target's may copy
/// them anyway.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AllowedRights {
    /// Set-user-ID and set-group-ID bits.
    pub set_id: bool,
    /// Device nodes.
    pub devices: bool,
}

/// The entries that `sync` may delete, and when.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Deletion {
    /// True if the user has already agreed; otherwise the user is asked.
    pub agreed: bool,
    /// True to delete before anything is copied, not afterwards.
    pub first: bool,
    /// The maximum that may be deleted. `None`: half of the target's entries.
    pub max: Option<DeletionMax>,
}

/// The maximum number of entries that may be deleted. If there are more, none is deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeletionMax {
    /// A number of entries.
    Count(u64),
    /// A percentage of the target's entries.
    Percent(u8),
}

/// The number of passes, and the commands that hold the source still for the last one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Passes {
    /// The number of passes, including the last one. `None`: as many as `until_under` needs.
    pub count: Option<u32>,
    /// The expected duration at or below which the last pass begins.
    pub until_under: Option<Duration>,
    /// A shell command that is run on this host before the last pass: `fsfreeze -f /data`.
    pub before_last: Option<String>,
    /// A shell command that is run on this host after the last pass, even a failed one, if `before_last` was run.
    pub after_last: Option<String>,
}

/// The number of lanes that transfer data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LaneSetting {
    /// Automatic: as many lanes as are useful.
    #[default]
    Auto,
    /// A fixed number: 1 to [`crate::job::LANES_MAX`].
    Count(u16),
}

/// The cipher that the user chose.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CipherChoice {
    /// The fastest secure one that both sides have.
    #[default]
    Auto,
    /// AES with 128 bits in Galois counter mode.
    Aes128Gcm,
    /// AES with 256 bits in Galois counter mode.
    Aes256Gcm,
    /// ChaCha20 with Poly1305.
    ChaCha20Poly1305,
    /// No encryption; connections and data are still authenticated.
    None,
}

impl CipherChoice {
    /// All choices.
    pub const ALL: [CipherChoice; 5] =
        [Self::Auto, Self::Aes128Gcm, Self::Aes256Gcm, Self::ChaCha20Poly1305, Self::None];

    /// Returns the name on the command line and in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Aes128Gcm => "aes-128-gcm",
            Self::Aes256Gcm => "aes-256-gcm",
            Self::ChaCha20Poly1305 => "chacha20-poly1305",
            Self::None => "none",
        }
    }

    /// Returns the choice with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|choice| choice.name() == name)
    }
}

/// The transport to the other host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Transport {
    /// The best one that works.
    #[default]
    Auto,
    /// An agent there, with data connections of its own.
    Agent,
    /// The SFTP server there, without an agent.
    Sftp,
    /// An agent there, with data connections through ssh.
    Ssh,
    /// The installed rsync, over ssh. To an rsync daemon it is the only transport.
    Rsync,
}

/// The verification of data at the target.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Verify {
    /// On the wire wherever bytes are read. A local copy may leave reading to the kernel.
    #[default]
    Auto,
    /// No verification.
    None,
    /// On the wire, and every byte is read for it.
    Wire,
    /// Like `Wire`, and everything is read back from the medium as it is written.
    Medium,
}

/// The guarantee when a run ends successfully.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// Everything is on stable storage.
    #[default]
    Yes,
    /// Everything is written, but the system may still hold it in memory.
    None,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ciphers_are_found_by_their_names() {
        for choice in CipherChoice::ALL {
            assert_eq!(CipherChoice::from_name(choice.name()), Some(choice));
        }
        assert_eq!(CipherChoice::from_name("arcfour"), None);
    }
}
