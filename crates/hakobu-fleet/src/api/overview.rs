//! The fleet as it was at the last look: what lists, states and live data are answered from, without asking the leader.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::fleet_status::{FleetStatus, TroubleKind, TroubleView};
use super::fleet_view::{BrokerView, EndpointLimits};
use super::forecast::{RunSample, WorkAmount, forecast};
use super::glimpse::{FleetGlimpse, GLIMPSE_RELATIONSHIPS, RunGlimpse, open_state, units};
use super::problem::Problem;
use super::relationship_view::{RelationshipState, RelationshipSummary};
use super::run_bottleneck::run_bottleneck;
use super::run_view::{RateSample, RunProgress, RunState, RunView};
use crate::ids::{Moment, RelationshipId, RunId};
use crate::limits_setting::LimitsSetting;
use crate::names::GroupName;
use crate::relationship::RelationshipRecord;
use crate::run::{RunOutcome, RunRow};
use crate::run_figures::RunFigures;
use crate::run_request::{FleetRequest, RunVerb};
use crate::schedule::Schedule;
use crate::start_delay::StartDelayView;

/// The number of samples of rates that are kept of a run: the last ten minutes.
const SAMPLES_MAX: usize = 600;
/// The number of samples over which the present rate is taken.
const RATE_SAMPLES: usize = 5;
/// The number of changed relationships above which one event tells to read anew.
const CHANGES_TOLD_MAX: usize = 200;

/// A relationship with its runs.
#[derive(Debug)]
pub struct RelationshipEntry {
    /// The record.
    pub record: RelationshipRecord,
    /// The last run, or the one under way.
    pub last_run: Option<RunView>,
    /// The work of the last run that was complete.
    pub amount: Option<WorkAmount>,
    /// The next start.
    pub next_start: Option<Moment>,
    /// The start that waits, or that was left out last.
    pub delayed_start: Option<StartDelayView>,
    /// The schedule in words.
    pub schedule_words: Option<String>,
    /// The text in which a search looks, in small letters.
    pub search: String,
    schedule: Option<Schedule>,
    request: FleetRequest,
}

/// A run under way.
#[derive(Debug)]
pub struct LiveRun {
    /// The last look at it.
    pub glimpse: RunGlimpse,
    /// The run with its progress.
    pub view: RunView,
    /// The rates of the last minutes.
    pub samples: VecDeque<RunSample>,
    before: Option<(u64, RunActivity)>,
}

/// The amounts by whose growth the rates of a run are measured.
#[derive(Clone, Copy, Debug)]
struct RunActivity {
    entries: u64,
    bytes: u64,
    settled_bytes: u64,
}

/// An event for those who watch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FleetEvent {
    /// The name: `run`, `relationship`, `broker`, `errand`, `status` or `reset`.
    pub name: &'static str,
    /// The data, as JSON.
    pub data: String,
}

/// The fleet at the last look.
#[derive(Debug, Default)]
pub struct FleetOverview {
    /// The relationships.
    pub relationships: BTreeMap<RelationshipId, RelationshipEntry>,
    /// The runs under way.
    pub runs: BTreeMap<RunId, LiveRun>,
    /// The brokers, by their names.
    pub brokers: BTreeMap<String, BrokerView>,
    /// The limits of groups.
    pub group_limits: BTreeMap<GroupName, LimitsSetting>,
    /// The limits of endpoints.
    pub endpoint_limits: Vec<EndpointLimits>,
    /// The state of the control plane itself.
    pub status: FleetStatus,
    /// The moment of the last look.
    pub seen: Moment,
    /// The last relationship that was read, from which the next look goes on.
    pub read_to: Option<RelationshipId>,
    /// True once all relationships were read.
    pub is_loaded: bool,
    changed: BTreeSet<RelationshipId>,
}

impl RelationshipEntry {
    fn new(record: RelationshipRecord, now: Moment) -> Self {
        let relationship = &record.relationship;
        let schedule = relationship.schedule.as_deref().and_then(|json| Schedule::parse(json).ok());
        let request = FleetRequest::of(relationship).unwrap_or_default();
        let places = relationship.sources.iter().chain([&relationship.target]);
        let places = places.map(|place| String::from_utf8_lossy(place).to_lowercase());
        let mut search =
            format!("{}\n{}", relationship.name.to_lowercase(), relationship.owner.to_lowercase());
        places.for_each(|place| {
            search.push('\n');
            search.push_str(&place);
        });
        Self {
            next_start: schedule.as_ref().and_then(|schedule| schedule.next_start(now)),
            schedule_words: schedule.as_ref().map(Schedule::words),
            last_run: None,
            delayed_start: None,
            amount: None,
            search,
            schedule,
            request,
            record,
        }
    }

