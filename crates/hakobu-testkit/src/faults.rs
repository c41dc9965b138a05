//! Faults on demand: an endpoint around another one that fails, delays and reorders as planned,
//! and keeps a log of what it was asked.
//!
//! It stays within the contract of [`Lane`]: a piece that could not be written spoils its draft,
//! a queue is full only while answers are due, and answers come in any order.

mod lane;
mod source;
mod target;

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hakobu_core::capabilities::Capabilities;
use hakobu_core::endpoint::{DraftId, Endpoint, SourceEndpoint, SourceLane, TargetEndpoint, TargetLane};
use hakobu_core::error::{Error, ErrorKind, Result};
use hakobu_core::path::EntryPath;

use crate::random::Random;
use lane::FaultyLane;

/// The kinds of operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "they are those of `SourceOp` and `TargetOp`")]
pub enum OperationKind {
    Inspect,
    List,
    Fetch,
    Read,
    Open,
    Extended,
    Digest,
    Names,
    Confirm,
    Store,
    Begin,
    Write,
    Clone,
    Finish,
    Abandon,
    Apply,
    Barrier,
    Sign,
    Zero,
    Complete,
    Next,
    Length,
}

impl OperationKind {
    /// Whether it changes anything at the target.
    pub fn writes(self) -> bool {
        !matches!(
            self,
            Self::Inspect
                | Self::List
                | Self::Fetch
                | Self::Read
                | Self::Next
                | Self::Open
                | Self::Confirm
                | Self::Sign
                | Self::Digest
                | Self::Names
                | Self::Barrier
        )
    }
}

/// When a rule strikes.
#[derive(Clone, Debug)]
pub enum When {
    /// Every time.
    Always,
    /// The n-th time, counted from 1 over all lanes.
    Nth(u64),
    /// So often in a thousand times.
    PerMille(u32),
    /// When the operation is about this path, or a directory or change of this path is in it.
    At(Vec<u8>),
}

impl When {
    /// Returns which of these paths it is about, if it is about one.
    fn index_of<'a>(&self, mut paths: impl Iterator<Item = &'a EntryPath>) -> Option<usize> {
        match self {
            Self::At(wanted) => paths.position(|path| path.as_bytes() == wanted),
            _ => None,
        }
    }
}

/// What happens then.
#[derive(Clone)]
pub enum Fault {
    /// The operation is not done and fails.
    Error(ErrorKind),
    /// The operation is done, and said to have failed.
    Unheard(ErrorKind),
    /// One directory, file or change in the operation is not done and fails.
    OneEntry(ErrorKind),
    /// A piece comes back with half of its bytes.
    ShortRead,
    /// The lane dies: this and everything under way ends with `ConnectionLost`.
    LaneLost,
    /// The endpoint answers nothing any more, on any lane, until it is interrupted.
    Silence,
    /// Something is done first; then the operation takes its course.
    Call(Arc<dyn Fn() + Send + Sync>),
}

impl fmt::Debug for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Error(kind) => write!(f, "Error({kind:?})"),
            Self::Unheard(kind) => write!(f, "Unheard({kind:?})"),
            Self::OneEntry(kind) => write!(f, "OneEntry({kind:?})"),
            Self::ShortRead => f.write_str("ShortRead"),
            Self::LaneLost => f.write_str("LaneLost"),
            Self::Silence => f.write_str("Silence"),
            Self::Call(_) => f.write_str("Call"),
        }
    }
}

/// One thing that goes wrong.
#[derive(Clone, Debug)]
pub struct Rule {
    on: Option<OperationKind>,
    when: When,
    fault: Fault,
}

/// Everything that goes wrong. Of several rules that strike at once the first counts.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    seed: u64,
    rules: Vec<Rule>,
    full_per_mille: u32,
    held_max: usize,
    late: bool,
    clones: bool,
    refused_lanes: Vec<(usize, ErrorKind)>,
}

impl Plan {
    /// A plan of nothing; `seed` decides what is left to chance.
    pub fn new(seed: u64) -> Self {
        Self { seed, ..Self::default() }
    }

    /// Adds a rule about one kind of operation.
    #[must_use]
    pub fn on(mut self, kind: OperationKind, when: When, fault: Fault) -> Self {
        self.rules.push(Rule { on: Some(kind), when, fault });
        self
    }

    /// Adds a rule about all operations.
    #[must_use]
    pub fn on_any(mut self, when: When, fault: Fault) -> Self {
        self.rules.push(Rule { on: None, when, fault });
        self
    }

    /// The queue is full so often in a thousand times, if answers are due.
    #[must_use]
    pub fn full_queue(mut self, per_mille: u32) -> Self {
        self.full_per_mille = per_mille;
        self
    }

    /// Up to so many answers are held back and come in any order.
    #[must_use]
    pub fn reorder(mut self, held_max: usize) -> Self {
        self.held_max = held_max;
        self
    }

    /// Answers come only to who waits for them, as from far away.
    #[must_use]
    pub fn late(mut self) -> Self {
        self.late = true;
        self
    }

    /// A target that can share blocks, as far as can be seen: it copies them by itself.
    #[must_use]
    pub fn clones(mut self) -> Self {
        self.clones = true;
        self
    }

