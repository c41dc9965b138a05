//! Builds ssh command lines.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::process::{Command, Stdio};

use super::error::SshError;
use super::script;
use super::settings::SshSettings;

/// The line that ssh is made to print on this host once it has logged in.
pub(super) const LOGGED_IN: &str = "hakobu-ssh-has-logged-in";
/// Options for OpenSSH besides the user's own settings. They only remove what would interfere with a plain pipe: a
/// remote command of the user's, forwarded ports that are already in use. They do not affect host keys or
/// authentication.
pub(super) const PLAIN_PIPE: [&str; 8] = [
    "-o",
    "RemoteCommand=none",
    "-o",
    "ClearAllForwardings=yes",
    "-o",
    "ForwardX11=no",
    // No host gets access to the user's keys through hakobu.
    "-o",
    "ForwardAgent=no",
];

/// Options that make ssh fail instead of asking, and log in itself instead of using an open connection.
const NOBODY_THERE: [&str; 4] = ["-o", "BatchMode=yes", "-o", "ControlPath=none"];

/// A command or service that runs in a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionCommand<'a> {
    /// A subsystem of the server: `ssh -s HOST sftp`.
    Subsystem(&'a str),
    /// A connection from the remote host to a port that it can reach: `ssh -W address:port HOST`. Only OpenSSH supports
    /// it.
    Forward {
        /// The address as the remote host knows it.
        address: &'a str,
        /// The port.
        port: u16,
    },
    /// A command for the remote login shell.
    Command(&'a str),
}

/// Builds the command that only logs in, with more options such as `IdentityAgent=none`. `None` if it is not OpenSSH.
pub(super) fn trial(settings: &SshSettings, options: &[&str]) -> Result<Option<Command>, SshError> {
    if program(settings) == Program::Other {
        return Ok(None);
    }
    let ours = options.iter().flat_map(|option| ["-o", option]).chain(NOBODY_THERE).map(str::to_owned);
    let mut command = log_in(settings, &with_options(settings, &ours.collect::<Vec<_>>()))?;
    command.arg("true");
    Ok(Some(command))
}

/// Programs that run ssh on this host, with access to its files and processes.
const WRAPPERS: [&str; 4] = ["env", "ip", "nice", "sshpass"];

/// The kind of ssh program that a command names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Program {
    /// OpenSSH on this host.
    Here,
    /// OpenSSH in an environment that may not share this host's files and processes.
    Elsewhere,
    /// Another program.
    Other,
}

/// Returns the kind of the user's ssh command.
pub(super) fn program(settings: &SshSettings) -> Program {
    let words = &settings.ssh_command;
    let first = words.first().map(|word| file_name(word)).unwrap_or_default();
    match words.iter().position(|word| is_ssh(word)) {
        None => Program::Other,
        Some(0) => Program::Here,
        Some(_) if WRAPPERS.iter().any(|wrapper| first == *wrapper) => Program::Here,
        Some(_) => Program::Elsewhere,
    }
}

/// Builds an ssh command that opens no session: `-G`, or `-O` and `check`. Only for OpenSSH.
pub(super) fn question(settings: &SshSettings, ours: &[&str]) -> Result<Command, SshError> {
    let ours: Vec<String> = ours.iter().map(|&word| word.to_owned()).collect();
    log_in(settings, &with_options(settings, &ours))
}

/// Builds the command that prints ssh's configuration without any configuration files. Only for OpenSSH.
pub(super) fn question_of_nobody(settings: &SshSettings) -> Command {
    let words = &settings.ssh_command;
    let own = words.iter().position(|word| is_ssh(word)).map_or(words.len(), |program| program + 1);
    let mut command = Command::new(words.first().map_or(OsStr::new("ssh"), OsString::as_os_str));
    command.args(words.get(1..own).unwrap_or_default()).args(["-G", "-F", "none", "--", "localhost"]);
    command
}

/// Builds the command of one session, with more arguments for OpenSSH before the user's own.
pub(super) fn session(
    settings: &SshSettings,
    session: SessionCommand<'_>,
    ours: &[String],
) -> Result<Command, SshError> {
    let mut ours = ours.to_vec();
    match session {
        SessionCommand::Subsystem(_) => ours.push("-s".to_owned()),
        SessionCommand::Forward { address, port } => {
            let address = if address.contains(':') { format!("[{address}]") } else { address.to_owned() };
            ours.extend(["-W".to_owned(), format!("{address}:{port}")]);
        }
        SessionCommand::Command(_) => {}
    }
    let mut command = log_in(settings, &with_options(settings, &ours))?;
    if let SessionCommand::Subsystem(what) | SessionCommand::Command(what) = session {
        command.arg(what);
    }
    Ok(command)
}

