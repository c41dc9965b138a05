//! A look at the leader: what the interface copies from it at a time, and from then on needs no leader for.

use hakobu_core::error::Result;

use super::byte_text::ByteText;
use super::fleet_view::{BrokerState, BrokerView, EndpointLimits, RefusedForm};
use super::problem::Problem;
use super::run_view::{RunBroker, RunLane, RunState, RunUnits, SharedLimitView};
use crate::broker::BrokerRecord;
use crate::bus::BusTrouble;
use crate::errand::ErrandView;
use crate::ids::{Moment, RelationshipId};
use crate::leader::{ActiveRun, Leader, LimitScope, LiveBroker};
use crate::limits_setting::LimitsSetting;
use crate::message_form::MESSAGE_VERSION;
use crate::names::{BrokerName, GroupName};
use crate::relationship::RelationshipRecord;
use crate::run::RunRow;
use crate::run_figures::RunFigures;
use crate::run_request::FleetRequest;
use crate::run_wait::RunWaitView;
use crate::start_delay::StartDelayView;
use crate::token::TokenRecord;

/// The number of relationships that are read at a time.
pub const GLIMPSE_RELATIONSHIPS: usize = 500;
/// The number of the latest runs that are read each time: those that started or ended since the last look are among them.
const RECENT_RUNS: usize = 32;
/// The maximum number of brokers that are shown.
const BROKERS_SHOWN_MAX: usize = 10_000;

/// A run under way.
#[derive(Clone, Debug)]
pub struct RunGlimpse {
    /// Its row.
    pub row: RunRow,
    /// Its request.
    pub request: FleetRequest,
    /// True if somebody paused it.
    pub is_paused: bool,
    /// Its limits.
    pub limits: Option<LimitsSetting>,
    /// Those of its group, and of endpoints that it touches.
    pub shared_limits: Vec<SharedLimitView>,
    /// The event that it waits for.
    pub waiting_for: Option<RunWaitView>,
    /// The brokers that work on it.
    pub brokers: Vec<RunBroker>,
    /// How much is done, with what brokers told of units under way.
    pub figures: RunFigures,
    /// True if brokers have not told yet what units have done that were taken over from another leader.
    pub waits_for_reports: bool,
    /// True if its units look again at entries that were counted before.
    pub looks_again: bool,
    /// The bytes of files that units under way have dealt with.
    pub settled_bytes: u64,
    /// The numbers of units.
    pub units: RunUnits,
    /// The last error with which a broker returned a unit.
    pub last_error: Option<Problem>,
}

/// A look at the leader.
#[derive(Debug)]
pub struct FleetGlimpse {
    /// The moment.
    pub now: Moment,
    /// The runs under way.
    pub open: Vec<RunGlimpse>,
    /// The latest runs.
    pub recent: Vec<RunRow>,
    /// Relationships behind the last one that was read before.
    pub relationships: Vec<RelationshipRecord>,
    /// The starts by schedule that wait, or were left out.
    pub start_delays: Vec<(RelationshipId, StartDelayView)>,
    /// The brokers.
    pub brokers: Vec<BrokerView>,
    /// The limits of groups.
    pub group_limits: Vec<(GroupName, LimitsSetting)>,
    /// The limits of endpoints.
    pub endpoint_limits: Vec<EndpointLimits>,
    /// The tokens.
    pub tokens: Vec<TokenRecord>,
    /// The errands whose state has changed.
    pub errands: Vec<ErrandView>,
    /// The error of the ledger, while it does not work.
    pub ledger_error: Option<Problem>,
    /// The ways to brokers that do not work.
    pub bus_troubles: Vec<BusTrouble>,
}

