//! Answers the requests of brokers. Nothing in them is believed until it is checked.

use hakobu_core::error::Result;
use hakobu_core::plant::planted;
use hakobu_core::report::bottleneck_names;

use super::live_broker::NAME_KEPT_MS;
use super::{ActiveRun, Leader, LeasedUnit, LiveBroker, Then, as_ms, send};
use crate::bus::{IncomingCall, ReplyTo};
use crate::change::{LedgerChange, UnitResult};
use crate::failure::tell_broker;
use crate::ids::{RunId, UnitKey};
use crate::limits::check_at_most;
use crate::message::{
    BrokerCall, BrokerOrders, BrokerReport, BrokerRequest, CommittedWork, LeaderAnswer, LeaseName, UnitOrder,
    UnitProgress,
};
use crate::message_form::{VERSION_BEFORE, answer_of_form_before, decode_call, foreign_call};
use crate::names::{BrokerName, GroupName};
use crate::reach::BrokerReach;
use crate::run::STEP_UNITS_MAX;
use crate::run_losses::RunLosses;
use crate::transition::{RefuseCause, UnitTransition};
use crate::unit::{ItemPart, UNIT_ITEMS_MAX, UnitItem, UnitWork};
use crate::unit_counters::UnitCounters;

/// The maximum number of units of one broker.
const UNITS_MAX: usize = 256;
/// The number of open units of a run for each slot of its group that given work is divided up to. There are more only if units
/// would be too large. Without this bound, units become smaller each time that a part of them is given away.
const UNITS_A_SLOT: usize = 4;

impl Leader {
    /// Takes a request of a broker. It is answered at the next [`Leader::flush`] at the latest.
    pub fn take_call(&mut self, call: IncomingCall) {
        let IncomingCall { group, broker, bytes, reply } = call;
        match decode_call(&bytes) {
            Ok((call, form)) if broker.as_ref().is_some_and(|name| *name != call.broker) => {
                let words = "the request names another broker than the one that may send it";
                send(reply_in(form, reply), &LeaderAnswer::Refused(words.to_owned()));
            }
            Ok((call, form)) => self.answer(&group, call, reply_in(form, reply)),
            Err(error) => {
                if let Some(foreign) = foreign_call(&bytes) {
                    self.note_refused(&group, broker, foreign);
                }
                send(reply, &LeaderAnswer::Refused(error.to_string()));
            }
        }
    }

    fn answer(&mut self, group: &GroupName, call: BrokerCall, reply: ReplyTo) {
        let BrokerCall { broker, process, request } = call;
        if let Some(words) = self.name_is_taken(group, &broker, process) {
            return send(reply, &LeaderAnswer::Refused(words));
        }
        match request {
            BrokerRequest::Report(report) => {
                let answer = self.report(group, &broker, process, &report);
                send(reply, &answer);
            }
            BrokerRequest::Lease { offered } => self.lease(group, broker, &offered, reply),
            BrokerRequest::Commit { lease, result } => self.commit(group, broker, &lease, *result, reply),
            BrokerRequest::Return { lease, cause, error } => {
                if !self.is_proven(group, &broker, &lease) {
                    return send(reply, &LeaderAnswer::Lost);
                }
                let mut error = error.map(hakobu_core::Error::from);
                if let Some(error) = error.as_mut().filter(|_| self.has_several(group)) {
                    tell_broker(error, &broker);
                }
                if let Some(error) = error.clone()
                    && let Some(run) = self.runs.get_mut(&lease.key.run)
                {
                    run.last_error = Some(error);
                }
                if error.as_ref().is_some_and(|error| ends_a_run(error) || needs_somebody(error)) {
                    self.fail_run(lease.key.run, error.as_ref());
                    return send(reply, &LeaderAnswer::Done);
                }
                let change = LedgerChange::refuse(lease.key, broker, lease.epoch, (cause, error));
                let counts = cause == RefuseCause::Failed;
                self.pending.push((change, Then::Return { key: lease.key, counts, reply }));
            }
            BrokerRequest::ErrandDone(answer) => {
                self.errand_done(group, &broker, *answer);
                send(reply, &LeaderAnswer::Done);
            }
            BrokerRequest::Clock(broker_ms) => {
                let (now, _) = self.now();
                if let Some(live) = self.brokers.get_mut(&broker) {
                    live.take_clock(broker_ms, now);
                }
                send(reply, &LeaderAnswer::Done);
            }
            BrokerRequest::Leave => {
                self.tell_sighting(&broker);
                self.brokers.remove(&broker);
                self.announcements.is_heard(&broker);
                send(reply, &LeaderAnswer::Done);
            }
        }
    }

