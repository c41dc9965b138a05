//! Checks runs on targets with little space: what fits is not refused, and what does not fit ends as documented.

use super::super::check::{Proof, Violation};
use super::super::command::CommandResult;
use super::super::generate::is_draft;
use super::super::model::Name;
use super::super::promise;
use super::super::space::{self, SpaceAmount, SpaceOutlook, SpaceQuestion};
use super::super::step::{Shape, StepVerb};
use super::super::walk::{SeenEntry, Snapshot, walk};
use super::{PlayState, StepScope};

impl PlayState<'_> {
    /// Returns the prospect of a step as far as space decides it, or `None` if other things do.
    pub(super) fn outlook(&self, scope: &StepScope<'_>) -> anyhow::Result<Option<SpaceOutlook>> {
        let (setting, step) = (&self.history.setting, scope.step);
        if !setting.is_judged_by_space() || !matches!(step.verb, StepVerb::Copy | StepVerb::Sync) {
            return Ok(None);
        }
        let mut root = self.directories.seen_source();
        if let Shape::OneFile(path) = &step.shape {
            root = path.below(&root);
        }
        let question = SpaceQuestion {
            step,
            promise: &promise::of(step, &scope.source, &scope.before, &self.able, Some(0)),
            source: &scope.source,
            target: &scope.before,
            data: &space::data(&root, &scope.source)?,
            names_are_inodes: ["smalltmpfs", "fullinodes"].contains(&setting.target.as_str()),
        };
        let demand = question.demand();
        let free = space::free(&self.directories.true_target)?;
        let slack = setting.slack_bytes();
        let outlook = demand.outlook(free, slack);
        // Leftovers of interrupted runs may be deleted or used.
        let left = leftovers(&walk(&self.directories.true_target)?);
        let most =
            SpaceAmount { bytes: free.bytes + left.bytes, inodes: free.inodes.saturating_add(left.inodes) };
        let is_unsure = outlook == SpaceOutlook::TooLittle && demand.outlook(most, slack) != outlook;
        let outlook = if is_unsure { SpaceOutlook::Open } else { outlook };
        self.counts.note(&format!("space {}", outlook.name()));
        Ok(Some(outlook))
    }

    /// Returns the violations of a run on a target with little space, beside those of [`Self::survived`].
    pub(super) fn spaced(
        &self,
        scope: &StepScope<'_>,
        ran: &CommandResult,
        after: &Snapshot,
        outlook: SpaceOutlook,
    ) -> Vec<Violation> {
        let mut wrong = Vec::new();
        let is_refused = is_refused_for_space(ran);
        let fits = matches!(outlook, SpaceOutlook::Enough | SpaceOutlook::EnoughAfterwards);
        if is_refused && fits {
            let words = format!("it is refused, and it fits: {}", ran.report["error"]["error"]);
            wrong.push(Violation::of_run("space", words, Proof::Code(vec![0, 1, 3])));
        }
        // A dry run foresees what it can.
        let is_failure = matches!(ran.code, Some(1 | 3 | 6));
        if outlook == SpaceOutlook::TooLittle && !scope.step.dry_run && !is_failure {
            let words = format!("it ended with {:?}, and cannot fit", ran.code);
            wrong.push(Violation::of_run("space", words, Proof::Code(vec![1, 3, 6])));
        }
        if is_refused || ran.code == Some(1) {
            wrong.extend(deleted_too_early(scope, after));
        }
        wrong
    }
}

/// Returns true if a run was refused because of space or inodes, by the words of the documents.
fn is_refused_for_space(ran: &CommandResult) -> bool {
    let error = &ran.report["error"];
    ran.code == Some(6) && error["kind"] == "refused" && error["step"] == "write"
}

/// Returns the space that leftovers take.
fn leftovers(side: &Snapshot) -> SpaceAmount {
    let drafts = side.iter().filter(|(path, entry)| is_draft(path.base()) && entry.is_file());
    drafts.fold(SpaceAmount::default(), |sum, (_, entry)| SpaceAmount {
        bytes: sum.bytes + entry.room.max(entry.size()),
        inodes: sum.inodes + 1,
    })
}

/// Returns a violation for each extra entry that is gone, although deletion comes last.
fn deleted_too_early(scope: &StepScope<'_>, after: &Snapshot) -> Vec<Violation> {
    let is_folder = |tree: &Snapshot, path: &Name| tree.get(path).is_some_and(SeenEntry::is_directory);
    // An entry that replaces a directory comes after the deletion, and may not fit.
    let makes_way = |path: &Name| {
        is_folder(&scope.before, path) && scope.source.get(path).is_some_and(|entry| !entry.is_directory())
    };
    if scope.step.during || scope.before.keys().any(makes_way) {
        return Vec::new();
    }
    let is_gone = |path: &&Name| !scope.source.contains_key(*path) && !after.contains_key(*path);
    let words = "the run failed, and has deleted this before";
    let gone = scope.before.keys().filter(is_gone);
    gone.map(|path| Violation::at("space", path, words, Proof::LikeBefore)).collect()
}
