//! Plays a history: makes its trees, lets the world and hakobu act in turn, and holds each step against its promise.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use serde_json::Value;

use super::check::{self, Proof, Violation};
use super::command::{self, Ran};
use super::counts::Counts;
use super::history::{Event, History};
use super::model::Name;
use super::place::Ground;
use super::promise::{self, Abilities};
use super::realize::realize;
use super::select::Selection;
use super::step::{Shape, Step, Verb};
use super::walk::{self, Snapshot, walk};
use super::{known, mutate};

/// What all histories share.
#[derive(Clone, Debug)]
pub struct Stage {
    /// The program that is tortured.
    pub program: PathBuf,
    /// Whether folders stay.
    pub keep: bool,
    /// A fault to plant, in a program that was built for it.
    pub plant: Option<String>,
}

/// What went wrong in a history.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The event in which it was seen.
    pub event: usize,
    /// What is wrong.
    pub violations: Vec<Violation>,
    /// The command, its exit code, and what it said.
    pub said: String,
}

/// Plays a history from its beginning, and returns the first thing that is wrong.
pub fn play(
    history: &History,
    stage: &Stage,
    worker: &str,
    counts: &Counts,
) -> anyhow::Result<Option<Failure>> {
    let ground = Ground::new(&history.setting, worker, stage.keep)?;
    realize(&history.source, &ground.source.join("source"))?;
    if let Some(tree) = &history.target {
        realize(tree, &ground.target.join("target"))?;
    }
    let mut scene = Scene { history, stage, counts, able: history.setting.abilities(), ground, runs: 0 };
    for (event, happens) in history.events.iter().enumerate() {
        match happens {
            Event::Source(mutation) => mutate::apply(mutation, &scene.source())?,
            Event::Target(mutation) => mutate::apply(mutation, &scene.target())?,
            Event::Run(step) => {
                if let Some((violations, said)) = scene.step(step)? {
                    return Ok(Some(Failure { event, violations, said }));
                }
            }
        }
    }
    counts.histories.fetch_add(1, Ordering::Relaxed);
    Ok(None)
}

struct Scene<'a> {
    history: &'a History,
    stage: &'a Stage,
    counts: &'a Counts,
    able: Abilities,
    ground: Ground,
    runs: usize,
}

/// What is wrong with a step, and what hakobu said.
type Wrong = Option<(Vec<Violation>, String)>;