    /// Returns the state.
    pub fn state(&self) -> RelationshipState {
        match self.last_run.as_ref().map(|run| run.state) {
            None => RelationshipState::New,
            Some(RunState::Failed) => RelationshipState::Failed,
            Some(RunState::Partial) => RelationshipState::Partial,
            Some(RunState::Running) => RelationshipState::Running,
            Some(RunState::Paused) => RelationshipState::Paused,
            Some(RunState::Cancelled) => RelationshipState::Cancelled,
            Some(RunState::Complete) => RelationshipState::Complete,
        }
    }

    /// Returns it for a list.
    pub fn summary(&self) -> RelationshipSummary {
        let relationship = &self.record.relationship;
        RelationshipSummary {
            id: self.record.id.get(),
            name: relationship.name.clone(),
            group: relationship.group.to_string(),
            owner: relationship.owner.clone(),
            source: relationship.sources.first().map(|source| source[..].into()).unwrap_or_default(),
            sources: relationship.sources.len() as u64,
            target: relationship.target[..].into(),
            state: self.state(),
            last_run: self.last_run.clone(),
            next_start_ms: self.next_start.map(Moment::get),
            delayed_start: self.delayed_start.clone(),
            schedule_words: self.schedule_words.clone(),
        }
    }
}

impl FleetOverview {
    /// Takes a look. Returns the events that tell what has changed.
    pub fn take(&mut self, glimpse: FleetGlimpse) -> Vec<FleetEvent> {
        let mut events = Vec::new();
        self.seen = glimpse.now;
        let ledger = glimpse.ledger_error.map(|problem| TroubleView::of_ledger(problem, glimpse.now));
        let buses = glimpse.bus_troubles.iter().map(|trouble| TroubleView::of_bus(trouble, glimpse.now));
        self.take_status(ledger.into_iter().chain(buses).collect(), &mut events);
        self.group_limits = glimpse.group_limits.into_iter().collect();
        self.endpoint_limits = glimpse.endpoint_limits;
        self.take_relationships(glimpse.relationships);
        let open: BTreeSet<RunId> = glimpse.open.iter().map(|run| run.row.id).collect();
        let gone: BTreeSet<RunId> =
            self.runs.extract_if(.., |id, _| !open.contains(id)).map(|(id, _)| id).collect();
        for run in glimpse.recent.iter().rev().filter(|run| !open.contains(&run.id)) {
            self.take_ended(run, gone.contains(&run.id), &mut events);
        }
        for run in glimpse.open {
            self.take_open(run, &mut events);
        }
        self.take_brokers(glimpse.brokers, &mut events);
        self.renew_starts();
        self.take_delays(glimpse.start_delays);
        self.tell_relationships(&mut events);
        events
    }

    /// Takes the error of a look that failed. States stay as they were. Returns the events that tell of it.
    pub fn take_failure(&mut self, problem: Problem, now: Moment) -> Vec<FleetEvent> {
        let mut events = Vec::new();
        self.seen = self.seen.max(now);
        let others = self.status.troubles.iter().filter(|trouble| trouble.kind != TroubleKind::Ledger);
        let troubles = [TroubleView::of_ledger(problem, self.seen)].into_iter().chain(others.cloned());
        self.take_status(troubles.collect(), &mut events);
        events
    }

    /// Takes what does not work.
    fn take_status(&mut self, troubles: Vec<TroubleView>, events: &mut Vec<FleetEvent>) {
        if self.status.replace(troubles) {
            tell(events, "status", &self.status);
        }
    }

    /// Takes relationships that were read behind `read_to`. Those between that are not among them are gone.
    fn take_relationships(&mut self, records: Vec<RelationshipRecord>) {
        let is_last = records.len() < GLIMPSE_RELATIONSHIPS;
        let last = records.last().map(|record| record.id).filter(|_| !is_last);
        let from = self.read_to.map_or(std::ops::Bound::Unbounded, std::ops::Bound::Excluded);
        let to = last.map_or(std::ops::Bound::Unbounded, std::ops::Bound::Included);
        let there: BTreeSet<_> = records.iter().map(|record| record.id).collect();
        let gone: Vec<_> = self.relationships.range((from, to)).map(|(id, _)| *id).collect();
        gone.iter().filter(|id| !there.contains(id)).for_each(|id| self.remove(*id));
        records.into_iter().for_each(|record| self.put(record));
        self.read_to = last;
        self.is_loaded |= is_last;
    }

    /// Adds a relationship, or its new form.
    pub fn put(&mut self, record: RelationshipRecord) {
        let id = record.id;
        let before = self.relationships.remove(&id);
        if let Some(before) = before {
            if before.record.revision == record.revision {
                self.relationships.insert(id, before);
                return;
            }
            let entry = RelationshipEntry {
                last_run: before.last_run,
                delayed_start: before.delayed_start,
                amount: before.amount,
                ..RelationshipEntry::new(record, self.seen)
            };
            self.relationships.insert(id, entry);
        } else {
            self.relationships.insert(id, RelationshipEntry::new(record, self.seen));
        }
        self.changed.insert(id);
    }

