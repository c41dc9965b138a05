//! Runs the program with a deadline in an environment of its own, and checks that its outputs agree with each other.

use std::ffi::OsString;
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context;
use serde_json::Value;

use super::base64::from_base64;
use super::check::{Proof, Violation};
use super::environment;
use super::environment::faults::Fault;
use super::environment::object_store::variables;
use super::environment::plants::VARIABLE;
use super::environment::run::Surroundings;
use super::environment::tree_changes::SECRET;
use super::file_systems::Pool;
use super::model::Name;
use super::shell_word::quoted;

/// The deadline of a run.
pub const DEADLINE: Duration = Duration::from_secs(120);

/// A run that has ended.
#[derive(Clone, Debug)]
pub struct CommandResult {
    /// The command line, for people.
    pub typed: String,
    /// The exit code; `None` after a signal or the deadline.
    pub code: Option<i32>,
    /// True if the deadline has passed.
    pub hung: bool,
    /// Standard output.
    pub output: Vec<u8>,
    /// Standard error.
    pub errors: String,
    /// The report; null if there is none.
    pub report: Value,
    /// True if the fault took place.
    pub took_place: bool,
    /// The number of system calls that the fault made fail.
    pub injected: u64,
    /// Content copied from outside the source or written outside the target, and processes left behind.
    pub strayed: Vec<String>,
}

impl std::fmt::Display for CommandResult {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let end: String = String::from_utf8_lossy(&self.output).chars().take(2000).collect();
        write!(out, "$ {}\n{end}{}exit code {:?}", self.typed, self.errors, self.code)
    }
}

/// Runs the program to its end. `report` is the path of its report.
pub fn run(
    program: &Path,
    words: &[OsString],
    report: &Path,
    notes: &Path,
    plant: Option<&str>,
) -> anyhow::Result<CommandResult> {
    let mut command = Command::new(program);
    command.args(words);
    surround(&mut command, notes)?;
    command.envs(plant.map(|plant| (VARIABLE, plant)));
    let (output, errors) = (notes.join("stdout"), notes.join("stderr"));
    command.stdin(Stdio::null()).stdout(File::create(&output)?).stderr(File::create(&errors)?);
    let began = Instant::now();
    let mut child = command.spawn().with_context(|| format!("starting {}", program.display()))?;
    let (mut pause, mut hung) = (Duration::from_micros(500), false);
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        if began.elapsed() > DEADLINE {
            hung = true;
            child.kill()?;
        }
        thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(8));
    };
    Ok(CommandResult {
        typed: typed(program, words),
        code: if hung { None } else { status.code() },
        hung,
        output: fs::read(output)?,
        errors: String::from_utf8_lossy(&fs::read(errors)?).into_owned(),
        report: read_report(report),
        took_place: false,
        injected: 0,
        strayed: Vec::new(),
    })
}

fn read_report(file: &Path) -> Value {
    fs::read(file).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or(Value::Null)
}

/// Runs the program with a fault. Also returns the entries of source and target that the fault changed. `file_system`
/// is that of the target.
pub fn run_with(
    fault: &Fault,
    program: &Path,
    words: &[OsString],
    (report, notes): (&Path, &Path),
    pool: &mut Pool,
    (file_system, source, target): (&str, &Path, &Path),
    plant: Option<&str>,
) -> anyhow::Result<(CommandResult, Vec<Name>)> {
    let mut command = Command::new(program);
    command.args(words);
    surround(&mut command, notes)?;
    command.envs(plant.map(|plant| (VARIABLE, plant)));
    let (hosts, mounted) = pool.both(file_system);
    let mut around = Surroundings {
        scratch: notes,
        hosts,
        source: Some(source),
        target: Some(target),
        mounted,
        input: None,
        deadline: DEADLINE,
    };
    let ran = environment::run::run_with(Some(fault), command, &mut around)?;
    let mut strayed = ran.left_behind.clone();
    if let Some(outside) = &ran.outside {
        for (path, entry) in super::walk::walk(outside)?.iter().filter(|(_, entry)| entry.is_file()) {
            if fs::read(path.below(outside)).is_ok_and(|bytes| bytes != SECRET) {
                strayed.push(format!("{path} of {} B was written outside of the tree", entry.size()));
            }
        }
        if holds_secret(target)? {
            strayed.push("what a link in the source leads to was copied".to_owned());
        }
        fs::remove_dir_all(outside.parent().unwrap_or(outside))?;
    }
    let mut changed: Vec<Name> =
        ran.changed.iter().map(|path| Name(path.as_os_str().as_bytes().to_vec())).collect();
    // The name of a directory after its renaming.
    let other = |path: &PathBuf| Name(path.with_extension("tampered").as_os_str().as_bytes().to_vec());
    let mut renamed: Vec<Name> = ran.changed.iter().map(other).collect();
    renamed.extend(changed.iter().map(|path| Name([&path.0[..], b".tampered"].concat())));
    changed.extend(renamed);
    let errors = format!("{}{}", String::from_utf8_lossy(&ran.stderr), ran.hung.clone().unwrap_or_default());
    let told = CommandResult {
        typed: format!("{} # with {fault:?}", typed(program, words)),
        code: ran.code,
        hung: ran.hung.is_some(),
        output: ran.stdout,
        errors,
        report: read_report(report),
        took_place: ran.took_place,
        injected: ran.injected as u64,
        strayed,
    };
    Ok((told, changed))
}

