//! Parses the command that ssh was asked to run when the server runs another one: a forced command finds it in
//! `SSH_ORIGINAL_COMMAND`. No part of it is ever run.

use hakobu_core::error::{Error, ErrorKind, Result};
use hakobu_core::path::lossy;

/// The length in characters to which a refused command is shortened in the message.
const SHOWN_CHARS: usize = 60;

/// The refusal of any other command. The peer's hakobu recognizes it by this text.
pub(super) const FOR_HAKOBU_ALONE: &str = "this login is for hakobu alone";

/// The request of the peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OriginalCommand {
    /// An agent.
    Agent,
    /// A data connection to an agent that listens.
    Join {
        /// The agent's process ID.
        process: u32,
        /// The port that the agent reported.
        port: u16,
    },
    /// A check whether the login works.
    Nothing,
}

/// Parses `SSH_ORIGINAL_COMMAND`.
///
/// # Errors
/// `Refused` for a command that no hakobu sends.
pub fn asked(original: Option<&[u8]>) -> Result<OriginalCommand> {
    match original {
        // The line that starts an agent differs from version to version; in each case this process becomes an agent.
        None => Ok(OriginalCommand::Agent),
        Some(b"true") => Ok(OriginalCommand::Nothing),
        Some(command) => match join(command) {
            Some(join) => Ok(join),
            None if is_of_hakobu(command) => Ok(OriginalCommand::Agent),
            None => Err(refused(command)),
        },
    }
}

/// Parses exactly `exec /proc/PROCESS/exe agent --join PORT`.
fn join(command: &[u8]) -> Option<OriginalCommand> {
    let rest = std::str::from_utf8(command).ok()?.strip_prefix("exec /proc/")?;
    let (process, port) = rest.split_once("/exe agent --join ")?;
    Some(OriginalCommand::Join { process: number(process)?, port: u16::try_from(number(port)?).ok()? })
}

/// Parses a number in its shortest form, of digits only.
fn number(text: &str) -> Option<u32> {
    let plain = text.bytes().all(|byte| byte.is_ascii_digit()) && !text.starts_with('0');
    text.parse().ok().filter(|_| plain)
}

/// Returns true if the line may start an agent of some version: a script that is given the name, or the program.
fn is_of_hakobu(command: &[u8]) -> bool {
    const GIVEN: &[u8] = b"' hakobu ";
    let mut words = command.split(|&byte| byte == b' ');
    let program = words.next().unwrap_or_default().rsplit(|&byte| byte == b'/').next();
    command.starts_with(b"sh -c '") && command.windows(GIVEN.len()).any(|part| part == GIVEN)
        || program == Some(b"hakobu") && words.next() == Some(b"agent")
}

fn refused(command: &[u8]) -> Error {
    let shown: String = lossy(command).chars().take(SHOWN_CHARS).collect();
    let words = format!("{FOR_HAKOBU_ALONE}, and {shown:?} is none of its commands");
    Error::new(ErrorKind::Refused, "starting the agent", words)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(command: &str) -> Result<OriginalCommand> {
        asked(Some(command.as_bytes()))
    }

    #[test]
    fn a_connection_is_joined_if_every_letter_is_right() {
        let join = OriginalCommand::Join { process: 4711, port: 65535 };
        assert_eq!(of("exec /proc/4711/exe agent --join 65535").unwrap(), join);
        for other in [
            "exec /proc/4711/exe agent --join 65536",
            "exec /proc/4711/exe agent --join 0",
            "exec /proc/4711/exe agent --join 022",
            "exec /proc/4711/exe agent --join +22",
            "exec /proc/4711/exe agent --join 22 ",
            "exec /proc/4711/exe agent --join 22; id",
            "exec  /proc/4711/exe agent --join 22",
            "exec /proc/self/exe agent --join 22",
            "exec /proc/1/../4711/exe agent --join 22",
            "exec /proc//exe agent --join 22",
            "exec /proc/4294967296/exe agent --join 22",
            " exec /proc/4711/exe agent --join 22",
        ] {
            assert_eq!(of(other).unwrap_err().kind, ErrorKind::Refused, "{other}");
        }
        assert_eq!(asked(Some(b"exec /proc/1/exe agent --join \xff")).unwrap_err().kind, ErrorKind::Refused);
    }

    #[test]
    fn what_else_hakobu_asks_for_is_an_agent_and_nothing_of_it_counts() {
        assert_eq!(asked(None).unwrap(), OriginalCommand::Agent);
        assert_eq!(of("true").unwrap(), OriginalCommand::Nothing);
        for line in ["sh -c '… agent' hakobu 0 0 0", "hakobu agent --join 22", "hakobu agent --restrict /"]
        {
            assert_eq!(of(line).unwrap(), OriginalCommand::Agent, "{line}");
        }
        for line in [
            "",
            "id",
            "hakobu; id",
            "hakobu copy /a /b",
            "sh -c 'touch /hakobu'",
            "scp -t /etc",
            "/usr/lib/openssh/sftp-server",
            "rsync --server . /",
        ] {
            let error = of(line).unwrap_err();
            assert_eq!(error.kind, ErrorKind::Refused, "{line}");
            assert!(error.detail.contains(FOR_HAKOBU_ALONE), "{error}");
        }
    }
}
