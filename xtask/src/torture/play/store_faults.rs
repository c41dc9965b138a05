//! Runs during which a store is in trouble.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::Context;

use super::super::command::CommandResult;
use super::super::environment::faults::Fault;
use super::super::environment::object_store::{StoreTrouble, TortureStoreKind};
use super::super::model::Name;
use super::super::step::Step;
use super::{PlayState, StepOutcome, code_as_promised};

/// The seed and the percentage of requests in trouble while objects change, which makes pages short.
const WHILE_OBJECTS_CHANGE: (u64, u64) = (0, 0);

impl PlayState<'_> {
    /// Runs a step with a fault of a store. Returns `None` for other faults, else also the entries that changed.
    pub(super) fn run_with_store(
        &mut self,
        step: &Step,
        fault: &Fault,
        words: &[OsString],
        report: &Path,
    ) -> anyhow::Result<Option<(CommandResult, Vec<Name>)>> {
        Ok(match fault {
            Fault::StoreTrouble { seed, percent } => {
                let (ran, spoilt) = self.run_in_trouble((*seed, *percent), words, report)?;
                Some((CommandResult { took_place: spoilt > 0, injected: spoilt, ..ran }, Vec::new()))
            }
            Fault::StoreKilled { after_ms, down_ms } => {
                Some((self.run_with_kill((*after_ms, *down_ms), words, report)?, Vec::new()))
            }
            Fault::StoreChanges { seed } => {
                let objects = self.objects(!step.from_store).context("the source is no store")?;
                let is_over = AtomicBool::new(false);
                let (ran, changed) = thread::scope(|scope| {
                    let meddler = scope.spawn(|| objects.meddle(*seed, || is_over.load(Ordering::Relaxed)));
                    let ran = self.run_in_trouble(WHILE_OBJECTS_CHANGE, words, report);
                    is_over.store(true, Ordering::Relaxed);
                    let changed = meddler.join().map_err(|_| anyhow::anyhow!("the meddler panicked"));
                    anyhow::Ok((ran?.0, changed??))
                })?;
                Some((CommandResult { took_place: !changed.is_empty(), ..ran }, changed))
            }
            _ => None,
        })
    }

    /// Copies the tree of the source to the store that is the source. What is there is what is copied from.
    pub(super) fn upload_source(&mut self) -> anyhow::Result<StepOutcome> {
        let slashed = |path: PathBuf| [path.as_os_str(), OsStr::new("/")].into_iter().collect::<OsString>();
        let words: Vec<OsString> = vec![
            "sync".into(),
            "--delete".into(),
            "--max-delete=100%".into(),
            slashed(self.directories.true_source.join("source")),
            self.directories.shown_source().into_os_string(),
        ];
        let ran = self.run_words(&words, Path::new("/nonexistent"))?;
        let mut wrong = ran.wrong();
        // Names that cannot be keys fail.
        wrong.extend(code_as_promised(&ran, &[0, 3].into()));
        Ok((!wrong.is_empty()).then(|| (wrong, ran.to_string())))
    }

    /// Returns the kinds of the stores that take part.
    fn kinds(&self) -> Vec<TortureStoreKind> {
        let setting = &self.history.setting;
        let mut kinds: Vec<TortureStoreKind> =
            [setting.target_store(), setting.source_store()].into_iter().flatten().collect();
        kinds.dedup();
        kinds
    }

    /// Runs with all stores in trouble. Also returns the number of requests that were spoilt.
    fn run_in_trouble(
        &mut self,
        (seed, percent): (u64, u64),
        words: &[OsString],
        report: &Path,
    ) -> anyhow::Result<(CommandResult, u64)> {
        for kind in self.kinds() {
            self.pool.store(kind)?.proxy.begin(StoreTrouble::new(seed, percent));
        }
        let ran = self.run_words(words, report);
        let mut spoilt = 0;
        for kind in self.kinds() {
            spoilt += self.pool.store(kind)?.proxy.end();
        }
        Ok((ran?, spoilt))
    }

    /// Runs while a server is killed and started again.
    fn run_with_kill(
        &mut self,
        (after_ms, down_ms): (u64, u64),
        words: &[OsString],
        report: &Path,
    ) -> anyhow::Result<CommandResult> {
        let kind = *self.kinds().first().context("there is no store")?;
        let mut store = self.pool.take_store(kind).context("the store is not started")?;
        let is_over = AtomicBool::new(false);
        let (ran, killed) = thread::scope(|scope| {
            let killer = scope.spawn(|| {
                thread::sleep(Duration::from_millis(after_ms));
                let in_time = !is_over.load(Ordering::Relaxed);
                store.kill_and_start(Duration::from_millis(down_ms)).map(|()| in_time)
            });
            let ran = self.run_words(words, report);
            is_over.store(true, Ordering::Relaxed);
            (ran, killer.join())
        });
        self.pool.put_store(kind, store);
        let killed = killed.map_err(|_| anyhow::anyhow!("the killer panicked"))??;
        Ok(CommandResult { took_place: killed, ..ran? })
    }
}