/// Returns the user's command with the arguments `ours` right after the program: ssh takes the first value that it is
/// given.
pub(super) fn with_options(settings: &SshSettings, ours: &[String]) -> Vec<OsString> {
    let mut words = settings.ssh_command.clone();
    // Other programs also have `-s`, but not the other options. Their position in the command is unknown.
    let at = words.iter().position(|word| is_ssh(word)).map_or(words.len(), |program| program + 1);
    words.splice(at..at, ours.iter().map(OsString::from));
    words
}

/// Builds the command that starts an agent, with pipes as its standard input and output. `ours` are more arguments for
/// OpenSSH.
pub(super) fn build(settings: &SshSettings, ours: &[String]) -> Result<Command, SshError> {
    if let Some(path) = &settings.agent_path
        && (path.is_empty() || path.contains(&0))
    {
        return Err(unusable("agent path", path, "it is empty or holds a NUL"));
    }
    let mut command = log_in(settings, &with_options(settings, ours))?;
    let flags = (settings.sudo, settings.always_upload, settings.nice);
    command.arg(script::command_line(flags, settings.agent_path.as_deref()));
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    Ok(command)
}

/// Builds the command of these words up to the host; the remote command is to follow.
fn log_in(settings: &SshSettings, words: &[OsString]) -> Result<Command, SshError> {
    check("host", &settings.host)?;
    if let Some(user) = &settings.user {
        check("user", user)?;
    }
    let Some((program, own)) = words.split_first() else {
        return Err(unusable("ssh command", b"", "it is empty"));
    };
    let mut command = Command::new(program);
    command.args(own).arg("-T");
    let open_ssh = words.iter().any(|word| is_ssh(word));
    if open_ssh {
        command.args(PLAIN_PIPE);
    }
    if let Some(user) = &settings.user {
        command.arg("-l").arg(OsStr::from_bytes(user));
    }
    if let Some(port) = settings.port {
        command.arg("-p").arg(port.to_string());
    }
    if open_ssh {
        command.arg("--");
    }
    command.arg(OsStr::from_bytes(&settings.host));
    Ok(command)
}

/// Returns true if this is a program named ssh. It may be run directly or through a wrapper (`ip netns exec x ssh`,
/// `sshpass ssh`). Others (dbclient, plink) get no options that they may not know.
fn is_ssh(word: &OsStr) -> bool {
    file_name(word) == "ssh"
}

/// Returns what follows the last slash.
fn file_name(word: &OsStr) -> &OsStr {
    word.as_bytes().rsplit(|byte| *byte == b'/').next().map_or(word, OsStr::from_bytes)
}

/// Refuses names that ssh would parse as options, and invalid names.
fn check(what: &'static str, name: &[u8]) -> Result<(), SshError> {
    let why = if name.is_empty() {
        "it is empty"
    } else if name.starts_with(b"-") {
        "it begins with a dash, and ssh would read it as an option"
    } else if name.iter().any(u8::is_ascii_control) {
        "it holds a control character"
    } else {
        return Ok(());
    };
    Err(unusable(what, name, why))
}

fn unusable(what: &'static str, text: &[u8], why: &'static str) -> SshError {
    let text = String::from_utf8_lossy(text).into_owned();
    SshError::Unusable { what, text, why }
}

/// Returns arguments for an ssh with its own connection that asks nobody and prints [`LOGGED_IN`]; `login` are the
/// arguments of every ssh that logs in.
pub(super) fn words_of_its_own(login: &[String]) -> Vec<String> {
    // The login shell that runs this may be csh, which parses `>&2` differently.
    let say = format!("LocalCommand=sh -c 'echo {LOGGED_IN} >&2'");
    let options = ["BatchMode=yes", "ControlPath=none", "PermitLocalCommand=yes", &say];
    [words(&options), login.to_vec()].concat()
}

/// Prevents ssh from asking anybody: a jump host's ssh does not know of BatchMode. It ends with the thread that starts
/// it.
pub(super) fn with_nobody_to_ask(command: &mut Command) {
    hakobu_sys::process::without_terminal(command);
    command.env("SSH_ASKPASS_REQUIRE", "never").env_remove("SSH_ASKPASS").env_remove("DISPLAY");
}

