//! A login on the host in the form that each tool takes, and a login from the host to this machine.

use super::shell::joined;

/// The ssh options in addition to the user's own: never ask for input, and log in anew in each run, as the user's
/// command would.
const SSH_OPTIONS: [&str; 8] = [
    "BatchMode=yes",
    "ControlMaster=no",
    "ControlPath=none",
    "RemoteCommand=none",
    "RequestTTY=no",
    "ClearAllForwardings=yes",
    "ForwardX11=no",
    "ForwardAgent=no",
];

/// A login on the host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BenchLogin {
    /// The host as the user typed it, for messages.
    pub typed: String,
    /// The user name, if one was typed.
    pub user: Option<String>,
    /// The host name or address.
    pub host: String,
    /// The port, if one was typed.
    pub port: Option<u16>,
    /// The user's ssh command and its options.
    pub ssh: Vec<String>,
}

/// A login from the host to this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReverseLogin {
    /// `host` or `user@host`, in plain characters.
    pub host: String,
    /// The port of this machine's sshd, if it is not the default.
    pub port: Option<u16>,
}

/// Returns the ssh command with the options that bench adds, and the user and port.
pub(super) fn ssh_words(login: &BenchLogin) -> Vec<String> {
    let mut words = login.ssh.clone();
    words.extend(SSH_OPTIONS.iter().flat_map(|option| ["-o".to_owned(), (*option).to_owned()]));
    words.push("-T".to_owned());
    if let Some(user) = &login.user {
        words.extend(["-l".to_owned(), user.clone()]);
    }
    if let Some(port) = login.port {
        words.extend(["-p".to_owned(), port.to_string()]);
    }
    words
}

/// Returns the ssh command for hakobu, which handles connection sharing itself.
pub(super) fn ssh_of_hakobu(login: &BenchLogin) -> String {
    let mut words = login.ssh.clone();
    words.extend(SSH_OPTIONS[..3].iter().flat_map(|option| ["-o".to_owned(), (*option).to_owned()]));
    joined(&words)
}

/// Returns the host in hakobu's syntax, up to the path.
pub(super) fn hakobu_host(login: &BenchLogin) -> String {
    let user = login.user.as_ref().map(|user| format!("{user}@")).unwrap_or_default();
    let host = copy_host(&login.host);
    match login.port {
        Some(port) => format!("ssh://{user}{host}:{port}"),
        None => format!("{user}{host}:"),
    }
}

/// Returns the host in the syntax of scp and rsync.
pub(super) fn copy_host(host: &str) -> String {
    if host.contains(':') { format!("[{host}]") } else { host.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn login() -> BenchLogin {
        BenchLogin {
            typed: "me@h".to_owned(),
            user: Some("me".to_owned()),
            host: "h".to_owned(),
            port: Some(2222),
            ssh: ["ssh", "-F", "/my conf"].map(str::to_owned).to_vec(),
        }
    }

    #[test]
    fn runs_ask_nothing_and_share_no_login() {
        let words = ssh_words(&login()).join(" ");
        assert!(
            words.starts_with("ssh -F /my conf -o BatchMode=yes -o ControlMaster=no -o ControlPath=none"),
            "{words}"
        );
        assert!(words.ends_with(" -T -l me -p 2222"), "{words}");
        let words = ssh_of_hakobu(&login());
        assert_eq!(words, "ssh -F '/my conf' -o 'BatchMode=yes' -o 'ControlMaster=no' -o 'ControlPath=none'");
    }

    #[test]
    fn hosts_are_spelt_as_each_tool_takes_them() {
        assert_eq!(hakobu_host(&login()), "ssh://me@h:2222");
        let six = BenchLogin { user: None, port: None, host: "fd00::1".to_owned(), ..login() };
        assert_eq!((hakobu_host(&six).as_str(), copy_host(&six.host).as_str()), ("[fd00::1]:", "[fd00::1]"));
    }
}
