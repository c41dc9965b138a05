//! The directories of the workspace, and the program that is built from it.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

/// Returns the directory of the workspace and its build directory.
pub(super) fn directories() -> Result<(PathBuf, PathBuf)> {
    let workspace = fs::canonicalize(Path::new(env!("CARGO_MANIFEST_DIR")).join(".."))?;
    let target_dir = env::var_os("CARGO_TARGET_DIR").map_or_else(|| workspace.join("target"), PathBuf::from);
    Ok((workspace, target_dir))
}

/// Returns the program to measure, built from the workspace unless it was given.
pub(super) fn program(given: Option<&Path>, workspace: &Path, target_dir: &Path) -> Result<PathBuf> {
    if let Some(path) = given {
        return Ok(path.to_owned());
    }
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let status = Command::new(cargo)
        .args(["build", "--release", "-p", "hakobu"])
        .current_dir(workspace)
        .status()
        .context("running cargo")?;
    ensure!(status.success(), "the build failed, {status}");
    Ok(target_dir.join("release/hakobu"))
}