    /// Returns words if another process has the name of a broker.
    fn name_is_taken(&self, group: &GroupName, broker: &BrokerName, process: u64) -> Option<String> {
        let known = self.brokers.get(broker)?;
        let (_, now_ms) = self.now();
        let is_other = known.process != process || known.group != *group;
        let is_there = now_ms.saturating_sub(known.seen_ms) < NAME_KEPT_MS;
        (is_other && is_there).then(|| {
            format!("another broker is called \"{broker}\": start this one with --name, or wait until the other has ended")
        })
    }

    fn report(
        &mut self,
        group: &GroupName,
        broker: &BrokerName,
        process: u64,
        report: &BrokerReport,
    ) -> LeaderAnswer {
        if let Err(error) = check_at_most("the units of a broker", report.units.len(), UNITS_MAX) {
            return LeaderAnswer::Refused(error.to_string());
        }
        let (_, now_ms) = self.now();
        let is_known = self.brokers.get(broker).is_some_and(|known| known.process == process);
        let is_reach_known =
            is_known && self.brokers.get(broker).is_some_and(|known| known.reach.is_of(&report.reaches));
        let reach = match is_reach_known {
            true => None,
            false => match BrokerReach::new(&report.reaches) {
                Ok(reach) => Some(reach),
                Err(error) => return LeaderAnswer::Refused(error.to_string()),
            },
        };
        if !is_known {
            let mut live = LiveBroker::new(group.clone(), process, now_ms);
            live.is_draining = self.is_draining_in_ledger(broker);
            self.brokers.insert(broker.clone(), live);
        }
        self.refused.remove(broker);
        let mut relationships = std::collections::BTreeSet::new();
        let units = report.units.iter().map(|unit| {
            let lease_ms = as_ms(self.settings.lease);
            let is_proven = self.is_proven(group, broker, &unit.lease);
            let leased = self.leased_unit(&unit.lease, broker).filter(|_| is_proven);
            let Some(leased) = leased else { return UnitOrder::Stop };
            leased.ends_ms = now_ms.saturating_add(lease_ms);
            leased.take(UnitProgress { limited_by: known_bottleneck(&unit.limited_by), ..unit.clone() });
            let splits = leased.splits;
            relationships.extend(self.runs.get(&unit.lease.key.run).and_then(|run| run.row.relationship));
            UnitOrder::Continue { lease_ms, splits, limits: self.unit_limits(unit.lease.key) }
        });
        let units = units.collect();
        self.announcements.is_heard(broker);
        let Some(live) = self.brokers.get_mut(broker) else { return LeaderAnswer::Done };
        let is_other_version = live.version != report.version;
        live.take(report, now_ms);
        live.relationships = relationships;
        if let Some(reach) = reach {
            live.reach = reach;
        }
        let is_draining = live.is_draining;
        if is_other_version || live.told_ms == 0 {
            self.tell_sighting(broker);
        }
        let errands = if report.is_ending { Vec::new() } else { self.errands_for(group, broker) };
        LeaderAnswer::Orders(BrokerOrders { is_draining, units, errands })
    }

    fn is_draining_in_ledger(&mut self, broker: &BrokerName) -> bool {
        let found = self.ledger.broker(broker);
        found.ok().flatten().is_some_and(|record| record.is_draining)
    }

    fn leased_unit(&mut self, lease: &LeaseName, broker: &BrokerName) -> Option<&mut LeasedUnit> {
        let leased = self.runs.get_mut(&lease.key.run)?.leased.get_mut(&lease.key.unit)?;
        (leased.epoch == lease.epoch && leased.broker == *broker).then_some(leased)
    }

    /// Returns true if a broker was given this lease. It may have ended since.
    fn is_proven(&self, group: &GroupName, broker: &BrokerName, lease: &LeaseName) -> bool {
        let expected = self.settings.key.token(lease.key, lease.epoch, group, broker);
        self.settings.key.proves(lease.token, expected)
    }

    fn lease(&mut self, group: &GroupName, broker: BrokerName, offered: &[UnitKey], reply: ReplyTo) {
        let is_welcome = self.brokers.get(&broker).is_some_and(|live| !live.is_draining && !live.is_ending);
        let ready = match is_welcome {
            true => self.take_ready(group, &broker, offered),
            false => Ok(None),
        };
        let unit = match ready {
            Ok(Some(unit)) => unit,
            Ok(None) => return send(reply, &LeaderAnswer::Leases(Vec::new())),
            Err(error) => return send(reply, &LeaderAnswer::Refused(error.to_string())),
        };
        let (now, _) = self.now();
        let transition = UnitTransition::Lease {
            broker: broker.clone(),
            group: group.clone(),
            epoch: unit.epoch,
            now,
            deadline: now.plus_ms(as_ms(self.settings.lease)),
        };
        let then = Then::Lease { group: group.clone(), broker, asked: (unit.key, unit.epoch), reply };
        self.pending.push((LedgerChange::Unit(unit.key, transition), then));
    }

