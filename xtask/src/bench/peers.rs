//! The tools that hakobu is compared with: installed where possible, else named as absent.

use std::collections::BTreeMap;
use std::process::{Command, Stdio};

use serde::Serialize;

/// A tool: its name, Debian's package, and how it tells its version.
struct Tool {
    name: &'static str,
    /// None: no package of Debian's has it.
    package: Option<&'static str>,
    version: &'static [&'static str],
}

const TOOLS: &[Tool] = &[
    Tool { name: "ssh", package: Some("openssh-client"), version: &["ssh", "-V"] },
    Tool { name: "scp", package: Some("openssh-client"), version: &["ssh", "-V"] },
    Tool { name: "iperf3", package: Some("iperf3"), version: &["iperf3", "--version"] },
    Tool { name: "mbuffer", package: Some("mbuffer"), version: &["mbuffer", "--version"] },
    Tool { name: "nc", package: Some("netcat-openbsd"), version: &["nc", "-h"] },
    Tool { name: "rsync", package: Some("rsync"), version: &["rsync", "--version"] },
    Tool { name: "tar", package: Some("tar"), version: &["tar", "--version"] },
    Tool { name: "cp", package: Some("coreutils"), version: &["cp", "--version"] },
    Tool { name: "rclone", package: Some("rclone"), version: &["rclone", "version"] },
    Tool { name: "rcp", package: None, version: &["rcp", "--version"] },
    Tool { name: "qcp", package: None, version: &["qcp", "--version"] },
];

/// What is known about the tools that are needed.
#[derive(Debug, Default, Serialize)]
#[serde(transparent)]
pub struct Peers(BTreeMap<String, Presence>);

/// Whether a tool is here.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Presence {
    /// With this version.
    Version(String),
    /// Why not.
    Absent(String),
}

impl Peers {
    /// Looks for the tools and installs what is missing.
    pub fn ensure(names: impl IntoIterator<Item = &'static str>) -> Self {
        let mut found = BTreeMap::new();
        for name in names {
            if found.contains_key(name) {
                continue;
            }
            let presence = match TOOLS.iter().find(|tool| tool.name == name) {
                Some(tool) => ensure(tool),
                None => Presence::Absent("an unknown tool".to_owned()),
            };
            found.insert(name.to_owned(), presence);
        }
        Self(found)
    }

    /// Why a tool is not here; `None` when it is.
    pub fn absent(&self, name: &str) -> Option<&str> {
        match self.0.get(name) {
            Some(Presence::Absent(why)) => Some(why),
            _ => None,
        }
    }

    /// All tools.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Presence)> {
        self.0.iter().map(|(name, presence)| (name.as_str(), presence))
    }
}

fn ensure(tool: &Tool) -> Presence {
    if let Some(version) = version(tool.version) {
        return Presence::Version(version);
    }
    let Some(package) = tool.package else {
        return Presence::Absent("not installed, and no package of Debian's".to_owned());
    };
    if let Err(why) = install(package) {
        return Presence::Absent(format!("not installed, and {package} cannot be: {why}"));
    }
    match version(tool.version) {
        Some(version) => Presence::Version(version),
        None => Presence::Absent(format!("not there, though {package} is installed")),
    }
}

/// The first line of what the tool says about itself that has a digit; `None` when it cannot be run.
pub fn version(words: &[&str]) -> Option<String> {
    let output = Command::new(words[0]).args(&words[1..]).stdin(Stdio::null()).output().ok()?;
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text).into_owned();
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let said = lines.clone().find(|line| line.contains(|c: char| c.is_ascii_digit()));
    Some(said.or_else(|| lines.next()).unwrap_or("unknown").to_owned())
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
    use super::super::groups::GROUPS;
    use super::super::rows::OURS;
    use super::*;

    #[test]
    fn every_tool_of_the_table_is_known() {
        for way in GROUPS.iter().flat_map(|group| group.ways) {
            assert!(way.tool == OURS || TOOLS.iter().any(|tool| tool.name == way.tool), "{}", way.tool);
        }
    }

    #[test]
    fn presence_is_found_out_and_absence_has_a_reason() {
        let peers = Peers::ensure(["cp", "no-such-tool"]);
        assert_eq!(peers.absent("cp"), None);
        assert!(peers.absent("no-such-tool").is_some());
        assert!(version(&["cp", "--version"]).unwrap().contains("cp"));
        assert_eq!(version(&["no-such-program-here"]), None);
    }
}
