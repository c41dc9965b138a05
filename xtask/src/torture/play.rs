//! Plays a history: creates its trees, mutates them, runs hakobu, and compares each step with its promise.

mod by_fleet;
mod lists;
mod little_space;
mod lost_sidecars;
mod marks;
mod read_only;
mod repetition;
mod store_faults;

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use super::abilities::Abilities;
use super::check::{self, Proof, Violation};
use super::command::{self, CommandResult};
use super::counts::Counts;
use super::environment::faults::Fault;
use super::file_systems::{HistoryDirectories, Pool};
use super::history::{History, HistoryEvent};
use super::model::Name;
use super::mutate_objects::{ObjectTree, subtree};
use super::promise::{self, Promise};
use super::realize::realize;
use super::route::Route;
use super::select::Selection;
use super::space::SpaceOutlook;
use super::step::{Shape, Step, StepVerb};
use super::walk::{self, SeenEntry, Snapshot, walk};
use super::{generate, known_violations, mutate};
use lists::ListPromise;
use marks::{is_blank_mark, is_mark, keeps_marks};

/// The context that all histories share.
#[derive(Clone, Debug)]
pub struct PlayOptions {
    /// The program under test.
    pub program: PathBuf,
    /// True if directories are kept.
    pub keep: bool,
    /// A fault to plant, in a program that was built for it.
    pub plant: Option<String>,
}

/// The failure of a history.
#[derive(Clone, Debug)]
pub struct HistoryFailure {
    /// The index of the event in which it was noticed.
    pub event: usize,
    /// The violations.
    pub violations: Vec<Violation>,
    /// The command, its exit code and its output.
    pub said: String,
}

/// Plays a history from its beginning, and returns the first failure.
pub fn play(
    history: &History,
    options: &PlayOptions,
    pool: &mut Pool,
    counts: &Counts,
) -> anyhow::Result<Option<HistoryFailure>> {
    let played = play_in(history, options, pool, counts);
    if !matches!(played, Ok(None)) {
        pool.forget(&history.setting);
    }
    // That says nothing about hakobu.
    match pool.drop_ended_stores() {
        Some(words) if !matches!(played, Ok(None)) => anyhow::bail!(words),
        _ => played,
    }
}

fn play_in(
    history: &History,
    options: &PlayOptions,
    pool: &mut Pool,
    counts: &Counts,
) -> anyhow::Result<Option<HistoryFailure>> {
    if history.setting.route.is_remote() {
        pool.hosts()?;
    }
    let directories = HistoryDirectories::new(&history.setting, pool, options.keep)?;
    realize(&history.source, &directories.true_source.join("source"))?;
    match (&history.target, directories.objects(&history.setting, pool, false, b"target")) {
        (None, _) => {}
        (Some(tree), Some(objects)) => objects.realize(tree)?,
        (Some(tree), None) => realize(tree, &directories.true_target.join("target"))?,
    }
    let able = history.setting.abilities();
    let mut state = PlayState {
        history,
        options,
        pool,
        counts,
        able,
        directories,
        runs: 0,
        stale: true,
        drafts: BTreeSet::new(),
        out_of_reach: BTreeSet::new(),
        cut: false,
        had_cut: false,
        took_place: false,
        had_kill: false,
        killed_at: BTreeSet::new(),
        before_cut: Snapshot::new(),
        after_cut: Snapshot::new(),
        cut_target_path: PathBuf::new(),
    };
    for (event, happens) in history.events.iter().enumerate() {
        match happens {
            HistoryEvent::Source(mutation) => {
                mutate::apply(mutation, &state.directories.true_source.join("source"))?;
                state.stale = true;
            }
            HistoryEvent::Target(mutation) => match state.objects(false) {
                Some(objects) => objects.apply(mutation)?,
                None => mutate::apply(mutation, &state.directories.true_target.join("target"))?,
            },
            HistoryEvent::Space(headroom) => headroom.make(&state.directories.true_target)?,
            HistoryEvent::Run(step) | HistoryEvent::Interrupted(step) => {
                let again = matches!(happens, HistoryEvent::Run(_));
                if let Some((violations, said)) = state.act(step, again)? {
                    return Ok(Some(HistoryFailure { event, violations, said }));
                }
            }
        }
    }
    counts.histories.fetch_add(1, Ordering::Relaxed);
    counts.note(&history.setting.route.name());
    for name in history.setting.names() {
        counts.note(&name);
    }
    Ok(None)
}