impl FleetGlimpse {
    /// Looks at the leader.
    ///
    /// # Errors
    /// Those of the ledger.
    pub fn take(leader: &mut Leader, after: Option<RelationshipId>) -> Result<Self> {
        let now = leader.clock().moment();
        let open = leader.active_runs().values().map(|run| open_run(leader, run)).collect();
        let ledger_error = leader.ledger_error().map(Problem::from);
        let records = leader.ledger().brokers(None, None, BROKERS_SHOWN_MAX)?;
        let brokers: Vec<_> = records.iter().map(|record| broker(leader, record)).collect();
        let group_limits =
            leader.all_group_limits().map(|(group, limits)| (group.clone(), limits.clone())).collect();
        let endpoint_limits = leader.all_endpoint_limits().map(|(location, limits, runs)| EndpointLimits {
            location: location.into(),
            limits: limits.clone(),
            runs,
        });
        let endpoint_limits = endpoint_limits.collect();
        Ok(Self {
            now,
            open,
            start_delays: leader.start_delays().map(|(id, delay)| (id, delay.into())).collect(),
            brokers,
            group_limits,
            endpoint_limits,
            ledger_error,
            bus_troubles: leader.bus_troubles(),
            recent: leader.ledger().runs(None, None, RECENT_RUNS)?,
            relationships: leader.ledger().relationships(after, GLIMPSE_RELATIONSHIPS)?,
            tokens: leader.ledger().tokens()?,
            errands: leader.changed_errands(),
        })
    }
}

fn open_run(leader: &Leader, run: &ActiveRun) -> RunGlimpse {
    let mut brokers: Vec<RunBroker> = Vec::new();
    for (id, unit) in &run.leased {
        let name = unit.broker.as_str();
        let index = brokers.iter().position(|broker| broker.broker == name).unwrap_or_else(|| {
            brokers.push(RunBroker { broker: name.to_owned(), units: Vec::new() });
            brokers.len() - 1
        });
        let progress = unit.progress.as_ref();
        let number = |of: fn(&crate::message::UnitProgress) -> u64| progress.map_or(0, of);
        let figures = progress.map(crate::message::UnitProgress::figures).unwrap_or_default().shown();
        brokers[index].units.push(RunLane {
            unit: id.get(),
            running_ms: number(|progress| progress.running_ms),
            entries_found: figures.entries_found,
            entries_done: figures.entries_done,
            bytes_done: figures.bytes_done,
            failures: number(|progress| progress.failures),
            lanes: number(|progress| u64::from(progress.lanes)),
            limited_by: progress.map(|progress| progress.limited_by.clone()).unwrap_or_default(),
            silent_ms: leader.silent_ms(unit),
        });
    }
    brokers.sort_by(|one, other| one.broker.cmp(&other.broker));
    let counted = run.leased.values().filter(|_| !run.looks_again());
    let settled = counted.filter_map(|unit| unit.progress.as_ref()).map(|progress| progress.bytes_settled);
    RunGlimpse {
        row: run.row.clone(),
        request: run.request.clone(),
        is_paused: run.row.is_paused,
        limits: run.limits.clone(),
        shared_limits: leader.limits_for(run).filter_map(shared_limit).collect(),
        waiting_for: leader
            .waits_for(run)
            .map(|wait| RunWaitView::new(wait, &run.row.group, leader.clock().moment())),
        brokers,
        figures: run.row.counters.figures().plus(run.under_way()).shown(),
        waits_for_reports: run.waits_for_reports(),
        looks_again: run.looks_again(),
        settled_bytes: settled.fold(0, u64::saturating_add),
        units: units(&run.row, run.leased.len()),
        last_error: run.last_error.as_ref().map(Problem::from),
    }
}

