//! `cargo xtask bench measured`: stands in for a program on a PATH, runs it, and records its peak memory.
//!
//! The kernel keeps that figure (`VmHWM`) until the process ends and returns it to the parent that waits for it, so no
//! peak is missed, as it would be by sampling. Until `exec` the kernel counts this process's memory as the child's, but
//! that is too small to matter.

use std::ffi::OsString;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use hakobu_core::shell::quote;
use hakobu_measure::process::measure;

use super::group_hosts::{LOCAL_BIN, REMOTE_BIN};
use super::scratch_space::{ScratchSpace, remove};

/// Run a program and note its peak memory
#[derive(Debug, clap::Args)]
pub struct MeasuredArgs {
    /// Where the figure goes, in a file of its own
    #[arg(long)]
    into: PathBuf,
    /// The program and its arguments
    #[arg(last = true, required = true)]
    command: Vec<OsString>,
}

/// Runs the program with the standard streams of this process, and exits as the program does.
///
/// # Errors
/// Returns an error if the program cannot be run or the figure cannot be written.
pub fn run(args: &MeasuredArgs) -> Result<()> {
    let measured = measure(Command::new(&args.command[0]).args(&args.command[1..]))?;
    let name = std::process::id().to_string();
    let part = args.into.join(format!("{name}.part"));
    fs::write(&part, measured.peak_rss_bytes.to_string()).context("noting the peak memory")?;
    fs::rename(&part, args.into.join(name)).context("noting the peak memory")?;
    let status = measured.status;
    std::process::exit(status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0)));
}

/// Measures the memory of hakobu processes: the entries `hakobu` on both PATHs can be replaced by scripts that do so.
#[derive(Debug)]
pub struct MemoryMeter<'a> {
    scratch: &'a ScratchSpace,
    program: &'a Path,
}

/// The peak memory of one run's processes on each host, in bytes.
#[derive(Debug, Clone, Copy, Default, serde::Serialize)]
pub struct Peaks {
    pub near_bytes: Option<u64>,
    pub far_bytes: Option<u64>,
}

const LOCAL_FIGURES: &str = "peaks-local";
const REMOTE_FIGURES: &str = "peaks-remote";
/// The time that the remote process has to exit after the local one.
const REMOTE_END_LIMIT: Duration = Duration::from_secs(3);

impl<'a> MemoryMeter<'a> {
    /// Puts the program itself on both PATHs.
    ///
    /// # Errors
    /// Returns an error if that fails.
    pub fn new(scratch: &'a ScratchSpace, program: &'a Path) -> Result<Self> {
        let meter = Self { scratch, program };
        meter.plain()?;
        Ok(meter)
    }

    /// Returns the program that is measured.
    pub fn program(&self) -> &Path {
        self.program
    }

    fn plain(&self) -> Result<()> {
        let own = std::env::current_exe().context("finding this program")?;
        self.scratch.link(LOCAL_BIN, "xtask", &own)?;
        self.scratch.link(LOCAL_BIN, "hakobu", self.program)?;
        self.scratch.link(REMOTE_BIN, "hakobu", self.program)
    }

    /// Calls `work` and measures the peak memory of the hakobu processes that it runs, also on the remote host if
    /// `is_remote`.
    pub fn measured<T>(&self, is_remote: bool, work: impl FnOnce() -> T) -> Result<(T, Peaks)> {
        self.exchange()?;
        let result = work();
        let peaks = Peaks {
            near_bytes: self.most(LOCAL_FIGURES, Duration::ZERO),
            far_bytes: self.most(REMOTE_FIGURES, if is_remote { REMOTE_END_LIMIT } else { Duration::ZERO }),
        };
        self.plain()?;
        Ok((result, peaks))
    }

    fn exchange(&self) -> Result<()> {
        let own = std::env::current_exe().context("finding this program")?;
        for (bin, figures) in [(LOCAL_BIN, LOCAL_FIGURES), (REMOTE_BIN, REMOTE_FIGURES)] {
            let into = self.scratch.tools().join(figures);
            remove(&into);
            fs::create_dir(&into).with_context(|| format!("making {}", into.display()))?;
            let words = [own.as_path(), into.as_path(), self.program].map(quote);
            let [own, into, program] = &words;
            // Remove the symbolic link first, or the script would be written into the program.
            remove(&self.scratch.tools().join(bin).join("hakobu"));
            let line = format!("exec {own} bench measured --into {into} -- {program} \"$@\"");
            self.scratch.script(bin, "hakobu", &line)?;
        }
        Ok(())
    }

    /// Returns the largest recorded figure, after waiting up to `wait` for the first one.
    fn most(&self, figures: &str, wait: Duration) -> Option<u64> {
        let directory = self.scratch.tools().join(figures);
        let deadline = Instant::now() + wait;
        loop {
            let noted = fs::read_dir(&directory).ok()?.flatten().filter_map(|entry| {
                let name = entry.file_name();
                let complete = !name.to_string_lossy().ends_with(".part");
                complete.then(|| fs::read_to_string(entry.path()).ok()?.parse().ok()).flatten()
            });
            let most = noted.max();
            if most.is_some() || Instant::now() >= deadline {
                return most;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}
