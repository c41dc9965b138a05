//! The state that all calls share: the way to the leader, the last look at the fleet, tokens and sessions.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use hakobu_core::error::{Error, ErrorKind, Result};
use tokio::sync::oneshot;

use super::events::EventStream;
use super::glimpse::FleetGlimpse;
use super::overview::{FleetEvent, FleetOverview};
use super::problem::{ApiError, ApiResult};
use super::request_counts::ApiRequestCounts;
use super::sessions::SessionTable;
use crate::audit::{AUDIT_OBJECT_BYTES_MAX, AUDIT_TEXT_BYTES_MAX, AuditEntry};
use crate::change::{LedgerAnswer, LedgerChange, LedgerRefusal};
use crate::control_loop::ControlHandle;
use crate::errand::ErrandView;
use crate::fleet_clock::FleetClock;
use crate::ids::{RelationshipId, TokenId};
use crate::key_file::SealingKeys;
use crate::leader::Leader;
use crate::limits::shortened;
use crate::login_attempts::LoginAttempts;
use crate::run_request::RequestReader;
use crate::token::{TokenHash, TokenRecord};

/// The time after which a call is answered even if the leader has not.
const ANSWER_MAX: Duration = Duration::from_secs(20);
/// The number of relationships whose last runs are read at a time.
const LAST_RUNS: usize = 100;
/// The number of the latest runs of each among which a complete one is looked for.
const RUNS_OF_EACH: usize = 4;

/// The number of events of one look above which one tells to read anew.
const EVENTS_AT_ONCE_MAX: usize = 512;

/// The settings of the interface.
#[derive(Clone, Debug, Default)]
pub struct ApiSettings {
    /// True if the interface is reached over TLS, itself or through a proxy.
    pub is_tls: bool,
    /// Names of this host that requests may use, beside addresses and `localhost`.
    pub hosts: Vec<String>,
    /// The keys by which secrets are sealed.
    pub keys: Option<Arc<SealingKeys>>,
}

/// The state that all calls share.
pub struct ApiState {
    /// The settings.
    pub settings: ApiSettings,
    /// The way to the leader.
    pub control: ControlHandle,
    /// The clock.
    pub clock: Arc<dyn FleetClock>,
    /// Checks locations and options.
    pub reader: Arc<dyn RequestReader>,
    /// The events.
    pub events: EventStream,
    /// The numbers of requests.
    pub counts: ApiRequestCounts,
    overview: Mutex<FleetOverview>,
    tokens: Mutex<BTreeMap<TokenHash, TokenRecord>>,
    sessions: Mutex<SessionTable>,
    attempts: Mutex<LoginAttempts>,
    /// Held while the fleet is looked at, so that looks do not overtake each other.
    looking: tokio::sync::Mutex<()>,
}

/// Somebody who asks for a change.
#[derive(Clone, Debug)]
pub struct AuditedAction {
    /// The person or token.
    pub who: String,
    /// The action.
    pub action: &'static str,
    /// The thing that it is about.
    pub object: Vec<u8>,
    /// Further words.
    pub detail: String,
}

impl ApiState {
    /// Creates the state.
    pub fn new(
        settings: ApiSettings,
        control: ControlHandle,
        clock: Arc<dyn FleetClock>,
        reader: Arc<dyn RequestReader>,
    ) -> Self {
        Self {
            settings,
            control,
            clock,
            reader,
            events: EventStream::default(),
            counts: ApiRequestCounts::default(),
            overview: Mutex::default(),
            tokens: Mutex::default(),
            sessions: Mutex::default(),
            attempts: Mutex::default(),
            looking: tokio::sync::Mutex::default(),
        }
    }