    /// Removes a relationship.
    pub fn remove(&mut self, id: RelationshipId) {
        if self.relationships.remove(&id).is_some() {
            self.changed.insert(id);
        }
    }

    /// Takes the last run of a relationship, when all are read for the first time.
    pub fn take_last_run(&mut self, run: &RunRow) {
        let view = self.ended_view(run);
        let Some(entry) = run.relationship.and_then(|id| self.relationships.get_mut(&id)) else { return };
        if entry.last_run.as_ref().is_none_or(|last| last.id <= view.id) {
            entry.last_run = Some(view);
        }
        let is_whole = FleetRequest::parse(&run.request).is_ok_and(|request| !request.is_retry);
        if run.outcome == Some(RunOutcome::Complete) && is_whole {
            entry.amount = Some(WorkAmount::of(&run.counters));
        }
    }

    /// Takes a run that has ended. `was_open`: it was under way at the last look.
    fn take_ended(&mut self, run: &RunRow, was_open: bool, events: &mut Vec<FleetEvent>) {
        let known = run.relationship.and_then(|id| Some((id, self.relationships.get(&id)?)));
        let Some((id, entry)) = known else {
            if was_open {
                tell(events, "run", &self.ended_view(run));
            }
            return;
        };
        let is_known = entry.last_run.as_ref().is_some_and(|last| {
            last.id > run.id.get() || (last.id == run.id.get() && last.ended_ms.is_some())
        });
        if is_known {
            return;
        }
        self.take_last_run(run);
        self.changed.insert(id);
        if let Some(view) = self.relationships.get(&id).and_then(|entry| entry.last_run.as_ref()) {
            tell(events, "run", view);
        }
    }

    fn take_open(&mut self, glimpse: RunGlimpse, events: &mut Vec<FleetEvent>) {
        let id = glimpse.row.id;
        let before = self.runs.remove(&id);
        let (before_view, mut samples, last) = match before {
            Some(before) => (Some(before.view), before.samples, before.before),
            None => (None, VecDeque::new(), None),
        };
        let now_ms = self.seen.get();
        let now = RunActivity::of(&glimpse);
        if let Some((at_ms, last)) = last
            && now_ms > at_ms
        {
            let rate = |now: u64, last: u64| {
                u64::try_from(u128::from(now.saturating_sub(last)) * 1000 / u128::from(now_ms - at_ms))
                    .unwrap_or(u64::MAX)
            };
            let shown = RateSample {
                at_ms: now_ms,
                bytes_per_second: rate(now.bytes, last.bytes),
                entries_per_second: rate(now.entries, last.entries),
            };
            let settled_per_second = rate(now.settled_bytes, last.settled_bytes);
            samples.push_back(RunSample { shown, settled_per_second });
            if samples.len() > SAMPLES_MAX {
                samples.pop_front();
            }
        }
        let mut view = self.row_view(&glimpse.row, glimpse.request.verb);
        view.state = open_state(&glimpse);
        view.units = glimpse.units;
        view.figures = glimpse.figures;
        view.waiting_for.clone_from(&glimpse.waiting_for);
        view.progress = Some(self.progress(&glimpse, now.settled_bytes, &samples));
        if let Some(entry) = glimpse.row.relationship.and_then(|id| self.relationships.get_mut(&id)) {
            let is_other =
                entry.last_run.as_ref().is_none_or(|last| last.id != view.id || last.state != view.state);
            entry.last_run = Some(view.clone());
            if is_other {
                self.changed.insert(entry.record.id);
            }
        }
        if before_view.as_ref() != Some(&view) {
            tell(events, "run", &view);
        }
        let before = match last {
            // All that units did under another leader was not done within a second.
            _ if glimpse.waits_for_reports => None,
            // A look that follows at once has no rate of its own.
            Some((at_ms, last)) if now_ms.saturating_sub(at_ms) < 200 => Some((at_ms, last)),
            _ => Some((now_ms, now)),
        };
        self.runs.insert(id, LiveRun { glimpse, view, samples, before });
    }