/// Returns true if the target contains the secret, which is outside the source.
fn holds_secret(target: &Path) -> anyhow::Result<bool> {
    let files = super::walk::walk(target)?;
    let mut alike = files.iter().filter(|(_, entry)| entry.is_file() && entry.size() == SECRET.len() as u64);
    Ok(alike.any(|(path, _)| fs::read(path.below(target)).is_ok_and(|bytes| bytes == SECRET)))
}

/// Gives a command its own home, temporary, state and runtime directories, and nothing of this machine's settings.
pub fn surround(command: &mut Command, notes: &Path) -> anyhow::Result<()> {
    for (name, folder) in [
        ("HOME", "home"),
        ("TMPDIR", "temporary"),
        ("XDG_STATE_HOME", "state"),
        ("XDG_RUNTIME_DIR", "runtime"),
    ] {
        let folder = notes.join(folder);
        fs::create_dir_all(&folder)?;
        command.env(name, folder);
    }
    command.envs(variables(&notes.join("home")));
    command.env_remove("HAKOBU_SSH").env("HAKOBU_SETTINGS", "none").env("LC_ALL", "C.UTF-8");
    Ok(())
}

fn typed(program: &Path, words: &[OsString]) -> String {
    let mut line = program.display().to_string();
    for word in words {
        line.push(' ');
        line.push_str(&quoted(std::os::unix::ffi::OsStrExt::as_bytes(word.as_os_str())));
    }
    line
}

impl CommandResult {
    /// Returns true if the run ended because `file` could not be written.
    pub fn fails_to_write(&self, file: &str) -> bool {
        self.errors.contains(&format!("writing {file} "))
    }

    /// Checks what holds for every run: no panic, no end by a signal, and agreement of text, report and exit code.
    pub fn wrong(&self) -> Vec<Violation> {
        let mut wrong = Vec::new();
        let mut say = |kind, words: String| wrong.push(Violation::of_run(kind, words, Proof::Words));
        if self.hung {
            say("hangs", format!("it has not ended after {} s", DEADLINE.as_secs()));
        } else if self.code.is_none() {
            say("crash", "it ended by a signal".to_owned());
        }
        for words in &self.strayed {
            say("strayed", words.clone());
        }
        if self.errors.contains("panicked at") || self.code == Some(101) {
            say("crash", "it panicked".to_owned());
        }
        let report = &self.report;
        if report.is_null() {
            return wrong;
        }
        let code = report["exit_code"].as_i64();
        // A failure to write the report cannot be in the report, nor one to write the log, which is finished after it.
        let unwritten = self.fails_to_write("the report") || self.fails_to_write("the log");
        if self.code.map(i64::from) != code && !unwritten {
            say("record", format!("the exit code is {:?}, and the report says {code:?}", self.code));
        }
        let outcome = match code {
            Some(0) => "done",
            // Errors that show only once the ends are inspected are reported as failures.
            Some(1 | 2) => "failed",
            Some(3) => "partial",
            Some(4) => "differences",
            Some(5) => "source_changed",
            Some(6) => "refused",
            Some(130) => "interrupted",
            _ => "",
        };
        if report["outcome"] != outcome {
            say("record", format!("the exit code is {code:?}, and the outcome {}", report["outcome"]));
        }
        let failed = report["entries"]["failed"].as_u64().unwrap_or(0);
        let listed = report["failures"].as_array().map_or(0, Vec::len);
        if code == Some(0) && (failed > 0 || listed > 0 || !report["error"].is_null()) {
            say(
                "record",
                format!("the exit code is 0, with {failed} entries failed, {listed} failures listed"),
            );
        }
        // Attributes that cannot be compared are counted as losses.
        let lost = report["losses"].as_array().is_some_and(|losses| !losses.is_empty());
        if code == Some(3) && listed == 0 && !lost && !report["rights_withheld"].as_bool().unwrap_or(false) {
            say("record", "the exit code is 3, and no failure is listed".to_owned());
        }
        if code == Some(0) && self.errors.lines().any(|line| line.starts_with("failed: ")) {
            say("record", "the exit code is 0, and a failure is printed".to_owned());
        }
        wrong
    }
}

/// Returns the path in an entry of a report or in an event, as bytes.
pub fn path_in(value: &Value) -> Name {
    match value["path_base64"].as_str() {
        Some(text) => Name(from_base64(text)),
        None => Name(value["path"].as_str().unwrap_or_default().as_bytes().to_vec()),
    }
}
