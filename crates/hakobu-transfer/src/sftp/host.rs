//! A host with an SFTP server and no agent.

use std::time::Duration;

use hakobu_core::capabilities::Capabilities;
use hakobu_core::endpoint::{SourceEndpoint, TargetEndpoint};
use hakobu_core::error::Result;
use hakobu_core::grant::Grant;
use hakobu_core::job::Job;
use hakobu_core::landing::Ancestry;
use hakobu_core::path::EntryPath;
use hakobu_core::report::UsedTransport;
use hakobu_core::requirements::NeededCapability;
use hakobu_proto::control::{AgentMachine, MachinePath, SourceAsk, SourceLook, TargetLook};

use super::endpoint::SftpSide;
use crate::host::Host;
use hakobu_core::request::Transport;

/// The remedy if an SFTP server is not sufficient.
pub const WAY_OUT: &str = "leave it out, or make an agent possible (--transport agent says what it lacks)";

impl Host for SftpSide {
    fn name(&self) -> String {
        self.host.clone()
    }

    fn name_of(&self, path: &[u8]) -> Vec<u8> {
        [self.host.as_bytes(), b":", path].concat()
    }

    /// Returns the little that is known of the host: whether the account is root's.
    fn machine(&self) -> AgentMachine {
        AgentMachine {
            processors: 1,
            system: String::new(),
            uid: if self.is_root() { 0 } else { u32::MAX },
            reached_at: None,
            reached_from: None,
            host_name: String::new(),
        }
    }

    fn round_trip(&self) -> Duration {
        SftpSide::round_trip(self)
    }

    fn capabilities(&self) -> Capabilities {
        SftpSide::capabilities(self)
    }

    fn opener(&self) -> &'static str {
        "an sftp server"
    }

    fn short_opener(&self) -> &'static str {
        "server"
    }

    fn way_out(&self, need: NeededCapability) -> &'static str {
        match need {
            NeededCapability::Compression => {
                "leave it out (--ssh 'ssh -C' compresses in ssh), or make an agent possible (--transport agent says what it lacks)"
            }
            _ => WAY_OUT,
        }
    }

    fn told_first(&self) -> Option<String> {
        Some(match &self.why {
            Some(why) => format!("{}: over SFTP, since there is no agent: {why}", self.host),
            None => format!("{}: over SFTP, as requested", self.host),
        })
    }

    fn route(&self) -> UsedTransport {
        UsedTransport::Sftp
    }

    fn foresee_many(&self, _transport: Transport) {
        SftpSide::foresee_many(self);
    }

    fn look_at_sources(&mut self, sources: Vec<SourceAsk>) -> Result<Vec<Result<SourceLook>>> {
        Ok(sources.iter().map(|ask| self.look_at_source(ask)).collect())
    }

    fn look_at_target(&mut self, path: &[u8]) -> Result<TargetLook> {
        SftpSide::look_at_target(self, path)
    }

    fn look_at_places(&mut self, root: &[u8], places: &[EntryPath]) -> Result<Vec<Ancestry>> {
        Ok(places.iter().map(|place| self.look_at_place(root, place)).collect())
    }

    fn open_source(&self, roots: &[MachinePath], _job: &Job) -> Result<Box<dyn SourceEndpoint>> {
        Ok(self.source(roots))
    }

    fn open_target(
        &self,
        root: &[u8],
        grant: &Grant,
        identity: &[u8; 16],
        job: &Job,
    ) -> Result<Box<dyn TargetEndpoint>> {
        Ok(self.target(root, grant.clone(), identity, job))
    }
}
