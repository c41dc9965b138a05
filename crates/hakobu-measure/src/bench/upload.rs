//! Copies files to the host before anything is measured. It uses ssh and cat, which every host that bench can log in
//! to has.

use std::fs::File;
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::cleanup_shell::CleanupShell;
use super::error::BenchError;
use super::login::{BenchLogin, ssh_words};
use super::run::NoTiming;
use super::shell::quoted;

/// The time limit for one file.
const LIMIT: Duration = Duration::from_secs(300);
/// The maximum number of bytes kept of ssh's standard error.
const WORDS_BYTES_MAX: u64 = 4096;

/// Copies a file to a path on the host.
pub(super) fn bring(
    login: &BenchLogin,
    (file, target): (&Path, &str),
    keeper: &CleanupShell,
    stop: &dyn Fn() -> bool,
) -> Result<(), NoTiming> {
    let failed = |error: String| NoTiming::Row(format!("bringing data to the host: {error}"));
    let content = File::open(file).map_err(|error| failed(format!("{}: {error}", file.display())))?;
    let words = ssh_words(login);
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]).arg("--").arg(&login.host).arg(format!("cat >{}", quoted(target)));
    command.stdin(content).stdout(Stdio::null()).stderr(Stdio::piped()).process_group(0);
    let mut child = command.spawn().map_err(|error| failed(error.to_string()))?;
    let _kept = keeper.group(child.id());
    let deadline = Instant::now() + LIMIT;
    let status = loop {
        match child.try_wait().map_err(|error| failed(error.to_string()))? {
            Some(status) => break status,
            None if stop() || Instant::now() > deadline => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(if stop() {
                    BenchError::Stopped.into()
                } else {
                    failed("it took too long".to_owned())
                });
            }
            None => std::thread::sleep(Duration::from_millis(10)),
        }
    };
    if status.success() {
        return Ok(());
    }
    let mut said = String::new();
    if let Some(errors) = child.stderr.take() {
        let _ = errors.take(WORDS_BYTES_MAX).read_to_string(&mut said);
    }
    Err(failed(said.lines().map(str::trim).collect::<Vec<_>>().join(" / ")))
}
