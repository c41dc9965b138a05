//! Checks the lists of changes of a run: `--itemize`, `--json`, `--log-file`, and the report's deletions.

use super::super::check::{Proof, Violation};
use super::super::command::{CommandResult, path_in};
use super::super::environment::faults::Fault;
use super::super::itemization::{self, ListedChange, ListedTarget};
use super::super::model::Name;
use super::super::step::{Shape, Step};
use super::super::walk::{SeenEntry, Snapshot};
use super::PlayState;

/// The promise of the lists of a run.
#[derive(Clone, Copy, Debug)]
pub enum ListPromise<'a> {
    /// All changes are listed, and nothing else.
    Complete,
    /// Everything listed took place. What was not confirmed before the run ended early may be missing.
    Truthful,
    /// Everything listed took place, apart from these entries, which a fault has changed.
    Disturbed(&'a [Name]),
}

impl PlayState<'_> {
    /// Returns the violations of the lists of a run.
    pub(super) fn lists(
        &self,
        step: &Step,
        (before, after): (&Snapshot, &Snapshot),
        ran: &CommandResult,
        promise: ListPromise<'_>,
    ) -> anyhow::Result<Vec<Violation>> {
        // Some file systems show entries that were not touched as changed. A fleet makes no lists.
        if !step.writes() || self.able.loose || step.fleet.is_some() {
            return Ok(Vec::new());
        }
        let is_complete = matches!(promise, ListPromise::Complete);
        let is_disturbed = matches!(promise, ListPromise::Disturbed(_));
        let target = ListedTarget { before, after, is_disturbed };
        // An entry that failed may have changed, and the directories above it are not done.
        let failures: Vec<Name> = failures(step, ran);
        let failed = |path: &Name| failures.iter().any(|failure| is_kin(path, failure));
        let loses = loses_attributes(ran);
        // A killed run has no report that counts them. An entry with extended attributes may be one that lacks another. One that
        // cannot be read for a moment makes the entry look different, and the same attributes are set again.
        let fails_to_read =
            matches!(&step.fault, Some(Fault::Inject { calls, .. }) if calls.contains("getxattr"));
        let may_lack = |change: &ListedChange| {
            let has_some = |(name, seen): (&Name, &SeenEntry)| change.names(name) && !seen.xattrs.is_empty();
            is_disturbed && (ran.report.is_null() || fails_to_read) && before.iter().any(has_some)
        };
        let mut wrong = Vec::new();
        let mut judge = |list: &[ListedChange], deletions_only: bool| {
            let of_target: Vec<ListedChange> = list
                .iter()
                .filter_map(|change| within(step, change))
                .filter(|change| !is_touched(change, promise))
                .collect();
            let is_tried =
                |change: &ListedChange| change.action == "attributes" && (loses || may_lack(change));
            let done: Vec<_> = of_target.iter().filter(|change| !is_tried(change)).cloned().collect();
            wrong.extend(target.untrue(&done));
            if is_complete {
                let unlisted = target.unlisted(&of_target, deletions_only);
                let is_failed = |violation: &Violation| violation.path.as_ref().is_some_and(&failed);
                wrong.extend(unlisted.into_iter().filter(|violation| !is_failed(violation)));
            }
        };
        let mut printed = None;
        let mut violations = Vec::new();
        if step.itemize {
            // A killed program may leave half a line.
            let end = if is_disturbed {
                ran.output.iter().rposition(|byte| *byte == b'\n').map_or(0, |last| last + 1)
            } else {
                ran.output.len()
            };
            let output = &ran.output[..end];
            let is_quiet = step.manner.iter().any(|option| option == "--quiet");
            let (list, malformed) = if step.json {
                itemization::of_events(output)
            } else {
                itemization::of_lines(output, is_quiet)
            };
            self.counts.note("list itemize");
            judge(&list, false);
            violations.extend(malformed);
            printed = Some(list);
        }
        if step.log {
            let (list, malformed) = self.log(ran)?;
            self.counts.note("list log file");
            judge(&list, false);
            violations.extend(malformed);
            if let Some(printed) = &printed {
                violations.extend(is_complete.then(|| differences(printed, &list)).flatten());
            }
            printed = Some(list);
        }
        if !ran.report.is_null() && !is_disturbed {
            let deletions = ran.report["deletions"].as_array().into_iter().flatten();
            let deletions: Vec<ListedChange> =
                deletions.map(|it| ListedChange::of_bytes("delete", path_in(it))).collect();
            judge(&deletions, true);
            let counted = ran.report["entries"]["deleted"].as_u64().unwrap_or(0);
            if deletions.len() as u64 != counted {
                let words = format!("{counted} deletions are counted, and {} are named", deletions.len());
                violations.push(Violation::of_run("lists", words, Proof::Words));
            }
        }
        if let Some(list) = printed.filter(|_| is_complete) {
            violations.extend(miscounted(ran, &list));
        }
        wrong.extend(violations);
        Ok(wrong)
    }

    /// Returns the list in the log of the last run, and what is wrong with the log itself.
    fn log(&self, ran: &CommandResult) -> anyhow::Result<(Vec<ListedChange>, Vec<Violation>)> {
        let bytes = match std::fs::read(self.log_file()) {
            // A run that ends before it opens the log leaves none.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound && ran.code != Some(0) => Vec::new(),
            result => result?,
        };
        let (log, mut wrong) = itemization::of_log(&bytes);
        let mut say = |words: String| wrong.push(Violation::of_run("lists", words, Proof::Words));
        if ran.code == Some(0) && !log.has_started {
            say("the log does not say that the run started".to_owned());
        }
        if let Some(code) = ran.code.filter(|_| log.has_started) {
            match &log.finished {
                None => say(format!("the exit code is {code}, and the log does not say that the run ended")),
                // Where its last line could not be brought to the medium, the log cannot say so.
                Some(_) if ran.fails_to_write("the log") => {}
                Some(words) if !words.contains(&format!("exit code {code}:")) => {
                    say(format!("the exit code is {code}, and the log says: {words}"));
                }
                Some(_) => {}
            }
        }
        Ok((log.list, wrong))
    }
}