/// The state of a history while it is played.
struct PlayState<'a> {
    history: &'a History,
    options: &'a PlayOptions,
    pool: &'a mut Pool,
    counts: &'a Counts,
    able: Abilities,
    directories: HistoryDirectories,
    runs: usize,
    /// True if the image of a read-only source is older than the source.
    stale: bool,
    /// Drafts that interrupted runs have left.
    drafts: BTreeSet<Name>,
    /// Those in directories that the step leaves out. They may stay.
    out_of_reach: BTreeSet<Name>,
    /// The target before the last power cut.
    before_cut: Snapshot,
    /// The target after the last power cut.
    after_cut: Snapshot,
    /// The target of the run during which the power was cut.
    cut_target_path: PathBuf,
    /// True if the power was cut after the last successful run.
    cut: bool,
    /// True if the power was ever cut.
    had_cut: bool,
    /// True if the last fault took place before the run had ended.
    took_place: bool,
    /// True if a run was ever killed.
    had_kill: bool,
    /// The targets of runs with a fault or with too little space.
    killed_at: BTreeSet<PathBuf>,
}

/// The violations of a step and hakobu's output, or `None`.
type StepOutcome = Option<(Vec<Violation>, String)>;

/// Returns true if a run that writes has ended without a failure, whatever its fault has done.
fn step_ended_well(scope: &StepScope<'_>, ran: &CommandResult) -> bool {
    scope.step.writes() && ran.code == Some(0)
}

/// A step, the part of the source that it is about, and the path of that part at the target.
struct StepScope<'s> {
    step: &'s Step,
    source: Snapshot,
    target_path: PathBuf,
    /// The target before the step, without leftovers of interrupted runs.
    before: Snapshot,
    /// Leftovers of interrupted runs. They do not take part, and the next run that writes deletes them.
    left: Snapshot,
}

impl StepScope<'_> {
    /// Returns the violations after a run that does not write. Even leftovers must not change.
    fn changed(&self, after: &Snapshot, kind: &'static str) -> Vec<Violation> {
        let mut before = self.before.clone();
        before.extend(self.left.iter().map(|(path, entry)| (path.clone(), entry.clone())));
        check::unchanged(&before, after, kind)
    }
}

