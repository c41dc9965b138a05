//! Builds the command lines that people can type: one line for a shell in which SOURCE and TARGET are set, each to a
//! path without spaces on the machine where it is.
//!
//! The functions that build the scripts also build these lines, from other names. The shell of this machine expands
//! text between double quotes, so variables in it are those of this machine.

use super::case::{BenchCase, EndKinds};
use super::login::{BenchLogin, copy_host, hakobu_host};
use super::names::{NamedFile, ScriptNames};
use super::scripts::{CommandNames, ListenCommand, Scripts};
use super::shell::{is_plain, joined, quoted};

/// The names of this machine, the host and the programs as the user typed them, or would type them.
#[derive(Debug, Clone, Default)]
pub struct TypedNamesShown {
    /// The login on the host; `None` on one machine.
    pub login: Option<BenchLogin>,
    /// The `hakobu` program on this machine.
    pub hakobu: String,
    /// The `hakobu` program on the host, if it remains after the bench.
    pub agent: Option<String>,
    /// The address of the host, and the port for methods with their own connection.
    pub address: (String, u16),
}

impl TypedNamesShown {
    /// Returns the ssh command with user and port.
    pub(super) fn ssh(&self) -> Vec<String> {
        let Some(login) = &self.login else { return Vec::new() };
        let mut words = login.ssh.clone();
        if let Some(user) = &login.user {
            words.extend(["-l".to_owned(), user.clone()]);
        }
        if let Some(port) = login.port {
            words.extend(["-p".to_owned(), port.to_string()]);
        }
        words
    }

    /// Returns the content of the script for `$SSH` in the lines, if they use it. scp accepts only a program name for
    /// its ssh, without options.
    #[must_use]
    pub fn script_of_ssh(&self) -> Option<String> {
        let login = self.login.as_ref()?;
        (!is_simple(login)).then(|| format!("exec {} \"$@\"", joined(&self.ssh())))
    }

    /// Returns the words for scripts on this machine.
    pub(super) fn words(&self) -> CommandNames {
        let mut words = CommandNames {
            ssh: joined(&self.ssh()),
            ssh_inside: within(&joined(&self.ssh())).replace('"', "\\\""),
            scp: "scp -q -S \"$SSH\"".to_owned(),
            host: String::new(),
            copy_host: String::new(),
            hakobu: format!("{} copy -q", word(&self.hakobu)),
            agent: self.agent.as_ref().map(|path| format!(" --agent {}", word(path))).unwrap_or_default(),
            hakobu_host: String::new(),
            address: word(&self.address.0),
            port: self.address.1.to_string(),
        };
        let Some(login) = &self.login else { return words };
        words.host = word(&login.host);
        words.copy_host = copy_host(&login.host);
        words.hakobu_host = word(&hakobu_host(login));
        if is_simple(login) {
            let port = login.port.map(|port| format!(" -P {port}")).unwrap_or_default();
            let user = login.user.as_ref().map(|user| format!("{user}@")).unwrap_or_default();
            words.scp = format!("scp -q{port}");
            words.copy_host = within(&format!("{user}{}", words.copy_host));
        } else {
            words.hakobu.push_str(&format!(" --ssh {}", quoted(&joined(&login.ssh))));
        }
        words
    }

    /// Returns the names for scripts on the host, which are put between double quotes.
    pub(super) fn names(&self, names: &ScriptNames) -> ScriptNames {
        ScriptNames {
            near_source: NamedFile::in_variable("SOURCE"),
            far_source: NamedFile::in_variable("SOURCE"),
            near_target: NamedFile::in_variable("TARGET"),
            far_target: NamedFile::in_variable("TARGET"),
            far_hakobu: within(&word(self.agent.as_deref().unwrap_or("hakobu"))),
            near_hakobu: within(&word(&self.hakobu)),
            far_report: None,
            ..names.clone()
        }
    }
}

/// Returns true if ssh is the default without options, which scp and hakobu use by themselves.
fn is_simple(login: &BenchLogin) -> bool {
    login.ssh == ["ssh"]
}

/// Returns one word for a shell, quoted if necessary.
fn word(text: &str) -> String {
    if is_plain(text) { text.to_owned() } else { quoted(text) }
}

/// Escapes text for use between double quotes in this machine's shell. Double quotes themselves are not escaped.
fn within(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        if matches!(letter, '\\' | '$' | '`') {
            escaped.push('\\');
        }
        escaped.push(letter);
    }
    escaped
}

/// Returns all commands of a case as one line.
pub(super) fn line(case: &BenchCase, scripts: &Scripts, words: &CommandNames) -> String {
    let between = |script: &str| format!("\"{}\"", script.replace('"', "\\\""));
    let mut line = scripts.near.replace("\"$FAR\"", &between(scripts.far.as_deref().unwrap_or_default()));
    match &scripts.listener {
        None => {}
        Some(ListenCommand::There(script)) => {
            line = format!("{} {} {} & sleep 1; {line}; wait", words.ssh, words.host, between(script));
        }
        Some(ListenCommand::Here(script)) => line = format!("({script}) & sleep 1; {line}; wait"),
    }
    match case.ends {
        EndKinds::MemoryToNothing => line.replace("\"$TARGET\"", "/dev/null"),
        _ => line,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn login() -> BenchLogin {
        BenchLogin { typed: "h".into(), user: None, host: "h".into(), port: None, ssh: vec!["ssh".into()] }
    }

    #[test]
    fn a_simple_login_is_typed_as_people_do() {
        let simple = BenchLogin { user: Some("me".into()), port: Some(22_022), ..login() };
        let typed = TypedNamesShown {
            login: Some(simple),
            hakobu: "/usr/bin/hakobu".into(),
            ..TypedNamesShown::default()
        };
        let words = typed.words();
        assert_eq!((words.ssh.as_str(), words.host.as_str()), ("ssh -l me -p 22022", "h"));
        assert_eq!((words.scp.as_str(), words.copy_host.as_str()), ("scp -q -P 22022", "me@h"));
        assert_eq!((words.hakobu.as_str(), words.agent.as_str()), ("/usr/bin/hakobu copy -q", ""));
        assert_eq!((words.hakobu_host.as_str(), typed.script_of_ssh()), ("ssh://me@h:22022", None));
    }

    #[test]
    fn options_of_ssh_and_odd_paths_are_quoted() {
        let ssh = ["ssh", "-F", "/my conf"].map(str::to_owned).to_vec();
        let typed = TypedNamesShown {
            login: Some(BenchLogin { ssh, ..login() }),
            hakobu: "/my $HOME/it's".into(),
            agent: Some("/far programs/hakobu".into()),
            address: ("192.0.2.7".into(), 4000),
        };
        let words = typed.words();
        assert_eq!(words.hakobu, r#"'/my $HOME/it'\''s' copy -q --ssh 'ssh -F '\''/my conf'\'''"#);
        assert_eq!(words.agent, " --agent '/far programs/hakobu'");
        assert_eq!(typed.script_of_ssh().unwrap(), "exec ssh -F '/my conf' \"$@\"");
        // If a shell reads it between double quotes, another shell that gets the result must read the original path.
        let script = format!("sh -c \"printf %s {}\"", within(&word("/my $HOME/it's")));
        let output = std::process::Command::new("sh").args(["-c", &script]).output().unwrap();
        assert_eq!(output.stdout, b"/my $HOME/it's");
    }
}
