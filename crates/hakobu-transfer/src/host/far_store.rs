//! A store that an agent opens on another host, which is also the other end of the copy.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use hakobu_core::capabilities::Capabilities;
use hakobu_core::endpoint::{SourceEndpoint, TargetEndpoint};
use hakobu_core::error::{Error, ErrorKind, Result};
use hakobu_core::event::Observer;
use hakobu_core::grant::Grant;
use hakobu_core::job::Job;
use hakobu_core::landing::Ancestry;
use hakobu_core::location::StoreName;
use hakobu_core::pacer::LimitChanges;
use hakobu_core::path::EntryPath;
use hakobu_core::store_settings::StoreSettings;
use hakobu_proto::control::{
    AgentMachine, AgentMessage, MachinePath, Request, RunUsage, SourceAsk, SourceLook, StoreFacts, StoreLook,
    StoreRequest, StoreRunRequest, TargetLook, VERSION_OF_STORES,
};

use super::Host;
use crate::agent_client::FarSide;
use crate::store::{OPENER, SHORT_OPENER, store_machine};

/// The time without an answer after which the host is considered lost. It repeats requests to the store for minutes.
const STORE_LIMIT: Duration = Duration::from_secs(600);

/// An agent that opens both ends of a copy: places on its host, and a store.
#[derive(Clone)]
pub struct StoreAgent(Rc<RefCell<FarSide>>);

/// A store that an agent has opened.
pub struct FarStore {
    store: StoreName,
    facts: StoreFacts,
    agent: StoreAgent,
}

impl StoreAgent {
    /// Uses an agent for both ends.
    pub fn new(agent: FarSide) -> Self {
        Self(Rc::new(RefCell::new(agent)))
    }

    /// Makes the agent open a store, with the credentials of its host.
    ///
    /// # Errors
    /// `Unsupported` if the agent is too old; errors in opening the store; or if the host is lost.
    pub fn open_store(&self, store: &StoreName, settings: &StoreSettings) -> Result<FarStore> {
        let (host, version) = {
            let agent = self.0.borrow();
            (agent.host.clone(), agent.hello.version)
        };
        if version < VERSION_OF_STORES {
            let words = format!(
                "hakobu {} there opens no stores; bring it up to date, or leave out --open-at",
                self.0.borrow().hello.program
            );
            return Err(Error::new(ErrorKind::Unsupported, "opening the store on", words).at(host));
        }
        if !settings.credentials.is_empty() {
            let words = "the credentials of this run are not sent to another machine";
            let error = Error::new(ErrorKind::Unsupported, "opening the store on", words).at(host);
            return Err(error.hint("leave out --open-at"));
        }
        let request = StoreRequest { store: store.clone(), settings: settings.clone() };
        match self.ask(&Request::OpenStore(request))? {
            AgentMessage::StoreOpened(Ok(facts)) => {
                Ok(FarStore { store: store.clone(), facts: *facts, agent: self.clone() })
            }
            AgentMessage::StoreOpened(Err(error)) => Err(self.there(store, error)),
            _ => Err(self.0.borrow().unexpected()),
        }
    }

    fn ask(&self, request: &Request) -> Result<AgentMessage> {
        self.0.borrow_mut().ask_for(request, STORE_LIMIT)
    }

    /// Names the host in an error of the store that a user can only understand or mend there.
    pub fn there(&self, store: &StoreName, error: Error) -> Error {
        use ErrorKind::{ConnectionLost, NotFound, PermissionDenied, TimedOut, Unauthenticated, Usage};
        let is_of_access =
            matches!(error.kind, PermissionDenied | Unauthenticated | Usage | ConnectionLost | TimedOut)
                || error.kind == NotFound && error.hint.is_some();
        match is_of_access && error.at.starts_with(&store.location_of(b"")) {
            true => {
                let host = &self.0.borrow().host;
                error.hint(format!("the store is opened on {host}, with the settings and credentials there"))
            }
            false => error,
        }
    }

    /// Removes unfinished files in the open store.
    ///
    /// # Errors
    /// If the store refuses, or the host is lost.
    pub fn remove_unfinished(&self, path: &[u8]) -> Result<u64> {
        match self.ask(&Request::RemoveUnfinished { path: path.to_vec() })? {
            AgentMessage::Removed(removed) => removed,
            _ => Err(self.0.borrow().unexpected()),
        }
    }

    /// Runs a job between the host and the open store.
    ///
    /// # Errors
    /// If the host is lost.
    pub fn run(
        &self,
        request: StoreRunRequest,
        observer: &dyn Observer,
        cancel: &AtomicBool,
        changes: &dyn LimitChanges,
    ) -> Result<RunUsage> {
        let mut agent = self.0.borrow_mut();
        agent.hold_apart(&request.run.grant)?;
        agent.run(&Request::RunWithStore(request), observer, cancel, changes)
    }
}

