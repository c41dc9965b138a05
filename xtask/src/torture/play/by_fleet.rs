//! Steps that a fleet carries out. The state, the failures and the counters of a run are turned into the exit code and
//! the report of a command, as far as a fleet promises them.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use serde_json::{Value, json};

use super::super::base64::to_base64;
use super::super::check::{self, Proof, Violation};
use super::super::command::{CommandResult, DEADLINE};
use super::super::environment::fleet::faults::FleetFault;
use super::super::environment::fleet::run::{FleetOrder, FleetRunResult};
use super::super::fleet_step::FleetStep;
use super::super::model::Name;
use super::super::promise::Promise;
use super::super::select::Selection;
use super::super::step::{Shape, Step, StepVerb};
use super::super::walk::Snapshot;
use super::{PlayState, StepScope, locations};

impl PlayState<'_> {
    /// Has the fleet carry out a step.
    pub(super) fn run_by_fleet(&mut self, step: &Step, part: &FleetStep) -> anyhow::Result<CommandResult> {
        self.runs += 1;
        let places = locations(step, &self.directories.shown_source(), &self.directories.target);
        let [source, target] = &places[..] else { anyhow::bail!("a fleet has a source and a target") };
        let arguments: Vec<String> =
            step.options(Path::new("")).iter().map(|word| word.to_string_lossy().into_owned()).collect();
        let request = json!({
            "verb": step.verb.word(),
            "sources": [typed_bytes(source)],
            "target": typed_bytes(target),
            "arguments": arguments,
            "verify": part.verify,
        });
        let fault = part.fault.as_ref();
        let order = FleetOrder { request, slow: part.slow, fault, deadline: DEADLINE };
        let plant = self.options.plant.clone();
        let ran = self.pool.fleet(plant.as_deref()).and_then(|fleet| fleet.run(&order));
        let ran = match ran {
            Ok(ran) => ran,
            Err(error) => {
                self.pool.drop_fleet();
                return Err(error.context("the fleet"));
            }
        };
        if ran.view.is_null() || !ran.ended.is_empty() {
            self.pool.drop_fleet();
        }
        self.note(part, &ran);
        if fault.is_some_and(FleetFault::kills) && ran.took_place {
            // Marks of a run that flushes nothing stay, as after another kill.
            self.had_kill = true;
            self.killed_at.insert(self.side(step).join(match &step.shape {
                Shape::OneFile(_) => "one",
                Shape::Directory => "target/source",
                Shape::Contents => "target",
            }));
        }
        Ok(told(&order, &ran))
    }

    /// Counts a run, its phases and its fault.
    fn note(&self, part: &FleetStep, ran: &FleetRunResult) {
        use std::sync::atomic::Ordering::Relaxed;
        let units = match ran.brokers.len() {
            0 => "units too short to be seen",
            1 => "units of one broker",
            _ => "units of several brokers",
        };
        self.counts.note(&format!("fleet runs with {units}"));
        for phase in ran.phases.iter().filter(|phase| *phase != "ended") {
            self.counts.note(&format!("fleet runs seen in phase {phase}"));
        }
        if let Some(fault) = part.fault.as_ref().filter(|_| ran.took_place) {
            self.counts.faults.fetch_add(1, Relaxed);
            self.counts.kills.fetch_add(u64::from(fault.kills()), Relaxed);
            self.counts.note(&format!("fault {}", fault.name()));
        }
    }

    /// Returns the permitted exit codes of a step. A comparison at the end makes failures of differences, such as content
    /// that differs in files of equal size and time. Entries that only the target has are none after a copy. It is not promised
    /// what a directory is that is left by a `sync` because rules protect something in it.
    pub(super) fn codes(&self, scope: &StepScope<'_>, after: &Snapshot, promise: &Promise) -> BTreeSet<i32> {
        let verifies = scope.step.fleet.as_ref().is_some_and(|part| part.verify);
        if !verifies || !promise.codes.contains(&0) {
            return promise.codes.clone();
        }
        let verify = scope.step.as_verify();
        let able = self.abilities_of(&verify);
        let differences = check::differences(&verify, &scope.source, after, &able);
        let is_same = differences.values().flatten().all(|what| *what == "only_in_target");
        match is_same {
            false => [3].into(),
            true if differences.is_empty() || scope.step.verb == StepVerb::Copy => [0].into(),
            true => [0, 3].into(),
        }
    }

    /// Returns the violations of the counters of a run that has ended complete: "it is counted once", whatever happened
    /// to brokers.
    pub(super) fn fleet_counts(&self, scope: &StepScope<'_>, ran: &CommandResult) -> Vec<Violation> {
        if scope.step.fleet.is_none() || ran.code != Some(0) {
            return Vec::new();
        }
        let select = Selection::of(scope.step);
        let mut blocked: Vec<&Name> = Vec::new();
        let mut expected = 0;
        for path in scope.source.keys() {
            if blocked.iter().any(|above| path.is_below(above)) {
                continue;
            }
            if select.takes(path, &scope.source) {
                expected += 1;
            } else {
                blocked.push(path);
            }
        }
        let counted = ["created", "updated", "unchanged", "attributes_only"]
            .map(|name| ran.report["entries"][name].as_u64().unwrap_or(0));
        let sum: u64 = counted.iter().sum();
        let words = format!("{expected} entries take part, and {sum} are counted: {}", ran.report["entries"]);
        (sum != expected).then(|| Violation::of_run("counters", words, Proof::Words)).into_iter().collect()
    }
}