impl Scene<'_> {
    fn source(&self) -> PathBuf {
        self.ground.source.join("source")
    }

    fn target(&self) -> PathBuf {
        self.ground.target.join("target")
    }

    /// Plays one step with what belongs to it: the run itself, a verification, a second run.
    fn step(&mut self, step: &Step) -> anyhow::Result<Wrong> {
        let whole = walk(&self.source())?;
        // What the step is about: the part of the source, and where that lands.
        let (source, place) = match &step.shape {
            Shape::OneFile(path) => match whole.get(path) {
                Some(entry) if entry.is_file() => {
                    (Snapshot::from([(Name::default(), entry.clone())]), self.ground.target.join("one"))
                }
                _ => return Ok(None),
            },
            Shape::Directory => (whole.clone(), self.target().join("source")),
            _ => (whole.clone(), self.target()),
        };
        if Selection::of(step).is_vague(&source) {
            return Ok(None);
        }
        let before = walk(&place)?;
        let around = self.around(step)?;
        let ran = self.run(step)?;
        self.counts.steps.fetch_add(1, Ordering::Relaxed);
        let after = walk(&place)?;

        let mut wrong = ran.wrong();
        wrong.extend(check::unchanged(&whole, &walk(&self.source())?, "source changed"));
        wrong.extend(check::unchanged(&around, &self.around(step)?, "beside"));
        wrong.extend(self.leftovers()?);
        match step.verb {
            _ if step.dry_run => {
                wrong.extend(check::unchanged(&before, &after, "plan"));
                let mut codes = promise::of(step, &source, &before, &self.able, ran.code == Some(6)).codes;
                codes.insert(0);
                wrong.extend(code_as_promised(&ran, &codes));
            }
            Verb::Digest => {
                wrong.extend(self.digests(step, &source, &ran)?);
                wrong.extend(code_as_promised(&ran, &[0].into()));
            }
            Verb::Verify => {
                wrong.extend(check::unchanged(&before, &after, "verify wrote"));
                wrong.extend(self.verified(step, &source, &after, &ran));
            }
            Verb::Copy | Verb::Sync => {
                let mut promise = promise::of(step, &source, &before, &self.able, ran.code == Some(6));
                if matches!(step.shape, Shape::OneFile(_)) {
                    promise::of_one_file(step, &before, &mut promise);
                }
                wrong.extend(code_as_promised(&ran, &promise.codes));
                wrong.extend(check::target(&promise, &after));
                let wrong = self.unknown(wrong);
                if !wrong.is_empty() {
                    return Ok(Some((wrong, ran.to_string())));
                }
                return self.again(step, &source, &place, &after, promise.stable);
            }
        }
        let wrong = self.unknown(wrong);
        Ok((!wrong.is_empty()).then(|| (wrong, ran.to_string())))
    }

    /// A second run changes nothing, and a verification says what the oracle says.
    fn again(
        &mut self,
        step: &Step,
        source: &Snapshot,
        place: &Path,
        after: &Snapshot,
        stable: bool,
    ) -> anyhow::Result<Wrong> {
        let verify = step.as_verify();
        let ran = self.run(&verify)?;
        let mut wrong = ran.wrong();
        wrong.extend(self.verified(&verify, source, after, &ran));
        let wrong = self.unknown(wrong);
        if !wrong.is_empty() {
            return Ok(Some((wrong, ran.to_string())));
        }
        if !stable || step.during {
            return Ok(None);
        }
        let ran = self.run(step)?;
        let codes = promise::of(step, source, after, &self.able, ran.code == Some(6)).codes;
        let mut wrong = ran.wrong();
        wrong.extend(code_as_promised(&ran, &codes));
        let mut now = walk(place)?;
        if matches!(step.shape, Shape::OneFile(_)) {
            // A single file under `sync` is opened for writing and gets its time once more: the inode's own time is not promised.
            now.values_mut().zip(after.values()).for_each(|(now, before)| now.ctime = before.ctime);
        }
        wrong.extend(check::unchanged(after, &now, "second run"));
        for count in ["created", "updated", "attributes_only", "deleted"] {
            let number = ran.report["entries"][count].as_u64().unwrap_or(0);
            // A single file under `sync` is compared and counted as it is written.
            if number > 0 && !matches!(step.shape, Shape::OneFile(_)) {
                let words = format!("the report of the second run has {number} {count}");
                wrong.push(Violation::of_run("second run", words, Proof::Stable));
            }
        }
        let wrong = self.unknown(wrong);
        Ok((!wrong.is_empty()).then(|| (wrong, ran.to_string())))
    }

    fn verified(&self, step: &Step, source: &Snapshot, target: &Snapshot, ran: &Ran) -> Vec<Violation> {
        let mut differs = check::differences(step, source, target, &self.able);
        if matches!(step.shape, Shape::OneFile(_)) {
            // "Of a single file or disk only the content is compared."
            differs
                .values_mut()
                .for_each(|what| what.retain(|word| matches!(*word, "content" | "size" | "kind")));
            differs.retain(|_, what| !what.is_empty());
        }
        if target.is_empty() {
            // "There is nothing to compare with."
            return code_as_promised(ran, &[1, 4].into());
        }
        // What does not fit is counted as not compared, or differs: which of them is not promised.
        let large: BTreeSet<&Name> =
            source.iter().filter(|(_, entry)| !self.able.fits(entry)).map(|(path, _)| path).collect();
        for path in &large {
            if let Some(what) = differs.get_mut(*path) {
                what.retain(|word| *word != "xattr" && *word != "mode");
            }
        }
        differs.retain(|_, what| !what.is_empty());
        let missing = step.files_from.iter().flatten().any(|path| !source.contains_key(path));
        let codes: BTreeSet<i32> = match (differs.is_empty(), missing) {
            (true, _) if !large.is_empty() => [0, 3, 4].into(),
            (true, false) => [0].into(),
            (true, true) => [3].into(),
            (false, _) => [4].into(),
        };
        let mut wrong = code_as_promised(ran, &codes);
        let mut reported: BTreeMap<Name, BTreeSet<String>> = BTreeMap::new();
        for difference in ran.report["differences"].as_array().into_iter().flatten() {
            let mut path = path_in(difference);
            if step.shape == Shape::Directory {
                // Told below the target, in which the directory has its name.
                path = Name(
                    path.0
                        .strip_prefix(b"source/")
                        .or(path.0.strip_prefix(b"source"))
                        .unwrap_or(&path.0)
                        .to_vec(),
                );
            }
            let what = difference["what"].as_str().unwrap_or_default().to_owned();
            if large.contains(&path) && (what == "xattr" || what == "mode") {
                continue;
            }
            reported.entry(path).or_default().insert(what);
        }
        if matches!(step.shape, Shape::OneFile(_)) {
            reported = reported.into_values().map(|what| (Name::default(), what)).collect();
        }
        wrong.extend(check::verification(&differs, &reported, source));
        wrong
    }

    /// Of a single file the digest has to be that of `sha256sum`; of a tree every file has to have a line.
    fn digests(&self, step: &Step, source: &Snapshot, ran: &Ran) -> anyhow::Result<Vec<Violation>> {
        let lines: Vec<&[u8]> =
            ran.output.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).collect();
        let Shape::OneFile(path) = &step.shape else {
            let files = source.values().filter(|entry| entry.is_file()).count();
            let words = format!("{} lines for {files} files", lines.len());
            return Ok(if lines.len() == files {
                Vec::new()
            } else {
                vec![Violation::of_run("digest", words, Proof::Words)]
            });
        };
        if source.values().any(|entry| entry.size() > walk::READ_WHOLE_MAX) {
            return Ok(Vec::new());
        }
        let digest = walk::plain_digest(&path.below(&self.source()))?;
        let found: String =
            lines.first().map(|line| String::from_utf8_lossy(line).into_owned()).unwrap_or_default();
        let words = format!("it printed {found}, and the digest is {digest}");
        let right = found.trim_start_matches('\\').starts_with(&digest);
        Ok(if right { Vec::new() } else { vec![Violation::at("digest", path, words, Proof::Words)] })
    }

    /// Returns what lies beside the place where the step lands, and must not change: all of the side of the target but that place.
    fn around(&self, step: &Step) -> anyhow::Result<Snapshot> {
        let mut side = walk(&self.ground.target)?;
        let place = Name(match &step.shape {
            Shape::OneFile(_) => b"one".to_vec(),
            Shape::Directory => b"target/source".to_vec(),
            _ => b"target".to_vec(),
        });
        // An inode with a name in the place that changes is not beside it.
        side.retain(|path, entry| {
            *path != place
                && !path.is_below(&place)
                && !place.is_below(path)
                && !(entry.links > 1 && !entry.is_directory())
        });
        Ok(side)
    }

    /// Nothing is left in the folders for temporary things.
    fn leftovers(&self) -> anyhow::Result<Vec<Violation>> {
        let mut wrong = Vec::new();
        for entry in std::fs::read_dir(self.ground.notes.join("temporary"))? {
            let words = format!("{} is left in the temporary folder", entry?.file_name().display());
            wrong.push(Violation::of_run("leftover", words, Proof::Words));
        }
        Ok(wrong)
    }

    fn unknown(&self, wrong: Vec<Violation>) -> Vec<Violation> {
        let (known, unknown): (Vec<_>, Vec<_>) =
            wrong.into_iter().partition(|violation| known::reason(violation, self.history).is_some());
        self.counts.known.fetch_add(known.len() as u64, Ordering::Relaxed);
        unknown
    }

    fn run(&mut self, step: &Step) -> anyhow::Result<Ran> {
        self.runs += 1;
        let notes = &self.ground.notes;
        let list = notes.join(format!("list-{}", self.runs));
        if step.files_from.is_some() {
            std::fs::write(&list, step.list())?;
        }
        let report = notes.join(format!("report-{}.json", self.runs));
        let mut words: Vec<OsString> = vec![step.verb.word().into()];
        words.extend(step.options(&list));
        if step.verb != Verb::Digest {
            words.extend(["--report".into(), report.clone().into_os_string()]);
        }
        words.extend(places(step, &self.source(), &self.ground.target));
        command::run(&self.stage.program, &words, &report, notes, self.stage.plant.as_deref())
    }
}

