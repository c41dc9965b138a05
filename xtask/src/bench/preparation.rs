//! The beginning and the end of every bench: the program to measure and its directories, and the files of results.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use serde::Serialize;

use super::group_hosts::REMOTE_BIN;
use super::machine::Machine;
use super::peers::version;
use super::scratch_space::ScratchSpace;
use super::session::say;

/// The load average above which figures say little.
const BUSY_LOAD: f64 = 0.5;

/// The directories and the program of a bench. Dropping it removes the directories.
#[derive(Debug)]
pub struct Preparation {
    pub workspace: PathBuf,
    pub target_dir: PathBuf,
    pub scratch: ScratchSpace,
    /// A copy of the program, so that the next build does not change it. It is on the remote host as well.
    pub program: PathBuf,
    /// The version of the program.
    pub hakobu: String,
    pub machine: Machine,
    began: Instant,
}

impl Preparation {
    /// Prepares a bench of the program at this path, or of one that is built from the workspace.
    ///
    /// # Errors
    /// Returns an error if the program cannot be built or copied.
    pub fn new(given: Option<&Path>) -> Result<Self> {
        let began = Instant::now();
        let workspace = fs::canonicalize(Path::new(env!("CARGO_MANIFEST_DIR")).join(".."))?;
        let target_dir =
            env::var_os("CARGO_TARGET_DIR").map_or_else(|| workspace.join("target"), PathBuf::from);
        let built = match given {
            Some(path) => path.to_owned(),
            None => build(&workspace, &target_dir)?,
        };
        let scratch = ScratchSpace::open(&target_dir)?;
        let program = scratch.take(&built, "hakobu-measured")?;
        scratch.link(REMOTE_BIN, "hakobu", &program)?;
        let hakobu = version(&[&program.to_string_lossy(), "--version"], Path::new("")).unwrap_or_default();
        let machine = Machine::look(&workspace);
        if machine.load_at_start > BUSY_LOAD {
            let load = machine.load_at_start;
            say(&format!("the machine is busy (load {load}): do not judge by these figures"));
        }
        Ok(Self { workspace, target_dir, scratch, program, hakobu, machine, began })
    }

    /// Returns the directory for the results: the given one, or that of the documents if they are worth keeping.
    pub fn output(&self, given: Option<&Path>, keep: bool) -> PathBuf {
        given.map(Path::to_owned).unwrap_or_else(|| match keep {
            true => self.workspace.join("docs/benchmarks"),
            false => self.target_dir.join("bench"),
        })
    }

    /// Says how long it has taken, and where the results are.
    pub fn say_end(&self, output: &Path) {
        say(&format!("{:.0} s; results in {}", self.began.elapsed().as_secs_f64(), output.display()));
    }
}

fn build(workspace: &Path, target_dir: &Path) -> Result<PathBuf> {
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let status = Command::new(cargo)
        .args(["build", "--release", "-p", "hakobu"])
        .current_dir(workspace)
        .status()
        .context("running cargo")?;
    ensure!(status.success(), "the build failed, {status}");
    Ok(target_dir.join("release/hakobu"))
}

/// Writes results as JSON, and the texts that are made of them, each with its extension.
///
/// # Errors
/// Returns an error if that fails.
pub fn write(output: &Path, key: &str, results: &impl Serialize, texts: &[(&str, String)]) -> Result<()> {
    fs::create_dir_all(output).with_context(|| format!("making {}", output.display()))?;
    let json = ("json", serde_json::to_string_pretty(results)? + "\n");
    for (extension, text) in texts.iter().chain([&json]) {
        let path = output.join(format!("{key}.{extension}"));
        fs::write(&path, text).with_context(|| format!("writing {}", path.display()))?;
    }
    Ok(())
}