/// Returns a location as the interface takes it.
fn typed_bytes(location: &OsStr) -> Value {
    match location.to_str() {
        Some(text) => json!(text),
        None => json!({ "base64": to_base64(location.as_bytes()) }),
    }
}

/// Returns the run as if a command had done it.
fn told(order: &FleetOrder<'_>, ran: &FleetRunResult) -> CommandResult {
    let error = ran.report["error"].as_str().unwrap_or_default();
    let hung = ran.view.is_null();
    let code = match ran.view["state"].as_str() {
        // A process that has ended by itself is a crash, whatever the others made of it.
        _ if !ran.ended.is_empty() => None,
        Some("complete") => Some(0),
        Some("partial") => Some(3),
        Some("failed") if error.starts_with("deleting in ") => Some(6),
        Some("failed") => Some(1),
        _ => None,
    };
    let outcome = match code {
        Some(0) => "done",
        Some(3) => "partial",
        Some(6) => "refused",
        _ => "failed",
    };
    let counters = &ran.view["counters"];
    let count = |name: &str| counters[format!("entries_{name}")].clone();
    let entries: serde_json::Map<String, Value> =
        ["created", "updated", "unchanged", "attributes_only", "deleted"]
            .into_iter()
            .map(|name| (name.to_owned(), count(name)))
            .chain([("failed".to_owned(), ran.view["failures"].clone())])
            .collect();
    let failures: Vec<Value> = ran
        .failures
        .iter()
        .map(|failure| match failure["path"].as_str() {
            Some(path) => json!({ "path": path }),
            None => json!({ "path_base64": failure["path"]["base64"] }),
        })
        .collect();
    let mut errors = String::new();
    for name in &ran.ended {
        errors.push_str(&format!("{name} has ended by itself\n"));
    }
    for failure in ran.failures.iter().take(20) {
        errors.push_str(&format!("entry failed: {failure}\n"));
    }
    errors.push_str(&format!("{}\n{error}\n{}", ran.view, ran.log));
    let report = if code.is_none() {
        Value::Null
    } else {
        json!({
            "exit_code": code,
            "outcome": outcome,
            "entries": entries,
            "failures": failures,
            "error": if error.is_empty() { Value::Null } else { json!(error) },
        })
    };
    let mut typed: OsString = format!("a run of a fleet: {}", order.request).into();
    if let Some((operations, ms)) = order.slow {
        typed.push(format!(" # {operations} operations/s for {ms} ms"));
    }
    if let Some(fault) = order.fault {
        typed.push(format!(" # with {fault:?}"));
    }
    CommandResult {
        typed: typed.to_string_lossy().into_owned(),
        code,
        hung,
        output: Vec::new(),
        errors,
        report,
        took_place: ran.took_place,
        injected: 0,
        strayed: Vec::new(),
    }
}