    fn commit(
        &mut self,
        group: &GroupName,
        broker: BrokerName,
        lease: &LeaseName,
        work: CommittedWork,
        reply: ReplyTo,
    ) {
        if !self.is_proven(group, &broker, lease) {
            return send(reply, &LeaderAnswer::Lost);
        }
        let has_several = self.has_several(group);
        let has_second_look = self.runs.get(&lease.key.run).is_some_and(ActiveRun::has_second_look);
        let change = unit_result(work, self.units_wanted(group, lease.key.run)).and_then(|mut result| {
            if has_several {
                result.failures.iter_mut().for_each(|row| tell_broker(&mut row.failure.error, &broker));
            }
            if has_second_look {
                result.counters = result.counters.of_second_look();
            }
            let has_children = !result.children.is_empty();
            let result = Box::new(result);
            let change = LedgerChange::Commit { key: lease.key, broker, epoch: lease.epoch, result };
            change.check()?;
            Ok((change, has_children))
        });
        match change {
            Ok((change, has_children)) => {
                self.pending.push((change, Then::Commit { key: lease.key, has_children, reply }));
            }
            Err(error) => send(reply, &LeaderAnswer::Refused(error.to_string())),
        }
    }

    /// Returns true if a group has several brokers, so that it matters which of them met an error.
    fn has_several(&self, group: &GroupName) -> bool {
        self.brokers.values().filter(|live| live.group == *group).count() > 1
    }

    /// Returns the number of units in which work that one of a run gives away keeps the brokers of its group busy.
    fn units_wanted(&self, group: &GroupName, run: RunId) -> usize {
        let locations = self.runs.get(&run).map(|run| &run.locations[..]).unwrap_or_default();
        let reaches = |live: &&LiveBroker| live.group == *group && live.reach.has_all(locations);
        let slots = self.brokers.values().filter(reaches).map(|live| usize::from(live.slots)).sum::<usize>();
        let open = self.runs.get(&run).map_or(0, |run| run.row.units.open());
        // The one that gives is open as well.
        let others = usize::try_from(open.saturating_sub(1)).unwrap_or(usize::MAX);
        (slots.max(1) * UNITS_A_SLOT).saturating_sub(others).max(1)
    }
}

/// Returns what takes the answer to a call of a form.
fn reply_in(form: u8, reply: ReplyTo) -> ReplyTo {
    match form {
        // A broker refuses an answer in another form than its own.
        VERSION_BEFORE => Box::new(move |answer| reply(answer_of_form_before(&answer).unwrap_or(answer))),
        _ => reply,
    }
}

/// Returns the name of a bottleneck that this program knows, or nothing: it comes from outside.
fn known_bottleneck(name: &str) -> String {
    bottleneck_names().find(|known| *known == name).unwrap_or_default().to_owned()
}

/// Returns true for an error that no other attempt and no other broker mends. Credentials that have expired are one: whoever
/// renews them starts the run again.
pub(super) fn ends_a_run(error: &hakobu_core::Error) -> bool {
    use hakobu_core::error::ErrorKind::{
        NotFound, PermissionDenied, Refused, Requirement, Unauthenticated, Unsupported, Usage,
    };
    matches!(
        error.kind,
        NotFound | PermissionDenied | Usage | Unsupported | Refused | Requirement | Unauthenticated
    )
}

/// Returns true for an error of a broker about a source or target that somebody has to change first, such as a full one.
fn needs_somebody(error: &hakobu_core::Error) -> bool {
    use hakobu_core::error::ErrorKind::{BeyondGrant, Conflict, NoInodes, NoSpace, ReadOnly, WriteOnly};
    matches!(error.kind, BeyondGrant | Conflict | NoInodes | NoSpace | ReadOnly | WriteOnly)
}

/// Returns a result as the ledger takes it. Given work is divided into about so many units.
fn unit_result(work: CommittedWork, units: usize) -> Result<UnitResult> {
    let CommittedWork { given, counters, ends, names, files, failures, losses } = work;
    let mut items = Vec::new();
    for bytes in given {
        if let UnitWork::Items(more) = UnitWork::decode(&bytes)? {
            items.extend(more);
        }
        check_at_most(
            "the items that a unit gives away",
            items.iter().map(UnitItem::entries).sum(),
            STEP_UNITS_MAX * UNIT_ITEMS_MAX,
        )?;
    }
    let misread = |during: &'static str| {
        move |error: serde_json::Error| {
            hakobu_core::Error::new(hakobu_core::ErrorKind::Protocol, during, error.to_string())
        }
    };
    let counters: UnitCounters =
        serde_json::from_str(&counters).map_err(misread("reading the counters of a unit"))?;
    let losses = match &losses[..] {
        "" => RunLosses::default(),
        json => serde_json::from_str(json).map_err(misread("reading the losses of a unit"))?,
    };
    if planted("given-units-lost") {
        items.clear();
    }
    Ok(UnitResult {
        children: divided(items, units),
        counters: counters.of_broker(),
        open_directories: ends.into_iter().map(TryInto::try_into).collect::<Result<_>>()?,
        open_files: files.into_iter().map(TryInto::try_into).collect::<Result<_>>()?,
        link_names: names.into_iter().map(TryInto::try_into).collect::<Result<_>>()?,
        failures: failures.into_iter().map(Into::into).collect(),
        losses,
    })
}