/// Returns a listed change with its path below the target of the step, or `None` if it is beside.
fn within(step: &Step, change: &ListedChange) -> Option<ListedChange> {
    match &step.shape {
        Shape::Contents => Some(change.clone()),
        // The target around the directory is not inspected.
        Shape::Directory => change.below("source"),
        Shape::OneFile(_) => change.below("one").or_else(|| change.below("")),
    }
}

/// Returns the paths of entries that have failed.
fn failures(step: &Step, ran: &CommandResult) -> Vec<Name> {
    let failures = ran.report["failures"].as_array().into_iter().flatten().map(path_in);
    let below = |path: Name| match &step.shape {
        Shape::Directory => {
            let rest = path.0.strip_prefix(b"source/").map(<[u8]>::to_vec);
            rest.map_or(path, Name)
        }
        Shape::OneFile(_) => Name::default(),
        Shape::Contents => path,
    };
    failures.map(below).collect()
}

/// Returns true if one path is the other, or is above or below it.
fn is_kin(one: &Name, other: &Name) -> bool {
    one == other || one.is_below(other) || other.is_below(one)
}

fn is_touched(change: &ListedChange, promise: ListPromise<'_>) -> bool {
    let ListPromise::Disturbed(touched) = promise else { return false };
    let path = change.path.clone().unwrap_or_else(|| Name(change.key.clone().into_bytes()));
    touched.iter().any(|other| is_kin(&path, other))
}

/// Returns true if the target could not keep an attribute. Each run then tries to set it again, and lists the entry.
fn loses_attributes(ran: &CommandResult) -> bool {
    let mut losses = ran.report["losses"].as_array().into_iter().flatten();
    losses.any(|loss| {
        ["xattr", "acl", "owner", "setid", "flags"].contains(&loss["what"].as_str().unwrap_or(""))
    })
}

/// Returns a violation if two lists of one run are not the same.
fn differences(printed: &[ListedChange], logged: &[ListedChange]) -> Option<Violation> {
    let sorted = |list: &[ListedChange]| {
        let mut lines: Vec<(String, String)> =
            list.iter().map(|change| (change.action.clone(), change.key.clone())).collect();
        lines.sort();
        lines
    };
    let words = format!("{} changes are printed, and {} others are logged", printed.len(), logged.len());
    (sorted(printed) != sorted(logged)).then(|| Violation::of_run("lists", words, Proof::Words))
}

/// Returns a violation if the report counts other numbers than are listed.
fn miscounted(ran: &CommandResult, list: &[ListedChange]) -> Option<Violation> {
    let entries = &ran.report["entries"];
    let counted = |names: &[&str]| names.iter().filter_map(|name| entries[*name].as_u64()).sum::<u64>();
    let listed = |deleted: bool, attributes: bool| {
        let of = |change: &&ListedChange| {
            ((change.action == "delete"), (change.action == "attributes")) == (deleted, attributes)
        };
        list.iter().filter(of).count() as u64
    };
    let pairs = [
        (listed(false, false), counted(&["created", "updated"])),
        (listed(false, true), counted(&["attributes_only"])),
        (listed(true, false), counted(&["deleted"])),
    ];
    let words = format!("listed and counted entries differ (made, attributes, deleted): {pairs:?}");
    let differs = !ran.report.is_null() && pairs.iter().any(|(listed, counted)| listed != counted);
    differs.then(|| Violation::of_run("lists", words, Proof::Words))
}