/// Returns limits that a run shares with others; `None` for its own.
fn shared_limit((limits, scope): (&LimitsSetting, LimitScope<'_>)) -> Option<SharedLimitView> {
    let (group, location) = match scope {
        LimitScope::Run(_) => return None,
        LimitScope::Group(group) => (Some(group.to_string()), None),
        LimitScope::Endpoint(location) => (None, Some(ByteText(location.to_vec()))),
    };
    Some(SharedLimitView { group, location, limits: limits.clone() })
}

/// Returns the numbers of units of a run.
pub fn units(row: &RunRow, leased: usize) -> RunUnits {
    RunUnits {
        added: row.units.added,
        committed: row.units.committed,
        given_up: row.units.given_up,
        leased: leased as u64,
    }
}

/// Returns the state of a run under way.
pub fn open_state(run: &RunGlimpse) -> RunState {
    RunState::of(&run.row, run.is_paused || run.limits.as_ref().is_some_and(|limits| limits.paused))
}

fn broker(leader: &Leader, record: &BrokerRecord) -> BrokerView {
    let refused = leader.refused_brokers().get(&record.name);
    let live = leader.live_brokers().get(&record.name).filter(|_| refused.is_none());
    let now_ms = leader.clock().elapsed_ms();
    let seen_ms = live.map(|live| live.seen_ms).or(refused.map(|refused| refused.seen_ms));
    let silent_ms = seen_ms.map_or(0, |seen_ms| now_ms.saturating_sub(seen_ms));
    let last_seen_ms = match seen_ms {
        Some(_) => record.last_seen.get().max(leader.clock().moment().get().saturating_sub(silent_ms)),
        None => record.last_seen.get(),
    };
    let mut runs: Vec<u64> = live.iter().flat_map(|live| &live.units).map(|unit| unit.run.get()).collect();
    runs.sort_unstable();
    runs.dedup();
    BrokerView {
        name: record.name.to_string(),
        group: record.group.to_string(),
        version: record.version.clone(),
        state: match refused {
            Some(_) => BrokerState::Refused,
            None => broker_state(live, record.is_draining, silent_ms),
        },
        refused: refused.map(|refused| RefusedForm {
            form: refused.form.into(),
            own_form: MESSAGE_VERSION.into(),
            since_ms: refused.since.get(),
        }),
        is_draining: record.is_draining,
        slots: live.map_or(0, |live| u64::from(live.slots)),
        units: live.map_or(0, |live| live.units.len() as u64),
        reaches: live
            .iter()
            .flat_map(|live| live.reach.typed())
            .map(|typed| ByteText(typed.to_vec()))
            .collect(),
        runs,
        clock_ahead_s: live.and_then(LiveBroker::clock_ahead_ms).and_then(told_seconds),
        first_seen_ms: record.first_seen.get(),
        last_seen_ms,
    }
}

/// The difference of two clocks from which on it is shown, in milliseconds. Messages on their way cause less.
const CLOCK_TOLERANCE_MS: u64 = 5_000;

/// Returns a difference of clocks in seconds, if people have to know of it.
fn told_seconds(ahead_ms: i64) -> Option<i64> {
    (ahead_ms.unsigned_abs() >= CLOCK_TOLERANCE_MS).then(|| (ahead_ms + 500 * ahead_ms.signum()) / 1000)
}

/// The time after which a silent broker is shown as away, in milliseconds.
const AWAY_AFTER_MS: u64 = 20_000;

fn broker_state(live: Option<&LiveBroker>, is_draining: bool, silent_ms: u64) -> BrokerState {
    match live {
        None => BrokerState::Away,
        Some(_) if silent_ms >= AWAY_AFTER_MS => BrokerState::Away,
        Some(live) if live.is_ending => BrokerState::Ending,
        Some(_) if is_draining => BrokerState::Draining,
        Some(live) if live.units.is_empty() => BrokerState::Idle,
        Some(_) => BrokerState::Busy,
    }
}

/// Returns a broker by its name, as the ledger and the leader know it now.
///
/// # Errors
/// Those of the ledger.
pub fn one_broker(leader: &mut Leader, name: &BrokerName) -> Result<Option<BrokerView>> {
    let record = leader.ledger().broker(name)?;
    Ok(record.map(|record| broker(leader, &record)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_differences_of_clocks_are_not_told() {
        let told = [0, 4_999, -4_999, 5_000, -5_000, 3_599_700, -3_600_400].map(told_seconds);
        assert_eq!(told, [None, None, None, Some(5), Some(-5), Some(3600), Some(-3600)]);
    }
}