/// The host of the agent, as the end that is not in the store.
impl Host for StoreAgent {
    fn name(&self) -> String {
        self.0.borrow().name()
    }

    fn name_of(&self, path: &[u8]) -> Vec<u8> {
        self.0.borrow().name_of(path)
    }

    fn machine(&self) -> AgentMachine {
        self.0.borrow().machine()
    }

    fn hakobu_version(&self) -> Option<String> {
        self.0.borrow().hakobu_version()
    }

    /// Returns zero, because the engine is on that host.
    fn round_trip(&self) -> Duration {
        Duration::ZERO
    }

    fn opener(&self) -> &'static str {
        self.0.borrow().opener()
    }

    fn look_at_sources(&mut self, sources: Vec<SourceAsk>) -> Result<Vec<Result<SourceLook>>> {
        self.0.borrow_mut().look_at_sources(sources)
    }

    fn look_at_target(&mut self, path: &[u8]) -> Result<TargetLook> {
        self.0.borrow_mut().look_at_target(path)
    }

    fn look_at_places(&mut self, root: &[u8], places: &[EntryPath]) -> Result<Vec<Ancestry>> {
        self.0.borrow_mut().look_at_places(root, places)
    }

    fn open_source(&self, roots: &[MachinePath], job: &Job) -> Result<Box<dyn SourceEndpoint>> {
        self.0.borrow().open_source(roots, job)
    }

    fn open_target(
        &self,
        root: &[u8],
        grant: &Grant,
        identity: &[u8; 16],
        job: &Job,
    ) -> Result<Box<dyn TargetEndpoint>> {
        self.0.borrow().open_target(root, grant, identity, job)
    }

    fn has_agent(&self) -> bool {
        true
    }
}

impl FarStore {
    fn opened_there(&self) -> Error {
        let words = "the agent opens the store, not this machine";
        Error::new(ErrorKind::Usage, "opening an end", words).at(self.name_of(b""))
    }

    fn there(&self, error: Error) -> Error {
        self.agent.there(&self.store, error)
    }

    fn look(&self, look: StoreLook) -> Result<AgentMessage> {
        self.agent.ask(&Request::LookInStore(look))
    }

    fn unexpected(&self) -> Error {
        self.agent.0.borrow().unexpected()
    }
}

impl Host for FarStore {
    fn name(&self) -> String {
        String::from_utf8_lossy(&self.name_of(b"")).into_owned()
    }

    fn name_of(&self, path: &[u8]) -> Vec<u8> {
        self.store.location_of(path)
    }

    fn is_store(&self) -> bool {
        true
    }

    fn machine(&self) -> AgentMachine {
        store_machine(self.agent.machine().processors)
    }

    fn round_trip(&self) -> Duration {
        self.facts.round_trip
    }

    fn capabilities(&self) -> Capabilities {
        let StoreFacts { fills_holes, tells_links, shared_names, .. } = self.facts;
        Capabilities { fills_holes, tells_links, shared_names, ..self.facts.capabilities.clone() }
    }

    fn opener(&self) -> &'static str {
        OPENER
    }

    fn short_opener(&self) -> &'static str {
        SHORT_OPENER
    }

    fn look_at_sources(&mut self, sources: Vec<SourceAsk>) -> Result<Vec<Result<SourceLook>>> {
        match self.look(StoreLook::Sources { sources })? {
            AgentMessage::Sources(looks) => {
                Ok(looks.into_iter().map(|look| look.map_err(|error| self.there(error))).collect())
            }
            _ => Err(self.unexpected()),
        }
    }

    fn look_at_target(&mut self, path: &[u8]) -> Result<TargetLook> {
        match self.look(StoreLook::Target { path: path.to_vec() })? {
            AgentMessage::Target(look) => look.map_err(|error| self.there(error)),
            _ => Err(self.unexpected()),
        }
    }

    fn look_at_places(&mut self, root: &[u8], places: &[EntryPath]) -> Result<Vec<Ancestry>> {
        match self.look(StoreLook::Places { root: root.to_vec(), places: places.to_vec() })? {
            AgentMessage::Places(looks) => looks.map_err(|error| self.there(error)),
            _ => Err(self.unexpected()),
        }
    }

    fn open_source(&self, _roots: &[MachinePath], _job: &Job) -> Result<Box<dyn SourceEndpoint>> {
        Err(self.opened_there())
    }

    fn open_target(
        &self,
        _root: &[u8],
        _grant: &Grant,
        _identity: &[u8; 16],
        _job: &Job,
    ) -> Result<Box<dyn TargetEndpoint>> {
        Err(self.opened_there())
    }
}
