//! Copies files to the host before anything is measured. It uses ssh and cat, which every host that bench can log in
//! to has.

use std::fs::File;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use super::cleanup_shell::CleanupShell;
use super::error::BenchError;
use super::login::{BenchLogin, ssh_words};
use super::run::NoTiming;
use super::shell::quoted;
use crate::process::CommandGroup;

/// The time limit for one file.
const LIMIT: Duration = Duration::from_secs(300);

/// Copies a file to a path on the host. `log` is a file for the output of ssh.
pub(super) fn bring(
    login: &BenchLogin,
    (file, target): (&Path, &str),
    (log, keeper): (&Path, &CleanupShell),
    stop: &dyn Fn() -> bool,
) -> Result<(), NoTiming> {
    let failed = |error: String| NoTiming::Row(format!("bringing data to the host: {error}"));
    let content = File::open(file).map_err(|error| failed(format!("{}: {error}", file.display())))?;
    let words = ssh_words(login);
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]).arg("--").arg(&login.host).arg(format!("cat >{}", quoted(target)));
    command.stdin(content);
    let group = CommandGroup::start(command, log).map_err(|error| failed(error.to_string()))?;
    let _kept = keeper.group(group.pid());
    let stopped = || if stop() { Err(NoTiming::Ends(BenchError::Stopped)) } else { Ok(()) };
    match group.finish(LIMIT, stopped) {
        Ok(_) => Ok(()),
        Err(NoTiming::Row(words)) => Err(failed(words)),
        Err(ends) => Err(ends),
    }
}