/// The number of bytes of paths in one unit that is not exceeded much.
const UNIT_PATH_BYTES: usize = 256 << 10;

/// The number of files in slices of directories that make a unit: some seconds of work for whoever is slow.
const UNIT_SLICED_FILES: usize = 2_000;

/// Divides items into about so many units, each of neighbours. Units with slices of directories have no whole ones. Each range of
/// a file is a unit.
fn divided(items: Vec<UnitItem>, units: usize) -> Vec<UnitWork> {
    let (ranges, items): (Vec<_>, Vec<_>) = items.into_iter().partition(UnitItem::is_range);
    let (whole, slices): (Vec<_>, Vec<_>) = items.into_iter().partition(|item| item.part == ItemPart::Whole);
    let mut divided = divided_up_to(whole, units, UNIT_ITEMS_MAX / 4);
    divided.extend(divided_up_to(slices, units, UNIT_SLICED_FILES));
    divided.extend(ranges.into_iter().map(|range| UnitWork::Items(vec![range])));
    divided
}

fn divided_up_to(items: Vec<UnitItem>, units: usize, each_max: usize) -> Vec<UnitWork> {
    let each = items.iter().map(UnitItem::entries).sum::<usize>().div_ceil(units.max(1)).clamp(1, each_max);
    let mut divided: Vec<Vec<UnitItem>> = Vec::new();
    let (mut entries, mut bytes) = (0, 0);
    for item in items {
        let is_full = entries + item.entries() > each || bytes >= UNIT_PATH_BYTES;
        if divided.is_empty() || entries > 0 && is_full {
            divided.push(Vec::new());
            (entries, bytes) = (0, 0);
        }
        (entries, bytes) = (entries + item.entries(), bytes + item.bytes());
        if let Some(last) = divided.last_mut() {
            last.push(item);
        }
    }
    divided.into_iter().map(UnitWork::Items).collect()
}

#[cfg(test)]
mod tests {
    use hakobu_core::path::EntryPath;

    use super::*;

    #[test]
    fn bottlenecks_that_nobody_knows_are_not_shown() {
        assert_eq!(known_bottleneck("source read"), "source read");
        assert_eq!(known_bottleneck("<b>"), "");
    }

    #[test]
    fn given_work_is_divided_among_slots() {
        let items = |count: usize| {
            (0..count)
                .map(|at| UnitItem::whole(0, EntryPath::new(format!("d{at}")).unwrap()))
                .collect::<Vec<_>>()
        };
        let sizes = |count, units| {
            divided(items(count), units)
                .iter()
                .map(|work| match work {
                    UnitWork::Items(items) => items.len(),
                    _ => 0,
                })
                .collect::<Vec<_>>()
        };
        assert!(sizes(0, 4).is_empty());
        assert_eq!(sizes(3, 8), [1, 1, 1]);
        assert_eq!(sizes(9, 4), [3, 3, 3]);
        assert_eq!(sizes(10, 4), [3, 3, 3, 1]);
        assert!(sizes(100_000, 1).iter().all(|size| *size <= UNIT_ITEMS_MAX));
        let slice = |count: usize| {
            let part = ItemPart::Names((0..count).map(|at| format!("f{at}").into_bytes()).collect());
            UnitItem { part, ..UnitItem::whole(0, EntryPath::new("d").unwrap()) }
        };
        let files = |items: Vec<UnitItem>, units| {
            let entries = |work: &UnitWork| match work {
                UnitWork::Items(items) => items.iter().map(UnitItem::entries).sum::<usize>(),
                _ => 0,
            };
            divided(items, units).iter().map(entries).collect::<Vec<_>>()
        };
        assert_eq!(files(vec![slice(250); 40], 2), [2000; 5]);
        assert_eq!(files(vec![slice(250); 4], 2), [500; 2]);
        let mixed = [items(3), vec![slice(250); 2], items(1)].concat();
        assert_eq!(files(mixed, 2), [2, 2, 250, 250]);
    }
}
