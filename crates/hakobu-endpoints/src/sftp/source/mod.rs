//! The SFTP source: directories of a server, read by lanes.

mod fetch;
mod lane;
mod large;

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use hakobu_core::Result;
use hakobu_core::capabilities::Capabilities;
use hakobu_core::endpoint::{Endpoint, SourceEndpoint, SourceLane};

use super::access::{SftpAccess, StopFlags, TIME_STEP_NS};
use super::inspect::SftpLook;
use super::server::Server;
use super::sftp_root::{MissingMeaning, SftpRoot};
use crate::common::future_lane::FutureLane;
use crate::common::time_steps::TimeSteps;
use lane::SftpSourceReader;
use large::OneOpen;

/// The assumed maximum clock difference between this machine and a server in nanoseconds, for detecting recent changes.
const CLOCKS_APART_NS: u32 = 1_000_000_000;

/// Directories of a server, opened for reading. Roots are numbered in the order in which they were given.
pub struct SftpSource {
    access: SftpAccess,
    /// The absolute paths of the roots.
    roots: Arc<[Vec<u8>]>,
    capabilities: Capabilities,
    look: Server,
    steps: TimeSteps,
    /// The flags that stop this run.
    stops: StopFlags,
}

impl SftpSource {
    /// Opens directories by their absolute paths. `look` is a connection that nobody else uses while this exists.
    pub fn new(access: SftpAccess, look: &SftpLook, roots: &[Vec<u8>]) -> Self {
        let capabilities = look.abilities().capabilities(access.is_root);
        Self {
            access,
            roots: roots.into(),
            capabilities,
            look: look.server().clone(),
            steps: TimeSteps::of_another_machine(TIME_STEP_NS, CLOCKS_APART_NS),
            stops: StopFlags::default(),
        }
    }
}

impl Endpoint for SftpSource {
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

impl SourceEndpoint for SftpSource {
    fn open_source_lane(&self, index: usize) -> Result<Box<dyn SourceLane>> {
        let server = self.access.server(index, &self.look, &self.stops)?;
        let sftp_root =
            |root: &Vec<u8>| Arc::new(SftpRoot::new(server.clone(), MissingMeaning::Source, root.clone()));
        let sftp_roots = self.roots.iter().map(sftp_root).collect();
        let work = SftpSourceReader { sftp_roots, steps: self.steps.clone(), large: OneOpen::default() };
        Ok(Box::new(FutureLane::new(Arc::new(work), server)))
    }

    fn meet_time_step(&self, step_ns: u32) {
        self.steps.meet(step_ns);
    }
}