    fn progress(
        &self,
        glimpse: &RunGlimpse,
        settled_bytes: u64,
        samples: &VecDeque<RunSample>,
    ) -> RunProgress {
        let last = || samples.iter().rev().take(RATE_SAMPLES);
        let mean = |of: fn(&RateSample) -> u64| {
            let count = last().count().max(1) as u64;
            last().map(|sample| of(&sample.shown)).fold(0_u64, u64::saturating_add) / count
        };
        let entry = glimpse.row.relationship.and_then(|id| self.relationships.get(&id));
        let total = entry.and_then(|entry| entry.amount).filter(|_| !glimpse.request.is_retry);
        let done = WorkAmount { entries: glimpse.figures.entries_done, bytes: settled_bytes };
        RunProgress {
            bytes_per_second: mean(|sample| sample.bytes_per_second),
            entries_per_second: mean(|sample| sample.entries_per_second),
            limited_by: run_bottleneck(glimpse),
            forecast: total.and_then(|total| forecast(total, done, samples.iter().copied(), self.seen.get())),
        }
    }

    /// Returns a run from its row.
    pub fn ended_view(&self, row: &RunRow) -> RunView {
        let known =
            row.relationship.and_then(|id| self.relationships.get(&id)).map(|entry| entry.request.verb);
        let verb = known.unwrap_or_else(|| FleetRequest::parse(&row.request).unwrap_or_default().verb);
        self.row_view(row, verb)
    }

    fn row_view(&self, row: &RunRow, verb: RunVerb) -> RunView {
        let entry = row.relationship.and_then(|id| self.relationships.get(&id));
        RunView {
            id: row.id.get(),
            relationship: row.relationship.map(RelationshipId::get),
            relationship_name: entry.map(|entry| entry.record.relationship.name.clone()),
            group: row.group.to_string(),
            verb,
            state: RunState::of(row, false),
            phase: row.phase.name().to_owned(),
            waiting_for: None,
            started_ms: row.started.get(),
            ended_ms: row.ended.map(Moment::get),
            units: units(row, 0),
            figures: row.counters.figures().shown(),
            counters: row.counters,
            failures: row.failures,
            progress: None,
        }
    }

    fn take_brokers(&mut self, brokers: Vec<BrokerView>, events: &mut Vec<FleetEvent>) {
        let brokers: BTreeMap<_, _> =
            brokers.into_iter().map(|broker| (broker.name.clone(), broker)).collect();
        for (name, broker) in &brokers {
            let quiet = |view: &BrokerView| BrokerView { last_seen_ms: 0, ..view.clone() };
            let before = self.brokers.get(name);
            if before.is_none_or(|before| quiet(before) != quiet(broker)) {
                tell(events, "broker", broker);
            }
        }
        for name in self.brokers.keys().filter(|name| !brokers.contains_key(*name)) {
            tell(events, "broker", &serde_json::json!({"name": name, "removed": true}));
        }
        self.brokers = brokers;
    }

    /// Looks for the next start of relationships whose last one has come.
    fn renew_starts(&mut self) {
        let now = self.seen;
        for entry in self.relationships.values_mut() {
            if entry.next_start.is_some_and(|start| start <= now) {
                entry.next_start = entry.schedule.as_ref().and_then(|schedule| schedule.next_start(now));
                self.changed.insert(entry.record.id);
            }
        }
    }

    /// Takes the starts that wait or were left out.
    fn take_delays(&mut self, delays: Vec<(RelationshipId, StartDelayView)>) {
        let mut delays: BTreeMap<_, _> = delays.into_iter().collect();
        for (id, entry) in &mut self.relationships {
            let delay = delays.remove(id);
            if entry.delayed_start != delay {
                entry.delayed_start = delay;
                self.changed.insert(*id);
            }
        }
    }

    fn tell_relationships(&mut self, events: &mut Vec<FleetEvent>) {
        let changed = std::mem::take(&mut self.changed);
        if changed.len() > CHANGES_TOLD_MAX {
            return tell(events, "reset", &serde_json::json!({}));
        }
        for id in changed {
            match self.relationships.get(&id) {
                Some(entry) => tell(events, "relationship", &entry.summary()),
                None => tell(events, "relationship", &serde_json::json!({"id": id, "removed": true})),
            }
        }
    }
}

fn tell(events: &mut Vec<FleetEvent>, name: &'static str, data: &impl serde::Serialize) {
    if let Ok(data) = serde_json::to_string(data) {
        events.push(FleetEvent { name, data });
    }
}

impl RunActivity {
    /// Returns what is done. What a run that removes or compares looks at again is no part of its figures, but of its rates.
    fn of(glimpse: &RunGlimpse) -> Self {
        let RunFigures { entries_done: mut entries, bytes_done: mut bytes, .. } = glimpse.figures;
        if glimpse.looks_again {
            for lane in glimpse.brokers.iter().flat_map(|broker| &broker.units) {
                entries = entries.saturating_add(lane.entries_found);
                bytes = bytes.saturating_add(lane.bytes_done);
            }
        }
        let settled_bytes = glimpse.row.counters.bytes_settled().saturating_add(glimpse.settled_bytes);
        Self { entries, bytes, settled_bytes }
    }
}