impl PlayState<'_> {
    /// Returns the objects of a side's tree, if it is a store.
    fn objects(&self, is_source: bool) -> Option<ObjectTree> {
        let tree: &[u8] = if is_source { b"source" } else { b"target" };
        self.directories.objects(&self.history.setting, self.pool, is_source, tree)
    }

    /// Returns the capabilities of the target and the transport of a step.
    fn abilities_of(&self, step: &Step) -> Abilities {
        Abilities { left_out: self.history.left_out(), ..self.history.setting.abilities_of(step) }
    }

    /// Plays one step. After a fault, if `again`, repeats the command without it, which must repair everything.
    fn act(&mut self, step: &Step, again: bool) -> anyhow::Result<StepOutcome> {
        if self.stale && self.history.setting.source_is_image() {
            self.directories.make_image(&self.history.setting)?;
            self.stale = false;
        }
        if self.stale && self.history.setting.source_store().is_some() {
            if let Some(wrong) = self.upload_source()? {
                return Ok(Some(wrong));
            }
            self.stale = false;
        }
        self.out_of_reach.clear();
        self.able = self.abilities_of(step);
        let Some(mut scope) = self.scope(step)? else { return Ok(None) };
        // Leftovers of interrupted runs must be deleted.
        (scope.left, scope.before) =
            scope.before.into_iter().partition(|(path, _)| self.drafts.contains(path));
        if step.writes() {
            let selection = Selection::of(step);
            let is_left_out = |path: &Name| {
                path.parent().is_some_and(|directory| !selection.takes(&directory, &scope.source))
            };
            self.out_of_reach = scope.left.keys().filter(|path| is_left_out(path)).cloned().collect();
        }
        let setting = &self.history.setting;
        let spoiled = setting.spoils_reading() || setting.spoils_writing();
        let names: BTreeSet<Name> = scope.before.keys().chain(scope.source.keys()).cloned().collect();
        let is_draft = |path: &Name| generate::is_draft(path.base()) && !names.contains(path);
        if step.fault.is_none() {
            // A power cut casts doubt only on the path that its run wrote to. Over SFTP it casts none, since each file
            // is brought to stable storage before it gets its name.
            let was_cut = std::mem::take(&mut self.cut) && self.cut_target_path == scope.target_path;
            let trusting = !was_cut || setting.route.is_sftp();
            let outlook = self.outlook(&scope)?;
            let has_enough = outlook == Some(SpaceOutlook::Enough) && !setting.spoils_reading();
            if !spoiled || has_enough || step.verb == StepVerb::Digest {
                return self.step(&scope, trusting);
            }
            let wrong = self.spoiled(&scope, outlook)?;
            self.drafts.extend(self.at(&scope.target_path)?.into_keys().filter(is_draft));
            return Ok(wrong);
        }
        if let Some(wrong) = self.with_fault(&scope)? {
            return Ok(Some(wrong));
        }
        self.drafts.extend(self.at(&scope.target_path)?.into_keys().filter(is_draft));
        if matches!(step.fault, Some(Fault::PowerCut { .. })) && self.took_place {
            // A run that flushes nothing leaves no mark, so the next run trusts size and time.
            let is_undurable = step.manner.iter().any(|option| option.starts_with("--durable"));
            (self.cut, self.had_cut) = (!is_undurable, true);
            (self.before_cut, self.cut_target_path) = (scope.before.clone(), scope.target_path.clone());
            self.after_cut = self.at(&scope.target_path)?;
        }
        if !again {
            return Ok(None);
        }
        self.act(&Step { fault: None, ..step.clone() }, true)
    }

    fn scope<'s>(&self, step: &'s Step) -> anyhow::Result<Option<StepScope<'s>>> {
        let whole = self.seen(step)?;
        let side = self.side(step);
        let (source, target_path) = match &step.shape {
            Shape::OneFile(path) => match whole.get(path) {
                Some(entry) if entry.is_file() => (
                    Snapshot::from([(Name::default(), SeenEntry { links: 1, ..entry.clone() })]),
                    side.join("one"),
                ),
                _ => return Ok(None),
            },
            Shape::Directory => (whole, side.join("target/source")),
            _ => (whole, side.join("target")),
        };
        // No object is below a prefix that nothing was copied to, or it is no directory.
        let is_missing =
            source.get(&Name::default()).is_none_or(|root| step.from_store && !root.is_directory());
        if Selection::of(step).is_vague(&source) || is_missing {
            return Ok(None);
        }
        let before = self.at(&target_path)?;
        // The documents leave open what happens if the target itself is of the wrong kind.
        let odd = before
            .get(&Name::default())
            .is_some_and(|entry| entry.is_directory() == matches!(step.shape, Shape::OneFile(_)));
        Ok((!odd).then_some(StepScope { step, source, target_path, before, left: Snapshot::new() }))
    }

    /// Returns a snapshot of a path at the target.
    fn at(&self, target_path: &Path) -> anyhow::Result<Snapshot> {
        let mut seen = self.history.setting.target_as_seen(self.look(target_path)?);
        // A mark stays until its job has inspected everything, and is not part of the tree (design 0014). A mark whose
        // run was killed before it named its job stays until any job has. If nothing is flushed, no run settles it.
        let is_undurable = |event: &HistoryEvent| {
            matches!(event, HistoryEvent::Run(step) | HistoryEvent::Interrupted(step)
                if step.manner.iter().any(|option| option.starts_with("--durable")))
        };
        let unsettled = self.had_cut || self.had_kill && self.history.events.iter().any(is_undurable);
        let stays = |path: &Path| unsettled && is_mark(path) || self.had_kill && is_blank_mark(path);
        seen.retain(|path, _| !stays(&path.below(target_path)) && !self.out_of_reach.contains(path));
        if self.had_kill && !self.killed_at.contains(target_path) {
            // Any run removes drafts of runs to other paths from the directories that it writes to.
            seen.retain(|path, _| !generate::is_draft(path.base()));
        }
        // Drafts below a path within this one may stay or go: a run looks through directories that only the target has
        // where listings are asked for ahead, as over a network.
        let within = |path: &Path| {
            self.killed_at.iter().any(|other| {
                other != target_path && other.starts_with(target_path) && path.starts_with(other)
            })
        };
        seen.retain(|path, _| !(generate::is_draft(path.base()) && within(&path.below(target_path))));
        if self.history.setting.route == Route::PushSftp {
            // Over SFTP a draft with its final attributes cannot be recognized as one until it is renamed.
            seen.retain(|path, entry| {
                !(self.had_kill && generate::is_draft(path.base()) && entry.mode & 0o7777 != 0o600)
            });
        }
        if self.history.setting.keeps_young_leftovers() {
            // A killed run may also have left a probe file next to its target, which is not a draft of a later run's
            // target.
            let stays =
                |path: &Name| self.drafts.contains(path) || self.had_kill && generate::is_draft(path.base());
            seen.retain(|path, _| !stays(path));
        }
        Ok(seen)
    }

    /// Returns violations for the marks without content that are left after a run that inspected everything "without
    /// filters and without failures".
    fn marks_left(&self, scope: &StepScope<'_>, ran: &CommandResult) -> anyhow::Result<Vec<Violation>> {
        let step = scope.step;
        let is_whole = step.rules.is_empty() && step.files_from.is_none() && step.sizes.is_none();
        let is_durable = !step.manner.iter().any(|option| option.starts_with("--durable"));
        let is_tree = !matches!(step.shape, Shape::OneFile(_));
        if !(self.had_kill && is_whole && is_durable && is_tree && ran.code == Some(0)) {
            return Ok(Vec::new());
        }
        let mut found = self.look(&scope.target_path)?;
        // A directory that the source lacks is not listed.
        let is_looked_into =
            |path: &Name| path.parent().is_some_and(|directory| scope.source.contains_key(&directory));
        found.retain(|path, _| {
            !scope.source.contains_key(path)
                && is_looked_into(path)
                && is_blank_mark(&path.below(&scope.target_path))
        });
        let words = "a mark without content, after a run that looked at everything";
        Ok(found.keys().map(|path| Violation::at("leftover", path, words, Proof::Absent)).collect())
    }

    /// Returns the source of a step as its file system and the transport show it.
    fn seen(&self, step: &Step) -> anyhow::Result<Snapshot> {
        if step.from_store {
            return self.look(&self.directories.true_target.join("target"));
        }
        if let Some(objects) = self.objects(true) {
            self.wait_until_quiet();
            return Ok(subtree(objects.walk()?, &objects.tree));
        }
        Ok(self.history.setting.as_seen(walk(&self.directories.seen_source())?))
    }

    /// Returns the side that a step writes to.
    fn side(&self, step: &Step) -> &Path {
        if step.from_store { &self.directories.back } else { &self.directories.true_target }
    }

    /// Returns a snapshot of a path of the target's side, or of what a store was copied back to.
    fn look(&self, path: &Path) -> anyhow::Result<Snapshot> {
        match (self.objects(false), path.strip_prefix(&self.directories.true_target)) {
            (Some(objects), Ok(below)) => {
                self.wait_until_quiet();
                Ok(subtree(objects.walk()?, &Name(below.as_os_str().as_bytes().to_vec())))
            }
            _ => walk(path),
        }
    }

    /// Waits until the servers have done all that they were asked for.
    fn wait_until_quiet(&self) {
        let setting = &self.history.setting;
        let stores = [setting.source_store(), setting.target_store()].into_iter().flatten();
        for store in stores.filter_map(|kind| self.pool.started_store(kind)) {
            store.proxy.wait_until_quiet();
        }
    }

    fn promise(&self, scope: &StepScope<'_>, ran: &CommandResult, trusting: bool) -> Promise {
        let mut promise = promise::of(scope.step, &scope.source, &scope.before, &self.able, ran.code);
        if matches!(scope.step.shape, Shape::OneFile(_)) {
            promise::of_one_file(scope.step, &scope.before, &self.able, &mut promise);
        }
        if !trusting {
            // After a power cut the next run compares by content. Content that was left alone before the cut may be
            // left alone again, and other names of the file may be linked to it. So may what others wrote after the cut:
            // a run that was cut off before its first name leaves no mark.
            let of = |path: &Name| scope.source.get(path).map(|entry| entry.inode);
            for (path, expected) in &mut promise.entries {
                let is_name = |other: &Name| other == path || of(path).is_some() && of(other) == of(path);
                let had = |snapshot: &Snapshot, kind: &walk::SeenKind| {
                    snapshot.iter().any(|(other, entry)| is_name(other) && entry.kind == *kind)
                };
                expected.or.retain(|kind| had(&self.before_cut, kind) || !had(&self.after_cut, kind));
            }
        }
        promise
    }

    /// Runs a step without a fault, then a verification and a second run. `trusting` is false if size and time must not
    /// be trusted.
    fn step(&mut self, scope: &StepScope<'_>, trusting: bool) -> anyhow::Result<StepOutcome> {
        let step = scope.step;
        let around = self.around(step)?;
        let ran = self.run(step)?;
        self.counts.steps.fetch_add(1, Ordering::Relaxed);
        let after = self.at(&scope.target_path)?;
        let mut wrong = ran.wrong();
        wrong.extend(self.beside(scope, &around)?);
        wrong.extend(self.fleet_counts(scope, &ran));
        match step.verb {
            _ if step.dry_run => {
                wrong.extend(scope.changed(&after, "plan"));
                let mut codes = self.promise(scope, &ran, true).codes;
                codes.insert(0);
                wrong.extend(code_as_promised(&ran, &codes));
            }
            StepVerb::Digest => {
                wrong.extend(self.digests(step, &scope.source, &ran)?);
                if !self.history.setting.spoils_reading() {
                    wrong.extend(code_as_promised(&ran, &[0].into()));
                }
            }
            StepVerb::Verify => {
                wrong.extend(scope.changed(&after, "verify wrote"));
                let mut after = after;
                after.retain(|path, _| !scope.left.contains_key(path));
                wrong.extend(self.verified(step, &scope.source, &after, &ran));
            }
            StepVerb::Copy | StepVerb::Sync => {
                let promise = self.promise(scope, &ran, trusting);
                wrong.extend(code_as_promised(&ran, &self.codes(scope, &after, &promise)));
                wrong.extend(check::target(&promise, &after));
                wrong.extend(check::renewed(&scope.before, &after));
                wrong.extend(self.marks_left(scope, &ran)?);
                wrong.extend(self.lists(step, (&scope.before, &after), &ran, ListPromise::Complete)?);
                let wrong = self.unknown(wrong);
                if !wrong.is_empty() {
                    return Ok(Some((wrong, ran.to_string())));
                }
                return self.again(scope, &after, &promise);
            }
        }
        let wrong = self.unknown(wrong);
        Ok((!wrong.is_empty()).then(|| (wrong, ran.to_string())))
    }

    /// Runs a step where parts of the source cannot be read or parts of the target cannot be written. Nothing under a
    /// final name may be wrong, and the exit code may be 0 only if everything is right.
    fn spoiled(
        &mut self,
        scope: &StepScope<'_>,
        outlook: Option<SpaceOutlook>,
    ) -> anyhow::Result<StepOutcome> {
        let around = match outlook {
            Some(outlook) => Some((outlook, self.around(scope.step)?)),
            None => None,
        };
        let ran = self.run(scope.step)?;
        // A run that ends for lack of space keeps the drafts of large files.
        self.killed_at.insert(scope.target_path.clone());
        self.counts.steps.fetch_add(1, Ordering::Relaxed);
        self.counts.faults.fetch_add(1, Ordering::Relaxed);
        let mut wrong = ran.wrong();
        wrong.extend(self.survived(scope, &ran, &[])?);
        let after = self.at(&scope.target_path)?;
        let lists = (&scope.before, &after);
        wrong.extend(self.lists(scope.step, lists, &ran, ListPromise::Truthful)?);
        if let Some((outlook, around)) = around {
            wrong.extend(self.beside(scope, &around)?);
            wrong.extend(self.spaced(scope, &ran, &after, outlook));
        }
        let wrong = self.unknown(wrong);
        Ok((!wrong.is_empty()).then(|| (wrong, ran.to_string())))
    }

    /// Runs a step with its fault.
    fn with_fault(&mut self, scope: &StepScope<'_>) -> anyhow::Result<StepOutcome> {
        let Some(fault) = &scope.step.fault else { return Ok(None) };
        if matches!(fault, Fault::PowerCut { .. }) {
            // The previous content must be on the disk, or the power cut erases it.
            rustix::fs::syncfs(std::fs::File::open(&self.directories.true_target)?)?;
        }
        let (ran, mut touched) = self.run_with(scope.step, fault)?;
        if matches!(fault, Fault::SourceChanges { .. } | Fault::StoreChanges { .. }) {
            // An entry that changed may have been copied in any of its versions.
            let now = self.seen(scope.step)?;
            touched.extend(
                scope
                    .source
                    .iter()
                    .filter(|(path, entry)| now.get(*path) != Some(*entry))
                    .map(|(path, _)| path.clone()),
            );
        }
        // A run may survive a kill, or a mark that it could not remove, and exit with 0.
        self.killed_at.insert(scope.target_path.clone());
        self.had_kill |= fault.kills() || matches!(fault, Fault::Inject { calls, .. } if keeps_marks(calls));
        self.counts.steps.fetch_add(1, Ordering::Relaxed);
        self.took_place = ran.took_place;
        if ran.took_place {
            self.counts.faults.fetch_add(ran.injected.max(1), Ordering::Relaxed);
            self.counts.kills.fetch_add(u64::from(fault.kills()), Ordering::Relaxed);
            self.counts.note(&format!("fault {}", fault.name()));
        }
        let mut wrong: Vec<Violation> = ran.wrong();
        // Killed programs write no report and end by a signal.
        if fault.kills() || matches!(fault, Fault::Interrupt { .. }) {
            wrong.retain(|violation| violation.words != "it ended by a signal");
            // It may have been killed after it wrote its report.
            wrong.retain(|violation| !violation.words.starts_with("the exit code is None"));
        }
        if matches!(fault, Fault::TargetDirectorySwapped { .. })
            && self.history.setting.route == Route::PushSftp
        {
            // An SFTP server follows symbolic links that are swapped in between.
            wrong.retain(|violation| violation.kind != "strayed");
        }
        // After a power cut, files under final names may be wrong until the same command has run again.
        if !matches!(fault, Fault::PowerCut { .. }) {
            wrong.extend(self.survived(scope, &ran, &touched)?);
            let after = self.at(&scope.target_path)?;
            let lists = ListPromise::Disturbed(&touched);
            wrong.extend(self.lists(scope.step, (&scope.before, &after), &ran, lists)?);
        }
        if step_ended_well(scope, &ran) && self.cut_target_path == scope.target_path {
            // It has compared the content. The next run trusts size and time again.
            self.cut = false;
        }
        let wrong = self.unknown(wrong);
        Ok((!wrong.is_empty()).then(|| (wrong, ran.to_string())))
    }

    /// Returns the violations at the target after a run with a fault.
    fn survived(
        &self,
        scope: &StepScope<'_>,
        ran: &CommandResult,
        touched: &[Name],
    ) -> anyhow::Result<Vec<Violation>> {
        let step = scope.step;
        if !step.writes() {
            return Ok(scope.changed(&self.at(&scope.target_path)?, "verify wrote"));
        }
        let after = self.at(&scope.target_path)?;
        // A power cut before this run makes doubtful what a run that ends well has to have compared.
        let is_doubtful = self.cut && self.cut_target_path == scope.target_path && ran.code == Some(0);
        let trusting = !is_doubtful || self.history.setting.route.is_sftp();
        let promise = self.promise(scope, ran, trusting);
        let in_place =
            step.in_place || matches!(step.shape, Shape::OneFile(_)) && step.verb == StepVerb::Sync;
        let mixes = in_place && ran.code != Some(0);
        let mut wrong = check::after_fault(&promise, &scope.before, &after, touched, mixes);
        let must_end_well = step.fault.as_ref().is_some_and(Fault::is_bypassed)
            && !self.history.setting.spoils_reading()
            && !self.history.setting.spoils_writing()
            && self.outlook(scope)?.is_none();
        if must_end_well {
            wrong.extend(code_as_promised(ran, &self.codes(scope, &after, &promise)));
        }
        if ran.code == Some(0) && touched.is_empty() {
            // Nothing has failed, so nothing may be missing except for reported losses.
            let mut promise = promise;
            for loss in ran.report["losses"].as_array().into_iter().flatten() {
                promise.free(loss["what"].as_str().unwrap_or_default());
            }
            // The fault may prevent the agent from running. Then the run uses SFTP, whose server does not tell which
            // names are one file.
            if ran.report["transport"].as_str().is_some_and(|transport| transport.starts_with("sftp")) {
                promise.links.clear();
            }
            // Entries that could not be removed, or inspected before that, stay until the next run.
            let stays = |calls: &str| calls.contains("unlink") || calls.contains("statx");
            let is_left = matches!(&step.fault, Some(Fault::Inject { calls, .. }) if stays(calls));
            let mut now = check::target(&promise, &after);
            now.retain(|violation| !(is_left && violation.kind == "leftover"));
            wrong.extend(now);
            if !promise.codes.contains(&0) {
                wrong.extend(code_as_promised(ran, &promise.codes));
            }
        }
        Ok(wrong)
    }

    /// Returns the violations outside of the path that the step writes to.
    fn beside(&self, scope: &StepScope<'_>, around: &Snapshot) -> anyhow::Result<Vec<Violation>> {
        let mut wrong = Vec::new();
        if !matches!(scope.step.shape, Shape::OneFile(_)) {
            wrong.extend(check::unchanged(&scope.source, &self.seen(scope.step)?, "source changed"));
        }
        // Leftovers of an interrupted run next to the target may and must be deleted.
        let is_draft = |path: &Name| generate::is_draft(path.base());
        let mut now = self.around(scope.step)?;
        let missing: Vec<_> = around.iter().filter(|(path, _)| !now.contains_key(*path)).collect();
        if !missing.is_empty() {
            // A copy within a store keeps the identity of the object, so that others may become further names of its file.
            let side = self.look(self.side(scope.step))?;
            for (path, before) in missing {
                let stored = side.get(path).filter(|entry| entry.stored.is_some());
                let SeenEntry { links, inode, .. } = *before;
                let kept = stored.map(|entry| SeenEntry { links, inode, ..entry.clone() });
                now.extend(kept.map(|entry| (path.clone(), entry)));
            }
        }
        let mut beside = check::unchanged(around, &now, "beside");
        beside.retain(|violation| {
            violation.words != "it is gone" || !violation.path.as_ref().is_some_and(is_draft)
        });
        // If a directory was renamed during an earlier run, its agent may have finished files there a moment later.
        let is_renamed = |path: &Name| path.0.windows(9).any(|part| part == b".tampered");
        beside.retain(|violation| !violation.path.as_ref().is_some_and(is_renamed));
        wrong.extend(beside);
        let mut folders = vec![self.directories.notes.join("temporary")];
        if let Some(hosts) = self.pool.started_hosts() {
            folders.extend(self.history.setting.route.remote_hosts().map(|host| hosts.temporary(host)));
        }
        for folder in folders {
            for entry in std::fs::read_dir(&folder).into_iter().flatten() {
                let words = format!("{} is left in a temporary folder", entry?.file_name().display());
                wrong.push(Violation::of_run("leftover", words, Proof::Words));
            }
        }
        Ok(wrong)
    }

    /// Returns a snapshot of the target's side without the path that the step writes to.
    fn around(&self, step: &Step) -> anyhow::Result<Snapshot> {
        let mut side = self.look(self.side(step))?;
        let target_path = Name(match &step.shape {
            Shape::OneFile(_) => b"one".to_vec(),
            Shape::Directory => b"target/source".to_vec(),
            _ => b"target".to_vec(),
        });
        // An inode that also has a name below that path may change.
        side.retain(|path, entry| {
            let inside = *path == target_path || path.is_below(&target_path) || target_path.is_below(path);
            !inside && (entry.links <= 1 || entry.is_directory())
        });
        Ok(side)
    }

    fn unknown(&self, wrong: Vec<Violation>) -> Vec<Violation> {
        let is_unknown = |violation: &Violation| match known_violations::reason(violation) {
            Some(reason) => {
                self.counts.known.fetch_add(1, Ordering::Relaxed);
                self.counts.note(&format!("known {reason}"));
                false
            }
            None => true,
        };
        wrong.into_iter().filter(is_unknown).collect()
    }

    /// Returns the path of the log of the last run.
    fn log_file(&self) -> PathBuf {
        self.directories.notes.join(format!("log-{}", self.runs))
    }

    /// Returns the command line of a step and the path of its report.
    fn words(&mut self, step: &Step) -> anyhow::Result<(Vec<OsString>, PathBuf)> {
        self.runs += 1;
        let list = self.directories.notes.join(format!("list-{}", self.runs));
        if step.files_from.is_some() {
            std::fs::write(&list, step.list())?;
        }
        let report = self.directories.notes.join(format!("report-{}.json", self.runs));
        let log = self.log_file();
        let (route, hosts) = (self.history.setting.route, self.pool.started_hosts());
        let mut words: Vec<OsString> = vec![step.verb.word().into()];
        words.extend(step.options(&list));
        words.extend(route.options(step.verb, hosts));
        if step.verb != StepVerb::Digest && (step.from_store || self.history.setting.source_store().is_some())
        {
            // Whoever may write to the bucket may set privileges only if that is allowed explicitly.
            words.push("--allow=setuid,devices".into());
        }
        if step.verb != StepVerb::Digest {
            words.extend(["--report".into(), report.clone().into_os_string()]);
            if step.log {
                words.extend(["--log-file".into(), log.into_os_string()]);
            }
            if step.fault.is_some() {
                words.push("--retry-for=5s".into());
            }
        }
        let directories = &self.directories;
        let mut locations = match step.from_store {
            true => locations(step, &directories.target.join("target"), &directories.back),
            false => locations(step, &directories.shown_source(), &directories.target),
        };
        if let [source, target] = &mut locations[..] {
            let placed = route.locations(hosts, std::mem::take(source), std::mem::take(target));
            words.extend(placed);
        } else {
            words.extend(locations);
        }
        Ok((words, report))
    }

    fn run(&mut self, step: &Step) -> anyhow::Result<CommandResult> {
        if let Some(part) = &step.fleet {
            return self.run_by_fleet(step, part);
        }
        let (words, report) = self.words(step)?;
        self.run_words(&words, &report)
    }

    fn run_words(&self, words: &[OsString], report: &Path) -> anyhow::Result<CommandResult> {
        let notes = &self.directories.notes;
        command::run(&self.options.program, words, report, notes, self.options.plant.as_deref())
    }

    fn run_with(&mut self, step: &Step, fault: &Fault) -> anyhow::Result<(CommandResult, Vec<Name>)> {
        let (words, report) = self.words(step)?;
        let target =
            self.side(step).join(if matches!(step.shape, Shape::OneFile(_)) { "one" } else { "target" });
        if let Some(ran) = self.run_with_store(step, fault, &words, &report)? {
            return Ok(ran);
        }
        let source = self.directories.shown_source();
        let locations = (self.history.setting.target.as_str(), source.as_path(), target.as_path());
        let (ran, mut touched) = command::run_with(
            fault,
            &self.options.program,
            &words,
            (&report, &self.directories.notes),
            self.pool,
            locations,
            self.options.plant.as_deref(),
        )?;
        if step.shape == Shape::Directory {
            // Report paths below the target, in which the directory has its own name.
            touched.retain_mut(|path| {
                // A change of the directory itself is a change of everything in it.
                let whole = (path.0 == b"source").then(Vec::new);
                let rest = path.0.strip_prefix(b"source/").map(<[u8]>::to_vec).or(whole);
                rest.is_some_and(|rest| {
                    path.0 = rest;
                    true
                })
            });
        }
        Ok((ran, touched))
    }
}

/// Returns source and target as they are typed.
pub fn locations(step: &Step, source: &Path, side_of_target: &Path) -> Vec<OsString> {
    let slashed = |path: &Path| {
        let mut word = path.as_os_str().to_owned();
        word.push("/");
        word
    };
    let target = side_of_target.join("target").into_os_string();
    match (&step.shape, step.verb) {
        (Shape::OneFile(path), StepVerb::Digest) => vec![path.below(source).into_os_string()],
        (_, StepVerb::Digest) => vec![source.as_os_str().to_owned()],
        (Shape::Contents, _) => vec![slashed(source), target],
        (Shape::Directory, _) => vec![source.as_os_str().to_owned(), target],
        (Shape::OneFile(path), _) => {
            vec![path.below(source).into_os_string(), side_of_target.join("one").into_os_string()]
        }
    }
}

fn code_as_promised(ran: &CommandResult, codes: &BTreeSet<i32>) -> Vec<Violation> {
    if ran.code.is_some_and(|code| codes.contains(&code)) {
        return Vec::new();
    }
    let words = format!("it ended with {:?}, and has to end with {codes:?}", ran.code);
    vec![Violation::of_run("exit code", words, Proof::Code(codes.iter().copied().collect()))]
}
