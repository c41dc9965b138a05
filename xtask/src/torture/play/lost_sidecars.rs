//! Removes an object that keeps extended attributes of others, which the next run has to notice and to store again.

use super::*;

impl PlayState<'_> {
    /// Removes such an object after a step that has copied a whole tree of files to a store, and repeats the step.
    pub(super) fn sidecar_lost(
        &mut self,
        scope: &StepScope<'_>,
        after: &Snapshot,
    ) -> anyhow::Result<StepOutcome> {
        let Some(objects) = self.objects(false).filter(|_| self.repairs_sidecars(scope, after)) else {
            return Ok(None);
        };
        let sidecars = objects.sidecars()?;
        let Some(lost) = sidecars.get(self.runs % sidecars.len().max(1)) else { return Ok(None) };
        objects.client.delete(lost.as_bytes())?;
        if self.at(&scope.target_path).is_ok() {
            // Nothing refers to it any more.
            return Ok(None);
        }
        let verify = scope.step.as_verify();
        let verified = self.run(&verify)?;
        let mut wrong = verified.wrong();
        if !matches!(verified.code, Some(3 | 4)) {
            let words = format!("verify ends with {:?} without {lost}", verified.code);
            wrong.push(Violation::of_run("sidecars", words, Proof::Stable));
        }
        let ran = self.run(scope.step)?;
        wrong.extend(ran.wrong());
        wrong.extend(code_as_promised(&ran, &[0].into()));
        match self.at(&scope.target_path) {
            Ok(now) => wrong.extend(
                after
                    .iter()
                    .filter(|(path, entry)| now.get(*path).is_none_or(|now| now.xattrs != entry.xattrs))
                    .map(|(path, _)| {
                        Violation::at("sidecars", path, "its attributes are lost", Proof::Stable)
                    }),
            ),
            Err(error) => {
                let words = format!("{lost} is not stored again: {error:#}");
                wrong.push(Violation::of_run("sidecars", words, Proof::Stable));
            }
        }
        let wrong = self.unknown(wrong);
        Ok((!wrong.is_empty()).then(|| (wrong, format!("{verified}\n{ran}"))))
    }

    /// Returns true if a step compares all that refers to an object with attributes.
    fn repairs_sidecars(&self, scope: &StepScope<'_>, after: &Snapshot) -> bool {
        let (step, setting) = (scope.step, &self.history.setting);
        let is_whole = step.rules.is_empty() && step.files_from.is_none() && step.sizes.is_none();
        // From an agent's listing the controller does not know which attributes are large.
        let is_local = !setting.route.is_remote() && setting.source_store().is_none() && !step.from_store;
        let is_plain =
            step.without.is_empty() && matches!(step.shape, Shape::Contents) && self.able.left_out.is_empty();
        is_whole && is_local && is_plain && after.keys().all(|path| scope.source.contains_key(path))
    }
}
