//! mdBook, the program that makes the site.

use std::io;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

/// The version that `.ci/run` installs.
const VERSION: &str = "0.5.4";
/// The versions that read the same settings.
const SERIES: &str = "mdbook v0.5.";

/// Checks that mdBook is on the PATH.
///
/// # Errors
/// Returns an error that says what to install.
pub(super) fn require() -> Result<()> {
    let found = match Command::new("mdbook").arg("--version").output() {
        Ok(output) => String::from_utf8_lossy(&output.stdout).trim().to_owned(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => "none".to_owned(),
        Err(error) => return Err(error).context("running mdbook"),
    };
    if found.starts_with(SERIES) {
        return Ok(());
    }
    bail!("mdBook 0.5 is needed, and on the PATH is {found}. This installs it:\n  {}", install_command());
}

/// Returns the command that installs mdBook, without the parts that serve and watch a book.
fn install_command() -> String {
    format!("cargo install --locked --no-default-features --features search mdbook@{VERSION}")
}

/// Builds the book in `directory` into `output`.
///
/// # Errors
/// Returns an error if mdBook fails or warns of something.
pub(super) fn build(directory: &Path, output: &Path) -> Result<()> {
    let built = Command::new("mdbook")
        .arg("build")
        .arg(directory)
        .arg("--dest-dir")
        .arg(output)
        // Older and newer versions read one of these. Only warnings and errors are printed then.
        .env("RUST_LOG", "warn")
        .env("MDBOOK_LOG", "warn")
        .output()
        .context("running mdbook")?;
    let messages = String::from_utf8_lossy(&built.stderr).trim().to_owned();
    ensure!(built.status.success(), "mdbook failed, {}: {messages}", built.status);
    ensure!(messages.is_empty(), "mdbook warns: {messages}");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_gate_installs_this_version() {
        let gate = include_str!("../../../.ci/run");
        assert!(gate.contains(&format!("install_tool mdbook@{VERSION} ")), "{VERSION}");
    }
}