    /// A lane that cannot be opened.
    #[must_use]
    pub fn refuse_lane(mut self, index: usize, kind: ErrorKind) -> Self {
        self.refused_lanes.push((index, kind));
        self
    }
}

/// An operation as it was submitted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Logged {
    /// The lane's index.
    pub lane: usize,
    /// What was asked.
    pub kind: OperationKind,
    /// About which paths: several directories of a list, several changes, none for a barrier.
    pub paths: Vec<Vec<u8>>,
    /// The draft, if it is about one.
    pub draft: Option<DraftId>,
    /// Whether it is a write that comes with the digest of its piece.
    pub has_digest: bool,
}

/// An endpoint with faults.
pub struct Faulty<E> {
    inner: E,
    capabilities: Capabilities,
    state: Arc<State>,
}

/// What the lanes share.
struct State {
    plan: Plan,
    /// How often each rule was looked at.
    looks: Vec<AtomicU64>,
    log: Mutex<Vec<Logged>>,
    drafts: Mutex<HashMap<DraftId, Vec<u8>>>,
    /// Drafts of which a piece was not written, and why.
    spoiled: Mutex<HashMap<DraftId, Error>>,
    silent: AtomicBool,
    interrupted: AtomicBool,
}

impl<E: Endpoint> Faulty<E> {
    /// Puts a plan around an endpoint.
    pub fn new(inner: E, plan: Plan) -> Self {
        let mut capabilities = inner.capabilities().clone();
        capabilities.clones |= plan.clones;
        let looks = plan.rules.iter().map(|_| AtomicU64::new(0)).collect();
        let state = State {
            plan,
            looks,
            log: Mutex::default(),
            drafts: Mutex::default(),
            spoiled: Mutex::default(),
            silent: AtomicBool::new(false),
            interrupted: AtomicBool::new(false),
        };
        Self { inner, capabilities, state: Arc::new(state) }
    }

    /// Shows other capabilities than the endpoint has.
    #[must_use]
    pub fn showing(mut self, change: impl FnOnce(&mut Capabilities)) -> Self {
        change(&mut self.capabilities);
        self
    }

    /// Returns the endpoint behind it.
    pub fn inner(&self) -> &E {
        &self.inner
    }

    /// All operations so far, in the order in which they were submitted.
    pub fn log(&self) -> Vec<Logged> {
        lock(&self.state.log).clone()
    }

    /// How many operations of a kind were submitted.
    pub fn count(&self, kind: OperationKind) -> usize {
        lock(&self.state.log).iter().filter(|logged| logged.kind == kind).count()
    }

    /// The operations that change anything.
    pub fn writes(&self) -> Vec<Logged> {
        let mut log = self.log();
        log.retain(|logged| logged.kind.writes());
        log
    }

    /// Whether `interrupt` was called.
    pub fn was_interrupted(&self) -> bool {
        self.state.interrupted.load(Relaxed)
    }
}

impl<E: Endpoint> Endpoint for Faulty<E> {
    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    fn interrupt(&self) {
        self.state.interrupted.store(true, Relaxed);
        self.inner.interrupt();
    }
}

impl<E: SourceEndpoint> SourceEndpoint for Faulty<E> {
    fn open_source_lane(&self, index: usize) -> Result<Box<dyn SourceLane>> {
        self.state.refuse_lane(index)?;
        let inner = self.inner.open_source_lane(index)?;
        Ok(Box::new(FaultyLane::new(inner, Arc::clone(&self.state), index)))
    }
}

impl<E: TargetEndpoint> TargetEndpoint for Faulty<E> {
    fn open_target_lane(&self, index: usize) -> Result<Box<dyn TargetLane>> {
        self.state.refuse_lane(index)?;
        let inner = self.inner.open_target_lane(index)?;
        Ok(Box::new(FaultyLane::new(inner, Arc::clone(&self.state), index)))
    }
}

impl State {
    /// What goes wrong with an operation, if anything does.
    fn strike(&self, logged: &Logged, random: &mut Random) -> Option<(Fault, When)> {
        let mut struck = None;
        for (rule, looks) in self.plan.rules.iter().zip(&self.looks) {
            if rule.on.is_some_and(|kind| kind != logged.kind) {
                continue;
            }
            let number = looks.fetch_add(1, Relaxed) + 1;
            let strikes = match &rule.when {
                When::Always => true,
                When::Nth(nth) => number == *nth,
                When::PerMille(share) => random.per_mille(*share),
                When::At(path) => logged.paths.contains(path),
            };
            if strikes && struck.is_none() {
                struck = Some((rule.fault.clone(), rule.when.clone()));
            }
        }
        struck
    }

    /// Fails for a lane that the plan refuses.
    fn refuse_lane(&self, index: usize) -> Result<()> {
        match self.plan.refused_lanes.iter().find(|(refused, _)| *refused == index) {
            Some((_, kind)) => Err(Error::new(*kind, "opening a lane", "as planned")),
            None => Ok(()),
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// An error that was planned.
fn planned(kind: ErrorKind) -> Error {
    Error::new(kind, "working", "a planned fault")
}
