//! Fault injection: an endpoint around another one that fails, delays and reorders operations as planned, and logs
//! all operations.
//!
//! It complies with the contract of [`Lane`](hakobu_core::endpoint::Lane): a piece that could not be written spoils its draft, a queue is full
//! only while completions are due, and completions arrive in any order.

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
use hakobu_core::requests::RequestCounts;

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
    /// Returns true if the operation may change the target.
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

/// The condition under which a rule applies.
#[derive(Clone, Debug)]
pub enum FaultCondition {
    /// Every time.
    Always,
    /// The n-th time, counted from 1 over all lanes.
    Nth(u64),
    /// With this probability, in thousandths.
    PerMille(u32),
    /// If the operation is about this path, or contains a directory or change with this path.
    At(Vec<u8>),
}

impl FaultCondition {
    /// Returns the index of the path that the condition is about, if there is one.
    fn index_of<'a>(&self, mut paths: impl Iterator<Item = &'a EntryPath>) -> Option<usize> {
        match self {
            Self::At(wanted) => paths.position(|path| path.as_bytes() == wanted),
            _ => None,
        }
    }
}

/// The effect of a rule.
#[derive(Clone)]
pub enum FaultEffect {
    /// The operation is not executed and fails.
    Error(ErrorKind),
    /// The operation is executed, but reported as failed.
    Unheard(ErrorKind),
    /// One directory, file or change in the operation is not executed and fails.
    OneEntry(ErrorKind),
    /// A read returns half of the piece.
    ShortRead,
    /// A listing of a target tells only names and kinds, as where the system refuses to describe the entries.
    Undescribed,
    /// The lane dies: this operation and everything in flight ends with `ConnectionLost`.
    LaneLost,
    /// The endpoint stops answering, on all lanes, until it is interrupted.
    Silence,
    /// The function is called first; then the operation is executed.
    Call(Arc<dyn Fn() + Send + Sync>),
}

impl fmt::Debug for FaultEffect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Error(kind) => write!(f, "Error({kind:?})"),
            Self::Unheard(kind) => write!(f, "Unheard({kind:?})"),
            Self::OneEntry(kind) => write!(f, "OneEntry({kind:?})"),
            Self::ShortRead => f.write_str("ShortRead"),
            Self::Undescribed => f.write_str("Undescribed"),
            Self::LaneLost => f.write_str("LaneLost"),
            Self::Silence => f.write_str("Silence"),
            Self::Call(_) => f.write_str("Call"),
        }
    }
}

/// One planned fault.
#[derive(Clone, Debug)]
pub struct FaultRule {
    on: Option<OperationKind>,
    when: FaultCondition,
    fault: FaultEffect,
}

/// All planned faults. If several rules apply at once, the first one takes effect.
#[derive(Clone, Debug, Default)]
pub struct FaultPlan {
    seed: u64,
    rules: Vec<FaultRule>,
    full_per_mille: u32,
    held_max: usize,
    late: bool,
    clones: bool,
    refused_lanes: Vec<(usize, ErrorKind)>,
}

impl FaultPlan {
    /// Creates an empty plan; `seed` determines all random decisions.
    pub fn new(seed: u64) -> Self {
        Self { seed, ..Self::default() }
    }

    /// Adds a rule for one kind of operation.
    #[must_use]
    pub fn on(mut self, kind: OperationKind, when: FaultCondition, fault: FaultEffect) -> Self {
        self.rules.push(FaultRule { on: Some(kind), when, fault });
        self
    }

    /// Adds a rule for all operations.
    #[must_use]
    pub fn on_any(mut self, when: FaultCondition, fault: FaultEffect) -> Self {
        self.rules.push(FaultRule { on: None, when, fault });
        self
    }

    /// Sets the probability of a full queue in thousandths, while completions are due.
    #[must_use]
    pub fn full_queue(mut self, per_mille: u32) -> Self {
        self.full_per_mille = per_mille;
        self
    }

    /// Holds back up to `held_max` completions, and returns them in random order.
    #[must_use]
    pub fn reorder(mut self, held_max: usize) -> Self {
        self.held_max = held_max;
        self
    }

    /// Returns completions only to callers that wait for them, like a remote endpoint.
    #[must_use]
    pub fn late(mut self) -> Self {
        self.late = true;
        self
    }

