//! Tells the program which commit it is built from: that of `HAKOBU_COMMIT`, of an archive that git made, or of the git tree.
//!
//! Builds for development name none, so that a commit does not build the program again.

use std::path::Path;
use std::process::Command;

/// Git writes the commit and its date into this file of an archive.
const ARCHIVED: &str = "commit.txt";

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed={ARCHIVED}");
    println!("cargo:rerun-if-env-changed=HAKOBU_COMMIT");
    let is_release = std::env::var("PROFILE").is_ok_and(|profile| profile == "release");
    let commit = std::env::var("HAKOBU_COMMIT").ok();
    let commit = commit.or_else(of_archive).or_else(|| of_tree().filter(|_| is_release));
    println!("cargo:rustc-env=HAKOBU_BUILT_FROM={}", commit.as_deref().map_or("unknown", str::trim));
    println!("cargo:rustc-env=HAKOBU_BUILT_FOR={}", std::env::var("TARGET").unwrap_or_default());
}

fn of_archive() -> Option<String> {
    let text = std::fs::read_to_string(ARCHIVED).ok()?;
    (!text.starts_with('$')).then_some(text)
}

fn of_tree() -> Option<String> {
    // A tree of somebody else's may be around an unpacked archive.
    if !Path::new("../../.git").exists() {
        return None;
    }
    let head = git(&["rev-parse", "--git-path", "logs/HEAD"])?;
    println!("cargo:rerun-if-changed={}", head.trim());
    git(&["show", "--no-patch", "--abbrev=12", "--format=%h %cs", "HEAD"])
}

fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    output.status.success().then(|| String::from_utf8(output.stdout).ok())?
}
