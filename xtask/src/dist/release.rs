//! A release: its version, and the time of all of its files.

use std::env;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::linked::LinkedPackages;

/// The long description in packages, below the summary.
pub(super) const LONG_DESCRIPTION: &str = "\
It starts itself on other machines over ssh, and sends the data over encrypted
connections of its own, on all processors. Every byte is checked on arrival,
and a file appears under its name only when it is complete.

The program is static: it needs no other package. Hosts that lack it get it
for the time of a run. systemctl enable hakobu-jobs.service has interrupted
background jobs go on when the machine starts.";

/// A version of the program at a commit.
#[derive(Debug, Clone)]
pub(super) struct Release {
    /// The version of the package `hakobu`.
    pub version: String,
    /// The summary of the package `hakobu`.
    pub description: String,
    /// The licence of the project, as an SPDX expression.
    pub licence: String,
    /// The time of every file, in seconds since 1970: the commit's, or SOURCE_DATE_EPOCH.
    pub epoch: u64,
}

impl Release {
    /// Returns the release of the present source tree.
    pub(super) fn of(linked: &LinkedPackages, workspace: &Path) -> Result<Self> {
        let package = linked.root()?;
        let (description, licence) = (package.description.clone(), package.licence.clone());
        Ok(Self {
            version: package.version.clone(),
            description: description.context("the package hakobu has no description")?,
            licence: licence.context("the package hakobu has no licence")?,
            epoch: epoch(workspace)?,
        })
    }

    /// Returns the time in the format of JSON files: `2026-11-26T20:01:02Z`.
    pub(super) fn time(&self) -> Result<String> {
        let seconds = i64::try_from(self.epoch).context("the time of the release")?;
        Ok(jiff::Timestamp::from_second(seconds).context("the time of the release")?.to_string())
    }

    /// Returns the version as Debian and RPM order it: a tilde sorts before the end, so `0.2.0~rc.1` precedes `0.2.0`.
    pub(super) fn packaged_version(&self) -> String {
        self.version.replace('-', "~")
    }
}

/// Returns the time from the environment, otherwise that of the commit. Warns of uncommitted changes, because nobody
/// could build the release again.
fn epoch(workspace: &Path) -> Result<u64> {
    if let Ok(text) = env::var("SOURCE_DATE_EPOCH") {
        return text.trim().parse().context("SOURCE_DATE_EPOCH has to be a number of seconds since 1970");
    }
    let git = |arguments: &[&str]| -> Result<String> {
        let output = Command::new("git").args(arguments).current_dir(workspace).output();
        let output = output.context("running git; without it set SOURCE_DATE_EPOCH")?;
        ensure!(
            output.status.success(),
            "git {} failed: {}; outside of a git tree set SOURCE_DATE_EPOCH",
            arguments.join(" "),
            String::from_utf8_lossy(&output.stderr).trim()
        );
        String::from_utf8(output.stdout).context("reading the output of git")
    };
    if !git(&["status", "--porcelain"])?.is_empty() {
        println!("note: the source tree has changes that are not committed");
    }
    git(&["log", "-1", "--format=%ct"])?.trim().parse().context("reading the time of the commit")
}

#[cfg(test)]
impl Release {
    /// Returns a release for tests.
    pub(super) fn example() -> Self {
        Self {
            version: "0.2.0-rc.1".to_owned(),
            description: "Moves data".to_owned(),
            licence: "MIT OR Apache-2.0".to_owned(),
            epoch: 1_790_000_000,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_versions_have_the_form_that_packages_want() {
        let release = Release::example();
        assert_eq!(release.time().unwrap(), "2026-09-21T14:13:20Z");
        assert_eq!(release.packaged_version(), "0.2.0~rc.1");
    }
}