    /// Returns the last look at the fleet.
    pub fn overview(&self) -> MutexGuard<'_, FleetOverview> {
        lock(&self.overview)
    }

    /// Returns the tokens, by their hashes.
    pub fn tokens(&self) -> MutexGuard<'_, BTreeMap<TokenHash, TokenRecord>> {
        lock(&self.tokens)
    }

    /// Returns the sessions.
    pub fn sessions(&self) -> MutexGuard<'_, SessionTable> {
        lock(&self.sessions)
    }

    /// Returns the failed attempts to sign in.
    pub fn attempts(&self) -> MutexGuard<'_, LoginAttempts> {
        lock(&self.attempts)
    }

    /// Has the leader do something short.
    ///
    /// # Errors
    /// `TimedOut` if it does not answer in time or too many wait, `ConnectionLost` if it has ended.
    pub async fn ask<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Leader) -> T + Send + 'static,
    ) -> Result<T> {
        let (put, answer) = oneshot::channel();
        self.control.spawn(move |leader| {
            let _nobody_waits = put.send(work(leader));
        })?;
        wait(answer).await
    }

    /// Has the leader do something that ends with an answer of the ledger.
    ///
    /// # Errors
    /// As for [`ApiState::ask`], and those of the ledger.
    pub async fn ask_ledger(
        &self,
        work: impl FnOnce(&mut Leader, crate::leader::LedgerReply) + Send + 'static,
    ) -> Result<LedgerAnswer> {
        let (put, answer) = oneshot::channel();
        self.control.spawn(move |leader| {
            let reply = Box::new(move |answer| {
                let _nobody_waits = put.send(answer);
            });
            work(leader, reply);
        })?;
        wait(answer).await?
    }

    /// Has a change applied that is written to the audit log.
    ///
    /// # Errors
    /// Those of the ledger, and its refusal.
    pub async fn change(&self, action: AuditedAction, change: LedgerChange) -> ApiResult<LedgerAnswer> {
        let change = self.audited(action, change);
        match self.ask_ledger(move |leader, reply| leader.change(change, reply)).await? {
            LedgerAnswer::Refused(refusal) => Err(self.refusal(refusal)),
            answer => Ok(answer),
        }
    }

    /// Returns the error for a refusal, which names the run that is the cause.
    fn refusal(&self, refusal: LedgerRefusal) -> ApiError {
        let LedgerRefusal::TargetInUse(run) = refusal else { return ApiError::from(refusal) };
        let overview = self.overview();
        let cause = overview.runs.get(&run).and_then(|run| run.view.relationship_name.as_deref());
        ApiError::refused(refusal, cause)
    }

    /// Returns a change with its record for the audit log.
    pub fn audited(&self, action: AuditedAction, change: LedgerChange) -> LedgerChange {
        let AuditedAction { who, action, mut object, detail } = action;
        object.truncate(AUDIT_OBJECT_BYTES_MAX);
        let entry = AuditEntry {
            when: self.clock.moment(),
            who: shortened(&who, AUDIT_TEXT_BYTES_MAX),
            action: action.to_owned(),
            object,
            detail: shortened(&detail, AUDIT_TEXT_BYTES_MAX),
        };
        LedgerChange::Audited(Box::new(entry), Box::new(change))
    }

    /// Looks at the fleet, and tells those who watch what has changed, or that nothing can be seen.
    ///
    /// # Errors
    /// As for [`ApiState::ask`], and those of the ledger.
    pub async fn look(&self) -> Result<()> {
        let looked = self.look_once().await;
        if let Err(error) = &looked {
            let events = self.overview().take_failure(error.into(), self.clock.moment());
            self.tell(events);
        }
        looked
    }

    async fn look_once(&self) -> Result<()> {
        let _one_at_a_time = self.looking.lock().await;
        let after = self.overview().read_to;
        let glimpse = self.ask(move |leader| FleetGlimpse::take(leader, after)).await??;
        self.take_tokens(&glimpse.tokens);
        let errands = glimpse.errands.clone();
        let mut events = self.overview().take(glimpse);
        for errand in errands {
            // Its result is for those who may ask for it.
            let quiet = ErrandView { result: None, ..errand };
            let data = serde_json::to_string(&quiet).unwrap_or_default();
            events.push(FleetEvent { name: "errand", data });
        }
        if events.len() > EVENTS_AT_ONCE_MAX {
            // More than those who watch can take at a time.
            events = vec![FleetEvent { name: "reset", data: "{}".to_owned() }];
        }
        self.tell(events);
        Ok(())
    }

    /// Reads all relationships with their last runs, before the first call is answered.
    ///
    /// # Errors
    /// As for [`ApiState::look`].
    pub async fn load(&self) -> Result<()> {
        loop {
            self.look().await?;
            if self.overview().is_loaded {
                break;
            }
        }
        let all: Vec<RelationshipId> = self.overview().relationships.keys().copied().collect();
        for some in all.chunks(LAST_RUNS) {
            let some = some.to_vec();
            let runs = self.ask(move |leader| {
                let ledger = leader.ledger();
                let last = some.into_iter().map(|id| ledger.runs(Some(id), None, RUNS_OF_EACH));
                last.collect::<Result<Vec<_>>>()
            });
            let runs = runs.await??;
            let mut overview = self.overview();
            // The latest one is the last run, and the latest complete one says how much there is to do.
            runs.iter().flat_map(|runs| runs.iter().rev()).for_each(|run| overview.take_last_run(run));
        }
        Ok(())
    }

    /// Reads a relationship anew that was changed.
    ///
    /// # Errors
    /// As for [`ApiState::look`].
    pub async fn renew_relationship(&self, id: RelationshipId) -> Result<()> {
        // A look that began before the change would undo it here.
        let _one_at_a_time = self.looking.lock().await;
        match self.ask(move |leader| leader.ledger().relationship(id)).await?? {
            Some(record) => self.overview().put(record),
            None => self.overview().remove(id),
        }
        Ok(())
    }

    /// Takes the valid tokens. Sessions of others end.
    fn take_tokens(&self, records: &[TokenRecord]) {
        let valid: std::collections::BTreeSet<TokenId> = {
            let now = self.clock.moment();
            records.iter().filter(|record| record.is_valid_at(now)).map(|record| record.id).collect()
        };
        *self.tokens() = records.iter().map(|record| (record.token.hash, record.clone())).collect();
        self.sessions().retain_tokens(|token| valid.contains(&token));
    }

    /// Reads the tokens anew.
    ///
    /// # Errors
    /// As for [`ApiState::look`].
    pub async fn renew_tokens(&self) -> Result<()> {
        let records = self.ask(|leader| leader.ledger().tokens()).await??;
        self.take_tokens(&records);
        Ok(())
    }

    fn tell(&self, events: Vec<FleetEvent>) {
        events.into_iter().for_each(|event| self.events.send(event));
    }

    /// Returns the present moment by a clock that does not jump.
    pub fn instant(&self) -> Instant {
        Instant::now()
    }
}

/// Returns the answer, or the refusal as an error.
///
/// # Errors
/// The refusal.
pub fn refused(answer: LedgerAnswer) -> ApiResult<LedgerAnswer> {
    match answer {
        LedgerAnswer::Refused(refusal) => Err(ApiError::from(refusal)),
        answer => Ok(answer),
    }
}

async fn wait<T>(answer: oneshot::Receiver<T>) -> Result<T> {
    match tokio::time::timeout(ANSWER_MAX, answer).await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(_)) => Err(Error::new(ErrorKind::ConnectionLost, "asking the leader", "it has ended")),
        Err(_) => Err(Error::new(ErrorKind::TimedOut, "asking the leader", "it does not answer")),
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
