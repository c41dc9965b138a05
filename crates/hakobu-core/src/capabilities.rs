//! What an endpoint can do, as data: asked before work begins, never found out half way.

use crate::extended::Classes;
use crate::names::NameRules;

/// The abilities of an opened endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// Owner and group can be set.
    pub owners: bool,
    /// Set-user-ID and set-group-ID bits can be set.
    pub set_id: bool,
    /// Permissions are kept.
    pub modes: bool,
    /// Directories are entries of their own. Where they are not, one is there as long as something is in it.
    pub directories: bool,
    /// The time of an entry is the one that it is given; else it is that of its upload.
    pub keeps_times: bool,
    /// The extended attributes that can be seen, and set.
    pub extended: Classes,
    /// The steps in which times are kept, in nanoseconds: 1 where all of them are.
    pub time_step_ns: u32,
    /// The steps in which times before 1970 are kept: larger where fractions of a second are not kept right.
    pub time_step_before_1970_ns: u32,
    /// The first time that can be kept, in seconds since 1970. An earlier one becomes this.
    pub time_first_s: i64,
    /// The last time that can be kept. A later one becomes this.
    pub time_last_s: i64,
    /// A file can be given further names.
    pub hard_links: bool,
    /// Listings tell inodes: when one was last changed, how many names it has, whether it has holes.
    pub inodes: bool,
    /// Named pipes and device nodes can be made, and devices written to.
    pub special_files: bool,
    /// Symbolic links can be made.
    pub symlinks: bool,
    /// Owner and time of symbolic links can be set.
    pub sets_links: bool,
    /// The endpoint checks a CRC-64 of each frame of data it receives, so one has to be given.
    pub wants_checksum: bool,
    /// The endpoint checks the BLAKE3 of each piece it receives, so one has to be given.
    pub wants_digest: bool,
    /// Operations cross a network: ask for many things at once.
    pub remote: bool,
    /// Whole files may be shared with the other end without copying, if that is the same file
    /// system: worth one try.
    pub clones: bool,
    /// There is one thing in it, a stream, which is read once and in order. How long it is may not be known before
    /// it ends.
    pub stream: bool,
    /// Which names it can hold.
    pub names: NameRules,
    /// Nothing can be written: it is mounted so.
    pub read_only: bool,
    /// Bytes free for this user, when it can be known.
    pub free_bytes: Option<u64>,
    /// Inodes free, when the file system counts them.
    pub free_inodes: Option<u64>,
    /// Directories are listed in portions in the order of [`Listing`](crate::listing::Listing), which is that of the
    /// keys of object stores. An agent lists directories as a whole.
    pub lists_in_order: bool,
    /// Listings show what is on another file system than the directory above it.
    pub tells_file_systems: bool,
    /// Names of users and groups can be looked up.
    pub account_names: bool,
    /// A file can be changed where it lies: any range of it can be written.
    pub writes_in_place: bool,
    /// A file can take the place of another in one step, so that nobody ever finds neither.
    pub replaces_in_one_step: bool,
    /// Content can be hashed where it is, without travelling.
    pub hashes: bool,
    /// What was written can be read back from the medium, past all caches.
    pub reads_medium: bool,
    /// What was written can be brought to stable storage.
    pub flushes: bool,
    /// How much room there is can be asked for, and why something cannot be written.
    pub tells_room: bool,
    /// Content can travel compressed.
    pub compresses: bool,
    /// No link leads out of the root, whatever others do to it meanwhile.
    pub confines: bool,
    /// How many lanes do any good, where that is known beforehand.
    pub concurrency: Option<Concurrency>,
    /// How many pieces of a file a lane should have under way at a time: 1 where each is there at once.
    pub reads_at_once: u16,
    /// How long the file server takes for one answer while nothing else is asked of it, in nanoseconds, where it is on
    /// a file system that is mounted over a network.
    pub answer_ns: Option<u64>,
}

impl Capabilities {
    /// What a local POSIX file system offers to a user who may, or may not, change owners.
    pub fn posix(owners: bool) -> Self {
        Self {
            owners,
            set_id: true,
            modes: true,
            directories: true,
            keeps_times: true,
            extended: Classes::NONE,
            time_step_ns: 1,
            time_step_before_1970_ns: 1,
            time_first_s: i64::MIN,
            time_last_s: i64::MAX,
            hard_links: true,
            inodes: true,
            special_files: true,
            symlinks: true,
            sets_links: true,
            wants_checksum: false,
            wants_digest: false,
            remote: false,
            clones: false,
            stream: false,
            names: NameRules::ANY,
            read_only: false,
            free_bytes: None,
            free_inodes: None,
            lists_in_order: false,
            tells_file_systems: true,
            account_names: true,
            writes_in_place: true,
            replaces_in_one_step: true,
            hashes: true,
            reads_medium: true,
            flushes: true,
            tells_room: true,
            compresses: true,
            confines: true,
            concurrency: None,
            reads_at_once: 1,
            answer_ns: None,
        }
    }

    /// What any place on a machine may offer where our own code opens it: nothing is ruled out before it is looked at.
    pub fn unlimited() -> Self {
        Self { extended: Classes::USUAL | Classes::SELINUX, ..Self::posix(true) }
    }
}

/// How many lanes do any good at an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Concurrency {
    /// The most of them on a short way.
    pub near_max: u16,
    /// The most of them on a long way.
    pub far_max: u16,
    /// Each lane takes a process of its own on this machine.
    pub processes: bool,
}
