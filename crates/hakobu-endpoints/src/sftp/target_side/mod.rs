//! The SFTP target: one root on a server, written within a grant by any number of lanes.

mod apply;
mod directory_order;
mod draft;
mod drafts;
mod lane;
mod names;
mod shared;
mod store;
mod writer_context;

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use hakobu_core::Result;
use hakobu_core::capabilities::Capabilities;
use hakobu_core::endpoint::{Endpoint, TargetEndpoint, TargetLane};
use hakobu_core::grant::Grant;

use super::access::{SftpAccess, StopFlags};
use super::inspect::SftpLook;
use super::requests::done;
use super::server::Server;
use super::sftp_root::{MissingMeaning, SftpRoot};
use crate::common::allowance::Allowance;
use crate::common::future_lane::{FutureLane, LaneBuffers};
use lane::SftpTargetWriter;
use names::DraftNames;
pub use shared::SftpTargetOptions;
use shared::SftpTargetState;
use writer_context::SftpWriterContext;

/// The maximum time for the cleanup.
const CLEARING_LIMIT: Duration = Duration::from_secs(10);
/// The time for which earlier requests may still take effect.
const CLEARING_PAUSE: Duration = Duration::from_millis(300);

/// A directory on an SFTP server, opened for writing within a grant. Unfinished drafts are removed when it is dropped.
pub struct SftpTarget {
    shared: Arc<SftpTargetState>,
    capabilities: Capabilities,
    look: Server,
    /// The flags that stop this run.
    stops: StopFlags,
}

impl SftpTarget {
    /// Opens a directory by its absolute path. `look` is a connection that nobody else uses while this exists.
    pub fn new(
        access: SftpAccess,
        look: &SftpLook,
        root: &[u8],
        grant: Grant,
        options: SftpTargetOptions,
    ) -> Self {
        let look = look.server().clone();
        let may_chown = grant.may_chown && access.is_root;
        let mut capabilities =
            Capabilities { set_id: grant.may_set_id, ..look.abilities.capabilities(may_chown) };
        if let Ok(Some(room)) = look.wait(async { look.room(root, access.is_root).await }) {
            capabilities.read_only = room.read_only;
            capabilities.free_bytes = Some(room.free_bytes);
            capabilities.free_inodes = room.free_inodes;
        }
        let names = DraftNames::new(&options.job, &options.run);
        let shared = SftpTargetState {
            access,
            root: root.to_vec(),
            grant,
            options,
            drafts: Mutex::default(),
            names,
            allowance: Allowance::default(),
            may_chown,
            modes_through_only: AtomicBool::new(false),
        };
        Self { shared: Arc::new(shared), capabilities, look, stops: StopFlags::default() }
    }
}

impl Endpoint for SftpTarget {
    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    fn interrupt(&self) {
        self.stops.ended.store(true, Relaxed);
    }

    /// Each lane is a login.
    fn may_open_lane(&self, has_work: bool) -> bool {
        has_work
    }

    fn lanes_are_complete(&self) {
        self.stops.complete.store(true, Relaxed);
    }
}

impl TargetEndpoint for SftpTarget {
    fn open_target_lane(&self, index: usize) -> Result<Box<dyn TargetLane>> {
        let shared = Arc::clone(&self.shared);
        let server = shared.access.server(index, &self.look, &self.stops)?;
        let sftp_root = SftpRoot::new(server.clone(), MissingMeaning::Target, shared.root.clone());
        let work = SftpTargetWriter::new(SftpWriterContext::new(shared, sftp_root), LaneBuffers::default());
        Ok(Box::new(FutureLane::new(Arc::new(work), server)))
    }

    /// Each lane has its own server process, and waiting for a file's lock keeps a processor busy.
    fn spreads_writers(&self) -> bool {
        true
    }
}

impl Drop for SftpTarget {
    /// Removes unfinished drafts. The lanes no longer exist by then, or will find their drafts closed.
    fn drop(&mut self) {
        self.shared.drafts().drain().for_each(|(_, draft)| draft.close());
        let left = self.shared.names.take_all();
        if left.is_empty() {
            return;
        }
        let Ok(server) = self.to_clear() else { return };
        // The server may still process requests that a lane sent before it was cut off.
        for pause in [Duration::ZERO, CLEARING_PAUSE] {
            std::thread::sleep(pause);
            let removals: Vec<_> = left.iter().map(|draft| server.connection.remove(draft)).collect();
            server.wait_for(CLEARING_LIMIT, async {
                for removal in removals {
                    let _ = done(removal).await;
                }
            });
        }
    }
}

impl SftpTarget {
    /// Returns a connection whose waits do not end when the run is stopped. If the existing one was cut by that, a new
    /// one is opened.
    fn to_clear(&self) -> Result<Server> {
        match self.look.connection.has_failed() {
            true => Server::greet(
                (self.shared.access.connect)(&AtomicBool::new(false))?,
                Arc::default(),
                CLEARING_LIMIT,
                Some(&self.look),
            ),
            false => Ok(self.look.uncancelled()),
        }
    }
}
