//! Checks a step by a verification after it, and by repeating it.

use super::*;

impl PlayState<'_> {
    /// Checks that a verification reports what the oracle finds, and that a second run changes nothing.
    pub(super) fn again(
        &mut self,
        scope: &StepScope<'_>,
        after: &Snapshot,
        promise: &Promise,
    ) -> anyhow::Result<StepOutcome> {
        let step = scope.step;
        let verify = step.as_verify();
        self.able = self.abilities_of(&verify);
        let ran = self.run(&verify)?;
        let mut wrong = ran.wrong();
        wrong.extend(self.verified(&verify, &scope.source, after, &ran));
        let wrong = self.unknown(wrong);
        if !wrong.is_empty() {
            return Ok(Some((wrong, ran.to_string())));
        }
        if !promise.stable || step.during {
            return Ok(None);
        }
        let step = &step.repeated();
        self.able = self.abilities_of(step);
        let ran = self.run(step)?;
        let codes = promise::of(step, &scope.source, after, &self.able, ran.code).codes;
        let mut wrong = ran.wrong();
        wrong.extend(code_as_promised(&ran, &codes));
        let mut now = self.at(&scope.target_path)?;
        wrong.extend(self.lists(step, (after, &now), &ran, ListPromise::Complete)?);
        if matches!(step.shape, Shape::OneFile(_)) {
            // `sync` opens a single file for writing and sets its time again, so the inode's change time is not
            // promised.
            now.values_mut().zip(after.values()).for_each(|(now, before)| now.ctime = before.ctime);
        }
        wrong.extend(check::unchanged(after, &now, "second run"));
        for count in ["created", "updated", "attributes_only", "deleted"] {
            let number = ran.report["entries"][count].as_u64().unwrap_or(0);
            // `sync` compares a single file while writing it, and counts it as written.
            if number > 0 && !matches!(step.shape, Shape::OneFile(_)) {
                let words = format!("the report of the second run has {number} {count}");
                wrong.push(Violation::of_run("second run", words, Proof::Stable));
            }
        }
        let wrong = self.unknown(wrong);
        if !wrong.is_empty() {
            return Ok(Some((wrong, ran.to_string())));
        }
        // After a failure, a store's directories keep their attributes, lost or not.
        if ran.code == Some(0) { self.sidecar_lost(scope, after) } else { Ok(None) }
    }
}
