//! The errors of starting an agent.

use std::io;
use std::time::Duration;

use super::upload::static_name;

/// The reason why no agent could be started on the remote host. Every message states what to do, if anything can be
/// done.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SshError {
    /// A host, user name, path or ssh command that cannot be used.
    #[error("{what} {text:?} cannot be used: {why}")]
    Unusable {
        /// The kind of value: "host", "user", "agent path", "ssh command".
        what: &'static str,
        /// The value as typed, made printable.
        text: String,
        /// The reason.
        why: &'static str,
    },
    /// The ssh command itself could not be started.
    #[error(
        "cannot run the ssh command {command:?}: {error}; {}",
        match .command.as_str() {
            "ssh" => "install it, or name another with --ssh COMMAND",
            _ => "see what --ssh or HAKOBU_SSH names",
        }
    )]
    Spawn {
        /// Its first word.
        command: String,
        /// The system's reason.
        error: io::Error,
    },
    /// ssh ended with 255, its code for its own failures.
    #[error("ssh could not log in to {host} (its own words are above); `{command}` has to work first")]
    Login {
        /// The remote host.
        host: String,
        /// The command with which the user can try it.
        command: String,
    },
    /// Something else than an agent answered.
    #[error(
        "what runs on {host} is not a hakobu agent: {}; {}",
        spoken(.first_line),
        match .agent {
            Some(path) => format!("--agent names {path:?}, and it has to be hakobu"),
            None => "install hakobu there, or name it with --agent PATH".to_owned(),
        }
    )]
    NotAnAgent {
        /// The remote host.
        host: String,
        /// The first line received, printable and limited to 500 characters; empty if nothing was received.
        first_line: String,
        /// The value of `--agent`, made printable.
        agent: Option<String>,
    },
    /// The agent ended before its preamble.
    #[error(
        "the hakobu agent on {host} ended before it spoke ({ending}); its own words, if any, are above; \
         {}",
        match .agent {
            Some(path) => format!("--agent names {path:?}, and it has to be hakobu: see what `ssh {host} {path} --version` says"),
            None => format!("see what `ssh {host} hakobu --version` says"),
        }
    )]
    Ended {
        /// The remote host.
        host: String,
        /// "exit code 3", "signal 9".
        ending: String,
        /// The value of `--agent`, made printable.
        agent: Option<String>,
    },
    /// Nothing happened for the time limit.
    #[error("no answer from {host} within {limit:?}; see whether `ssh {host}` works")]
    TimedOut {
        /// The remote host.
        host: String,
        /// The limit.
        limit: Duration,
    },
    /// Not on the remote PATH, and there is nothing to upload.
    #[error(
        "{}, and this build cannot upload itself, because it is not static; {}; or {}",
        match .agent {
            Some(path) => format!("{path:?}, which --agent names, is not on {host}"),
            None => format!("hakobu is not on the PATH of {host}"),
        },
        making(.wanted),
        installing(.host, .agent)
    )]
    NothingToUpload {
        /// The remote host.
        host: String,
        /// The name of the file that would be uploaded.
        wanted: String,
        /// The value of `--agent`, made printable.
        agent: Option<String>,
    },
    /// The remote host has another architecture than every program that could be uploaded.
    #[error(
        "another architecture: {host} is {far}, this program is {near}; {}",
        installing(.host, .agent)
    )]
    Architecture {
        /// The remote host.
        host: String,
        /// The remote architecture, as in `uname -m`.
        far: String,
        /// The architectures that could be uploaded.
        near: String,
        /// The value of `--agent`, made printable.
        agent: Option<String>,
    },
    /// The remote system is not Linux.
    #[error("{host} runs {system}; the agent needs Linux")]
    System {
        /// The remote host.
        host: String,
        /// The system, as in `uname -s`.
        system: String,
    },
    /// The remote kernel is older than [`OLDEST_KERNEL`](super::OLDEST_KERNEL).
    #[error("{host} runs Linux {release}; the agent needs {}.{} or later", .oldest.0, .oldest.1)]
    Kernel {
        /// The remote host.
        host: String,
        /// The release, as in `uname -r`.
        release: String,
        /// The oldest supported version.
        oldest: (u32, u32),
    },
    /// No directory on the remote host accepts the program and allows execution.
    #[error(
        "{host} has no directory that has room for the program and allows execution (tried:{tried}); {}",
        installing(.host, .agent)
    )]
    NoPlace {
        /// The remote host.
        host: String,
        /// The directories, each with its reason.
        tried: String,
        /// The value of `--agent`, made printable.
        agent: Option<String>,
    },
    /// The remote directory filled up during the upload.
    #[error("no room for the program in {place} on {host}; free some, or install hakobu there")]
    NoRoom {
        /// The remote host.
        host: String,
        /// The directory.
        place: String,
    },
    /// The program received differs from the one sent.
    #[error("the program arrived damaged on {host} (its digest is another one); start again")]
    Damaged {
        /// The remote host.
        host: String,
    },
    /// The program to upload cannot be read.
    #[error("cannot read {path}, the program to upload: {error}")]
    Upload {
        /// The file.
        path: String,
        /// The system's reason.
        error: io::Error,
    },
    /// `--agent` names something that cannot be run.
    #[error(
        "the agent path {path:?} on {host} is there, but cannot be run; name a program with --agent PATH"
    )]
    NotExecutable {
        /// The remote host.
        host: String,
        /// The path as typed, made printable.
        path: String,
    },
    /// The remote host has no sudo.
    #[error("{host} has no sudo on its PATH; log in as root instead, or leave --sudo out")]
    NoSudo {
        /// The remote host.
        host: String,
    },
    /// sudo requires a password and none was given.
    #[error(
        "sudo on {host} wants a password, and none was given; run hakobu on a terminal, or allow it without one"
    )]
    NoPassword {
        /// The remote host.
        host: String,
    },
    /// The password was wrong each time sudo asked.
    #[error("sudo on {host} did not accept the password; it is that of the user over there")]
    WrongPassword {
        /// The remote host.
        host: String,
    },
    /// sudo refused for a reason of its own.
    #[error("sudo on {host} did not start the agent (its own words are above)")]
    Sudo {
        /// The remote host.
        host: String,
    },
    /// A session besides the first could not be opened. Nobody was asked anything for it.
    #[error("no further ssh session to {host}: {words}")]
    Further {
        /// The remote host.
        host: String,
        /// ssh's last output, printable.
        words: String,
    },
    /// The pipes to ssh failed.
    #[error("the pipe to ssh failed: {0}")]
    Pipe(#[from] io::Error),
}