/// Returns the places as they are typed.
pub fn places(step: &Step, source: &Path, side_of_target: &Path) -> Vec<OsString> {
    let slashed = |path: &Path| {
        let mut word = path.as_os_str().to_owned();
        word.push("/");
        word
    };
    let target = side_of_target.join("target").into_os_string();
    match (&step.shape, step.verb) {
        (Shape::OneFile(path), Verb::Digest) => vec![path.below(source).into_os_string()],
        (_, Verb::Digest) => vec![source.as_os_str().to_owned()],
        (Shape::Contents | Shape::Merged, _) => vec![slashed(source), target],
        (Shape::Directory, _) => vec![source.as_os_str().to_owned(), target],
        (Shape::OneFile(path), _) => {
            vec![path.below(source).into_os_string(), side_of_target.join("one").into_os_string()]
        }
    }
}

fn code_as_promised(ran: &Ran, codes: &BTreeSet<i32>) -> Vec<Violation> {
    if ran.code.is_some_and(|code| codes.contains(&code)) {
        return Vec::new();
    }
    let words = format!("it ended with {:?}, and has to end with {codes:?}", ran.code);
    vec![Violation::of_run("exit code", words, Proof::Code(codes.iter().copied().collect()))]
}

/// Returns the path in an entry of a report, as bytes.
fn path_in(value: &Value) -> Name {
    match value["path_base64"].as_str() {
        Some(text) => Name(command::from_base64(text)),
        None => Name(value["path"].as_str().unwrap_or_default().as_bytes().to_vec()),
    }
}