    /// Emulates a target that can share blocks, by copying them.
    #[must_use]
    pub fn clones(mut self) -> Self {
        self.clones = true;
        self
    }

    /// Makes the opening of a lane fail.
    #[must_use]
    pub fn refuse_lane(mut self, index: usize, kind: ErrorKind) -> Self {
        self.refused_lanes.push((index, kind));
        self
    }
}

/// An operation as it was submitted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoggedOperation {
    /// The index of the lane.
    pub lane: usize,
    /// The kind of operation.
    pub kind: OperationKind,
    /// The paths of the operation: several for a list of directories or for changes, none for a barrier.
    pub paths: Vec<Vec<u8>>,
    /// The draft of the operation, if any.
    pub draft: Option<DraftId>,
    /// True if it is a write with the digest of its piece.
    pub has_digest: bool,
}

/// An endpoint with injected faults.
pub struct Faulty<E> {
    inner: E,
    capabilities: Capabilities,
    state: Arc<FaultState>,
}

/// The state that all lanes share.
struct FaultState {
    plan: FaultPlan,
    /// The number of times each rule was evaluated.
    looks: Vec<AtomicU64>,
    log: Mutex<Vec<LoggedOperation>>,
    drafts: Mutex<HashMap<DraftId, Vec<u8>>>,
    /// The drafts of which a piece was not written, with the error.
    spoiled: Mutex<HashMap<DraftId, Error>>,
    silent: AtomicBool,
    interrupted: AtomicBool,
}

impl<E: Endpoint> Faulty<E> {
    /// Wraps an endpoint with a plan.
    pub fn new(inner: E, plan: FaultPlan) -> Self {
        let mut capabilities = inner.capabilities().clone();
        capabilities.clones |= plan.clones;
        let looks = plan.rules.iter().map(|_| AtomicU64::new(0)).collect();
        let state = FaultState {
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

    /// Changes the capabilities that the endpoint reports.
    #[must_use]
    pub fn showing(mut self, change: impl FnOnce(&mut Capabilities)) -> Self {
        change(&mut self.capabilities);
        self
    }

    /// Returns the wrapped endpoint.
    pub fn inner(&self) -> &E {
        &self.inner
    }

    /// Returns all operations so far, in the order in which they were submitted.
    pub fn log(&self) -> Vec<LoggedOperation> {
        lock(&self.state.log).clone()
    }

    /// Returns the number of submitted operations of a kind.
    pub fn count(&self, kind: OperationKind) -> usize {
        lock(&self.state.log).iter().filter(|logged| logged.kind == kind).count()
    }

    /// Returns the operations that may change the target.
    pub fn writes(&self) -> Vec<LoggedOperation> {
        let mut log = self.log();
        log.retain(|logged| logged.kind.writes());
        log
    }

    /// Returns true if `interrupt` was called.
    pub fn was_interrupted(&self) -> bool {
        self.state.interrupted.load(Relaxed)
    }
}

impl<E: Endpoint> Endpoint for Faulty<E> {
    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    fn requests(&self) -> RequestCounts {
        self.inner.requests()
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

    fn shares_drafts(&self) -> bool {
        self.inner.shares_drafts()
    }
}

impl FaultState {
    /// Returns the fault that applies to an operation, if any.
    fn strike(&self, logged: &LoggedOperation, random: &mut Random) -> Option<(FaultEffect, FaultCondition)> {
        let mut struck = None;
        for (rule, looks) in self.plan.rules.iter().zip(&self.looks) {
            if rule.on.is_some_and(|kind| kind != logged.kind) {
                continue;
            }
            let number = looks.fetch_add(1, Relaxed) + 1;
            let strikes = match &rule.when {
                FaultCondition::Always => true,
                FaultCondition::Nth(nth) => number == *nth,
                FaultCondition::PerMille(share) => random.per_mille(*share),
                FaultCondition::At(path) => logged.paths.contains(path),
            };
            if strikes && struck.is_none() {
                struck = Some((rule.fault.clone(), rule.when.clone()));
            }
        }
        struck
    }

    /// Returns an error for a lane that the plan refuses.
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

/// Returns a planned error.
fn planned(kind: ErrorKind) -> Error {
    Error::new(kind, "working", "a planned fault")
}
