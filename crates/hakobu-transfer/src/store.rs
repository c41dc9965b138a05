//! A store as a host: it offers endpoints, and no hakobu code runs there.

use std::time::Duration;

use hakobu_agent::machine;
use hakobu_agent::store_place::StorePlace;
use hakobu_core::capabilities::Capabilities;
use hakobu_core::endpoint::{SourceEndpoint, TargetEndpoint};
use hakobu_core::error::Result;
use hakobu_core::grant::Grant;
use hakobu_core::job::Job;
use hakobu_core::landing::Ancestry;
use hakobu_core::location::StoreName;
use hakobu_core::path::EntryPath;
use hakobu_core::store_settings::StoreSettings;
use hakobu_proto::control::{AgentMachine, MachinePath, SourceAsk, SourceLook, TargetLook};

use crate::host::Host;

/// A store that this host accesses directly.
pub struct StoreHost(StorePlace);

impl StoreHost {
    /// Opens a store.
    ///
    /// # Errors
    /// `Usage` for a store that this build does not support, and other reasons why it cannot be opened.
    pub fn open(name: &StoreName, settings: &StoreSettings) -> Result<Self> {
        StorePlace::open(name, settings).map(Self)
    }

    /// Returns true if it is reached through TLS, or `None` if that is not known.
    pub(crate) fn uses_tls(&self) -> Option<bool> {
        self.0.uses_tls()
    }
}

impl Host for StoreHost {
    fn name(&self) -> String {
        String::from_utf8_lossy(&self.0.name_of(b"")).into_owned()
    }

    fn name_of(&self, path: &[u8]) -> Vec<u8> {
        self.0.name_of(path)
    }

    fn is_store(&self) -> bool {
        true
    }

    fn machine(&self) -> AgentMachine {
        store_machine(machine::facts().processors)
    }

    fn round_trip(&self) -> Duration {
        self.0.round_trip()
    }

    fn capabilities(&self) -> Capabilities {
        self.0.capabilities()
    }

    fn opener(&self) -> &'static str {
        OPENER
    }

    fn short_opener(&self) -> &'static str {
        SHORT_OPENER
    }

    fn look_at_sources(&mut self, sources: Vec<SourceAsk>) -> Result<Vec<Result<SourceLook>>> {
        Ok(sources.iter().map(|ask| self.0.look_at_source(ask)).collect())
    }

    fn look_at_target(&mut self, typed: &[u8]) -> Result<TargetLook> {
        self.0.look_at_target(typed)
    }

    fn look_at_places(&mut self, root: &[u8], places: &[EntryPath]) -> Result<Vec<Ancestry>> {
        self.0.look_at_places(root, places)
    }

    fn open_source(&self, roots: &[MachinePath], _job: &Job) -> Result<Box<dyn SourceEndpoint>> {
        self.0.open_source(roots)
    }

    fn open_target(
        &self,
        root: &[u8],
        grant: &Grant,
        _identity: &[u8; 16],
        _job: &Job,
    ) -> Result<Box<dyn TargetEndpoint>> {
        self.0.open_target(root, grant)
    }
}

/// The names of what opens endpoints in a store, for messages.
pub(crate) const OPENER: &str = "a store";
pub(crate) const SHORT_OPENER: &str = "store";

/// Returns placeholders, because nothing is known of a store. Its requests are sent by `processors` elsewhere.
pub(crate) fn store_machine(processors: u16) -> AgentMachine {
    AgentMachine {
        processors,
        system: String::new(),
        uid: u32::MAX,
        reached_at: None,
        reached_from: None,
        host_name: String::new(),
    }
}
