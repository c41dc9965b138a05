//! What the user asked for, typed: the request that a front end hands over for one copy.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use crate::compression::Compression;
use crate::extended::Classes;
use crate::filter::FilterRules;
use crate::job::{Mode, Removal, Sample};
use crate::location::Location;
use crate::losses::LossKind;
use crate::pace::Limits;

/// How long a lost connection is tried again unless the user says otherwise.
pub const RETRY_FOR_DEFAULT: Duration = Duration::from_secs(30);
/// The same for a job, which nobody watches.
pub const RETRY_FOR_DETACHED: Duration = Duration::from_secs(3600);

/// One copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopyRequest {
    /// What to copy, in the order typed; at least one.
    pub sources: Vec<Location>,
    /// Where to.
    pub target: Location,
    /// Files and disks with a target each, in the place of sources and target.
    pub pairs: Vec<(Location, Location)>,
    /// How many lanes.
    pub lanes: Lanes,
    /// What it is held to, as it begins.
    pub limits: Limits,
    /// The cipher of the data connections.
    pub cipher: CipherChoice,
    /// Whether content is compressed on them.
    pub compression: Compression,
    /// The way to the other machine.
    pub transport: Transport,
    /// How data at the target is checked.
    pub verify: Verify,
    /// What is certain when the run ends well.
    pub durable: Durable,
    /// What must not be lost.
    pub require: BTreeSet<LossKind>,
    /// How long to try again after a connection was lost.
    pub retry_for: Duration,
    /// The ssh program and its arguments, at least the program.
    pub ssh: Vec<OsString>,
    /// The program on the far side, if it is not to be found or uploaded.
    pub agent: Option<PathBuf>,
    /// Whether the far agent runs under sudo.
    pub sudo: bool,
    /// The logins on the other machines, where they are not all by the three above.
    pub logins: Vec<HostLogin>,
    /// The file with the password for a module of an rsync daemon.
    pub password_file: Option<PathBuf>,
    /// The far side's name or address for data, if it is not that of the login.
    pub data_address: Option<String>,
    /// The one port that the listening side uses for all data connections.
    pub data_port: Option<u16>,
    /// Only say what would be done.
    pub dry_run: bool,
    /// What is done with content.
    pub mode: Mode,
    /// Forget what an interrupted run has left, and begin anew.
    pub restart: bool,
    /// The identities of disks that may be overwritten although something is on them.
    pub confirmed: Vec<String>,
    /// Read a source that is in use: mounted, or open for writing.
    pub live: bool,
    /// Several passes over a source that is in use.
    pub passes: Option<Passes>,
    /// Which entries take part.
    pub filter: FilterRules,
    /// What is kept of entries besides content, mode and times.
    pub preserve: Preserve,
    /// Whether files of one size are equal only if their content is, whatever their times say.
    pub compare_content: bool,
    /// Whether the machines' other processes come first.
    pub nice: bool,
    /// Whether files of a tree that changed are written to where they lie.
    pub in_place: bool,
    /// Whether all of a file of a tree is sent when it changed.
    pub whole_file: bool,
    /// Of which files the content is compared, where nothing is written; of all without.
    pub sample: Option<Sample>,
    /// Whether directories on other file systems are left empty.
    pub one_file_system: bool,
    /// What a source on another machine may bring over besides.
    pub allow: Allow,
    /// What `sync` does with entries that only the target has.
    pub deletion: Option<Deletion>,
    /// What the run at hand does with them, and how many it may remove.
    pub removal: Removal,
    /// See [`Job::removals_max`](crate::job::Job).
    pub removals_max: u64,
    /// Go on where the source cannot be read, with zeros in the place of that.
    pub skip_unreadable: bool,
    /// Nobody waits for it: a first login that fails is tried again like a connection that was lost,
    /// as after a restart of both machines.
    pub unattended: bool,
}

impl CopyRequest {
    /// Whether content is to be compressed in any case, which takes an agent at both ends.
    pub fn wants_compression(&self) -> bool {
        self.compression.is_asked_for()
    }
}

