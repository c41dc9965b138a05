//! The capabilities of a server, in the form that the engine needs.

use hakobu_core::capabilities::{Capabilities, Concurrency};
use hakobu_core::extended::Classes;

use super::access::TIME_STEP_NS;
use super::server::ServerExtensions;

/// Each lane has an ssh process on this machine and a server process on the remote host.
const CONCURRENCY: Concurrency = Concurrency { near_max: 4, far_max: 10, processes: true };
/// The number of pieces that fit into OpenSSH's window of 2 MiB, and as many again in transit to it.
const READS_AT_ONCE: u16 = 16;

impl ServerExtensions {
    /// Returns the best capabilities of any directory on this server. `owners` is true if the account may set owners.
    pub fn capabilities(self, owners: bool) -> Capabilities {
        Capabilities {
            extended: Classes::NONE,
            time_step_ns: TIME_STEP_NS,
            time_first_s: 0,
            time_last_s: u32::MAX.into(),
            hard_links: self.hard_links,
            inodes: false,
            special_files: false,
            sets_links: self.sets_links,
            remote: true,
            tells_file_systems: false,
            account_names: false,
            writes_in_place: false,
            replaces_in_one_step: self.renames_over,
            hashes: false,
            reads_medium: false,
            flushes: self.syncs,
            tells_room: self.tells_room,
            compresses: false,
            confines: false,
            concurrency: Some(CONCURRENCY),
            reads_at_once: READS_AT_ONCE,
            ..Capabilities::posix(owners)
        }
    }
}
