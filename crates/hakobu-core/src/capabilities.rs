//! The capabilities of endpoints as data, known before work begins instead of discovered during it.

use crate::extended::Classes;
use crate::key_spelling::KeySpelling;
use crate::listed::{ListedAttributes, StoreClock};
use crate::names::NameRules;
use crate::requests::RequestCosts;

/// The capabilities of an opened endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// Owner and group can be set.
    pub owners: bool,
    /// Set-user-ID and set-group-ID bits can be set.
    pub set_id: bool,
    /// Permissions are kept.
    pub modes: bool,
    /// Directories are entries of their own. Otherwise a directory exists as long as something is in it.
    pub directories: bool,
    /// A directory and another entry can have the same name.
    pub shared_names: bool,
    /// The modification time of an entry can be set; otherwise it is the time of the upload.
    pub keeps_times: bool,
    /// The extended attributes that can be read and set.
    pub extended: Classes,
    /// The resolution of times in nanoseconds; 1 if all times can be stored.
    pub time_step_ns: u32,
    /// The resolution of times before 1970, in nanoseconds: larger if fractions of a second are not stored correctly.
    pub time_step_before_1970_ns: u32,
    /// The earliest time that can be stored, in seconds since 1970. Earlier ones are clamped to it.
    pub time_first_s: i64,
    /// The latest time that can be stored, in seconds since 1970. Later ones are clamped to it.
    pub time_last_s: i64,
    /// Hard links can be created.
    pub hard_links: bool,
    /// Listings describe inodes: the time of the last change, the number of names, whether there are holes.
    pub inodes: bool,
    /// The times of the last change that listings describe are those of any change. Some file systems have no such times,
    /// and show the modification time.
    pub change_times: bool,
    /// Named pipes and device nodes can be created, and devices can be written to.
    pub special_files: bool,
    /// Symbolic links can be created.
    pub symlinks: bool,
    /// Owner and time of symbolic links can be set.
    pub sets_links: bool,
    /// The endpoint checks a CRC-64 of each data frame that it receives, so one must be supplied.
    pub wants_checksum: bool,
    /// The endpoint checks the BLAKE3 of each piece that it receives, so one must be supplied.
    pub wants_digest: bool,
    /// Holes of files become zeros.
    pub fills_holes: bool,
    /// An entry that is asked for by itself shows the identity of its inode, if it may have other names, although listings
    /// do not describe inodes.
    pub tells_links: bool,
    /// Operations cross a network, so many should be requested at once.
    pub remote: bool,
    /// Whole files may be shared with the other end without copying, if both are on the same file system. Worth one
    /// attempt.
    pub clones: bool,
    /// The object store in which it is, as a number among all stores that it could copy files from by itself, without
    /// bytes crossing the network.
    pub copies_within: Option<u64>,
    /// It holds a single stream, which is read once and in order. Its length may be unknown until its end.
    pub stream: bool,
    /// The names that it can hold.
    pub names: NameRules,
    /// It is mounted read-only.
    pub read_only: bool,
    /// Bytes available to this user, if known.
    pub free_bytes: Option<u64>,
    /// Free inodes, if the file system counts them.
    pub free_inodes: Option<u64>,
    /// Directories are listed in pages in the order of [`Listing`](crate::listing::Listing), which is that of the keys
    /// of object stores. An agent lists directories as a whole.
    pub lists_in_order: bool,
    /// With `lists_in_order`: the spelling whose keys are in that order. `None` if names are spelled as they are.
    pub key_order: Option<KeySpelling>,
    /// The attributes that the entries of a listing carry. An entry that is asked for by itself carries all.
    pub listed: ListedAttributes,
    /// The clock by which a store sets the times of uploads, if it was measured.
    pub clock: Option<StoreClock>,
    /// Listings show entries that are on another file system than the directory above them.
    pub tells_file_systems: bool,
    /// Names of users and groups can be looked up.
    pub account_names: bool,
    /// A file can be changed in place: any range of it can be written.
    pub writes_in_place: bool,
    /// A file can replace another one atomically, so that there is no moment without either.
    pub replaces_in_one_step: bool,
    /// Content can be hashed locally, without being transferred.
    pub hashes: bool,
    /// A file of several runs of chunks gets its extended attributes when it begins, so they must be read before.
    pub attributes_first: bool,
    /// Written data can be read back from the medium, bypassing all caches.
    pub reads_medium: bool,
    /// Written data can be flushed to stable storage.
    pub flushes: bool,
    /// The free space can be queried, and so can the reason why something cannot be written.
    pub tells_room: bool,
    /// Content can be transferred compressed.
    pub compresses: bool,
    /// No symbolic link leads out of the root, whatever others change meanwhile.
    pub confines: bool,
    /// The number of useful lanes, if known in advance.
    pub concurrency: Option<Concurrency>,
    /// The number of pieces of a file that a lane should have in flight; 1 if each read completes at once.
    pub reads_at_once: u16,
    /// The requests that pieces of work take, if requests are counted.
    pub request_costs: Option<&'static RequestCosts>,
    /// The time that an idle file server takes for one answer, in nanoseconds, if the endpoint is on a file system
    /// mounted over a network.
    pub answer_ns: Option<u64>,
}