/// Returns the options as arguments.
pub(super) fn words(options: &[&str]) -> Vec<String> {
    options.iter().flat_map(|option| ["-o".to_owned(), (*option).to_owned()]).collect()
}

#[cfg(test)]
mod tests {
    use hakobu_core::shell::split;

    use super::*;

    fn arguments(settings: &SshSettings) -> Vec<String> {
        let command = build(settings, &[]).unwrap();
        let all = command.get_args();
        all.map(|word| word.to_str().unwrap().to_owned()).collect()
    }

    #[test]
    fn user_and_port_come_before_the_host() {
        let mut settings = SshSettings::new(b"far".to_vec());
        settings.user = Some(b"anna".to_vec());
        settings.port = Some(2222);
        let all = arguments(&settings);
        let at = all.iter().position(|word| word == "--").unwrap();
        assert_eq!(all[at - 4..at], ["-l", "anna", "-p", "2222"]);
        assert_eq!(all[at + 1], "far");
        assert!(all[at + 2].starts_with("sh -c '"));
        assert_eq!(all.len(), at + 3);
        assert!(!all.join(" ").contains("HostKey"));
    }

    #[test]
    fn other_programs_get_no_options_of_openssh() {
        let mut settings = SshSettings::new(b"far".to_vec());
        settings.ssh_command = split("dbclient -y").unwrap();
        assert_eq!(arguments(&settings)[..3], ["-y", "-T", "far"]);
    }

    #[test]
    fn a_trial_asks_nothing_whatever_the_users_options_are() {
        let mut settings = SshSettings::new(b"far".to_vec());
        settings.ssh_command = split("nice ssh -o BatchMode=no").unwrap();
        let command = trial(&settings, &["IdentityAgent=none"]).unwrap().unwrap();
        let all: Vec<_> = command.get_args().map(|word| word.to_str().unwrap()).collect();
        assert_eq!(all[..5], ["ssh", "-o", "IdentityAgent=none", "-o", "BatchMode=yes"]);
        assert_eq!(all[all.len() - 3..], ["--", "far", "true"]);
        settings.ssh_command = split("dbclient").unwrap();
        assert!(trial(&settings, &[]).unwrap().is_none());
        settings.host = b"-oProxyCommand=x".to_vec();
        settings.ssh_command = split("ssh").unwrap();
        assert!(trial(&settings, &[]).is_err());
    }

    #[test]
    fn sessions_are_asked_for_as_ssh_wants_them() {
        let words = |settings: &SshSettings, what| {
            let command = session(settings, what, &["-q".to_owned()]).unwrap();
            command.get_args().map(|word| word.to_str().unwrap().to_owned()).collect::<Vec<_>>().join(" ")
        };
        let mut settings = SshSettings::new(b"far".to_vec());
        settings.ssh_command = split("sshpass -e ssh -4").unwrap();
        let sftp = words(&settings, SessionCommand::Subsystem("sftp"));
        assert!(sftp.starts_with("-e ssh -q -s -4 -T") && sftp.ends_with("-- far sftp"), "{sftp}");
        let forward = words(&settings, SessionCommand::Forward { address: "::1", port: 7 });
        assert!(forward.starts_with("-e ssh -q -W [::1]:7 -4") && forward.ends_with("-- far"), "{forward}");
        for (typed, expected) in [
            ("sshpass -e ssh", Program::Here),
            ("/opt/bin/ssh -4", Program::Here),
            ("docker exec -i x ssh", Program::Elsewhere),
            ("dbclient -y", Program::Other),
        ] {
            settings.ssh_command = split(typed).unwrap();
            assert_eq!(program(&settings), expected, "{typed}");
        }
    }

    #[test]
    fn names_that_are_options_are_refused() {
        for host in ["-oProxyCommand=touch x", "", "a\nb"] {
            let settings = SshSettings::new(host.as_bytes().to_vec());
            let error = build(&settings, &[]).unwrap_err();
            assert!(matches!(error, SshError::Unusable { what: "host", .. }));
        }
        let mut settings = SshSettings::new(b"far".to_vec());
        settings.user = Some(b"-F/x".to_vec());
        let error = build(&settings, &[]).unwrap_err();
        assert!(matches!(error, SshError::Unusable { what: "user", .. }));
    }
}