impl SshError {
    /// Returns true if the login worked but no agent can run there. Other transports may still work.
    #[must_use]
    pub fn is_agentless(&self) -> bool {
        matches!(
            self,
            Self::NotAnAgent { .. }
                | Self::Ended { .. }
                | Self::NothingToUpload { .. }
                | Self::Architecture { .. }
                | Self::System { .. }
                | Self::Kernel { .. }
                | Self::NoPlace { .. }
                | Self::NoRoom { .. }
        )
    }
}

/// Describes the output, or its absence.
fn spoken(line: &str) -> String {
    if line.is_empty() { "it said nothing".to_owned() } else { format!("it says {line:?}") }
}

/// Returns the command that makes the program to upload, and the places where it is found.
fn making(wanted: &str) -> String {
    let place = match wanted == static_name(std::env::consts::ARCH) {
        true => "in the source tree",
        false => "in the source tree, on a machine of that kind,",
    };
    format!(
        "`cargo xtask dist --program-only` {place} makes dist/{wanted}, which is uploaded from there \
         or from the directory of this program"
    )
}

/// Returns the advice if no program could be found or uploaded. A user who gave `--agent` is not told to give it.
fn installing(host: &str, agent: &Option<String>) -> String {
    match agent {
        Some(path) => format!("install hakobu on {host}, or correct --agent: nothing is at {path:?}"),
        None => format!("install hakobu on {host}, or name it with --agent PATH"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nothing_to_upload(machine: &str) -> String {
        let wanted = static_name(machine);
        SshError::NothingToUpload { host: "far".to_owned(), wanted, agent: None }.to_string()
    }

    #[test]
    fn a_build_that_is_not_static_names_the_command_that_makes_one_and_its_place() {
        let own = std::env::consts::ARCH;
        let said = nothing_to_upload(own);
        let command = "`cargo xtask dist --program-only` in the source tree makes dist/hakobu-static-";
        assert!(said.contains(&format!("{command}{own}, ")), "{said}");
        assert!(said.contains("or from the directory of this program; or install hakobu on far"), "{said}");
        let said = nothing_to_upload("riscv64");
        assert!(said.contains("on a machine of that kind, makes dist/hakobu-static-riscv64"), "{said}");
    }
}