impl Capabilities {
    /// Returns the capabilities of a local POSIX file system. `owners` is true if the user may change owners.
    pub fn posix(owners: bool) -> Self {
        Self {
            owners,
            set_id: true,
            modes: true,
            directories: true,
            shared_names: false,
            keeps_times: true,
            extended: Classes::NONE,
            time_step_ns: 1,
            time_step_before_1970_ns: 1,
            time_first_s: i64::MIN,
            time_last_s: i64::MAX,
            hard_links: true,
            inodes: true,
            change_times: true,
            fills_holes: false,
            tells_links: false,
            special_files: true,
            symlinks: true,
            sets_links: true,
            wants_checksum: false,
            wants_digest: false,
            remote: false,
            clones: false,
            copies_within: None,
            stream: false,
            names: NameRules::ANY,
            read_only: false,
            free_bytes: None,
            free_inodes: None,
            lists_in_order: false,
            key_order: None,
            listed: ListedAttributes::ALL,
            clock: None,
            tells_file_systems: true,
            account_names: true,
            writes_in_place: true,
            replaces_in_one_step: true,
            hashes: true,
            attributes_first: false,
            reads_medium: true,
            flushes: true,
            tells_room: true,
            compresses: true,
            confines: true,
            concurrency: None,
            reads_at_once: 1,
            request_costs: None,
            answer_ns: None,
        }
    }

    /// Returns the way in which whole files can get from a source to this target without being read; `None` if there is
    /// none.
    pub fn shares_with(&self, source: &Self) -> Option<ContentSharing> {
        match (self.copies_within, source.copies_within) {
            (Some(ours), Some(theirs)) if ours == theirs => Some(ContentSharing::InStore),
            _ if self.clones && source.clones => Some(ContentSharing::Blocks),
            _ => None,
        }
    }

    /// Returns the capabilities of a place on a machine where hakobu runs, before it has been examined: nothing is
    /// excluded.
    pub fn unlimited() -> Self {
        Self { extended: Classes::USUAL | Classes::SELINUX, ..Self::posix(true) }
    }
}

/// A way in which whole files get from a source to a target without being read by this program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContentSharing {
    /// Large files share their blocks, if both ends are on one file system. Worth one attempt.
    Blocks,
    /// The object store that both ends are in copies objects with everything that it keeps of them.
    InStore,
}

/// The number of lanes that are useful at an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Concurrency {
    /// The maximum number on a network path with low latency.
    pub near_max: u16,
    /// The maximum number on a network path with high latency.
    pub far_max: u16,
    /// True if each lane takes a process of its own on this machine.
    pub processes: bool,
}