impl Default for CopyRequest {
    /// What happens when nothing is asked for; without sources, from here to here.
    fn default() -> Self {
        Self {
            sources: Vec::new(),
            target: Location::default(),
            pairs: Vec::new(),
            lanes: Lanes::default(),
            limits: Limits::default(),
            cipher: CipherChoice::default(),
            compression: Compression::default(),
            transport: Transport::default(),
            verify: Verify::default(),
            durable: Durable::default(),
            require: BTreeSet::new(),
            retry_for: RETRY_FOR_DEFAULT,
            ssh: vec![OsString::from("ssh")],
            agent: None,
            sudo: false,
            logins: Vec::new(),
            password_file: None,
            data_address: None,
            data_port: None,
            dry_run: false,
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
            one_file_system: false,
            allow: Allow::default(),
            deletion: None,
            removal: Removal::Leave,
            removals_max: 0,
            skip_unreadable: false,
            unattended: false,
        }
    }
}

/// The login on one of the other machines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostLogin {
    /// The machine, as it was typed.
    pub host: String,
    /// The ssh program and its arguments, at least the program.
    pub ssh: Vec<OsString>,
    /// The program there, if it is not to be found or uploaded.
    pub agent: Option<PathBuf>,
    /// Whether it runs under sudo.
    pub sudo: bool,
}

/// What is kept of entries besides content, mode and times, as far as both ends can.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Preserve {
    /// Owner and group.
    pub owner: bool,
    /// By their names, and not by number.
    pub by_name: bool,
    /// Extended attributes, access control lists among them.
    pub extended: Classes,
    /// Names of one inode stay that.
    pub hard_links: bool,
}

impl Default for Preserve {
    fn default() -> Self {
        Self { owner: true, by_name: false, extended: Classes::USUAL, hard_links: true }
    }
}

/// What a source may bring over that gives rights at the target. One on this machine may anyway, and one on the target's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Allow {
    /// Set-user-ID and set-group-ID bits.
    pub set_id: bool,
    /// Device nodes.
    pub devices: bool,
}

/// What `sync` may delete, and when.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Deletion {
    /// The user has agreed already; without it the question is put.
    pub agreed: bool,
    /// Before anything is brought over, not after everything has been.
    pub first: bool,
    /// The most that may go. Without it, half of what the target has.
    pub max: Option<DeletionMax>,
}

/// The most entries that may be deleted; if there are more, none is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeletionMax {
    /// So many.
    Count(u64),
    /// This share of the target's entries.
    Percent(u8),
}

/// How many passes, and what holds the source still for the last.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Passes {
    /// This many in all, the last one included. Without it as many as it takes, for `until_under`.
    pub count: Option<u32>,
    /// The last pass begins once it will take no longer than this.
    pub until_under: Option<Duration>,
    /// A command for the shell, run here before the last pass: `fsfreeze -f /data`.
    pub before_last: Option<String>,
    /// A command for the shell, run here after the last pass, however that ended, if the one before
    /// it was run.
    pub after_last: Option<String>,
}

/// How many lanes move data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Lanes {
    /// As many as help.
    #[default]
    Auto,
    /// This many: 1 to [`crate::job::LANES_MAX`].
    Count(u16),
}

/// The cipher that the user chose.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CipherChoice {
    /// The fastest sound one that both sides have.
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

    /// The name on the command line and in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Aes128Gcm => "aes-128-gcm",
            Self::Aes256Gcm => "aes-256-gcm",
            Self::ChaCha20Poly1305 => "chacha20-poly1305",
            Self::None => "none",
        }
    }

    /// The choice with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|choice| choice.name() == name)
    }
}

/// The way to the other machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Transport {
    /// The best that works.
    #[default]
    Auto,
    /// An agent there, and data connections of its own.
    Agent,
    /// The server's SFTP, and no agent.
    Sftp,
    /// An agent there, and data connections through ssh.
    Ssh,
    /// The installed rsync, over ssh. To a daemon it is the only one.
    Rsync,
}

/// How data at the target is checked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Verify {
    /// On the wire wherever bytes are read; a local copy may leave reading to the kernel.
    #[default]
    Auto,
    /// Not at all.
    None,
    /// On the wire, and every byte is read for it.
    Wire,
    /// As `Wire`, and everything is read back from the medium as it is written.
    Medium,
}

/// What is certain when the run ends well.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durable {
    /// Everything is on stable storage.
    #[default]
    Yes,
    /// Everything is written; the system may still hold it in memory.
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
