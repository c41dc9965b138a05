//! Asks this machine's ssh server for the limits in its configuration, for the login in question if there is one.

use std::net::IpAddr;
use std::path::Path;
use std::process::Command;
use std::str::FromStr;

use hakobu_core::host::{HostFacts, LoginServer, Penalties};

use super::system_root::SystemRoot;
use super::tool;

const MAIN: &str = "/etc/ssh/sshd_config";
/// The paths of the server, which is in no user's `PATH` and has to be started by an absolute one.
const SERVERS: [&str; 4] =
    ["/usr/sbin/sshd", "/usr/local/sbin/sshd", "/usr/bin/sshd", "/run/current-system/sw/bin/sshd"];

/// A login to which only a `Match` for everybody applies. The server insists on each of these words if a `Match` uses it.
const NO_LOGIN: &str = "user=nobody-at-all,host=::,addr=::,laddr=::,lport=65535";

/// A login through ssh, from the server's point of view.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SshLogin {
    /// The name of the account.
    pub user: String,
    /// The client's address.
    pub from: IpAddr,
    /// The server's address for this connection.
    pub at: IpAddr,
    /// The server's port for this connection.
    pub port: u16,
}

impl SshLogin {
    /// Returns the login as `sshd -C` expects it. `host` is the address, as it is for a server with `UseDNS no`.
    fn specification(&self) -> String {
        let (from, at) = (self.from.to_canonical(), self.at.to_canonical());
        format!("user={},host={from},addr={from},laddr={at},lport={}", self.user, self.port)
    }
}

pub(super) fn read(root: &SystemRoot<'_>, login: Option<&SshLogin>, facts: &mut HostFacts) {
    // The server is asked only about a configuration that this login may read.
    if root.text_or_note(MAIN, facts).is_none() {
        return;
    }
    match ask(root, login) {
        Ok(server) => facts.login_server = Some(server),
        Err(cause) => facts.unread(format!("{MAIN}: not known, since `sshd -T` failed: {cause}")),
    }
}

fn ask(root: &SystemRoot<'_>, login: Option<&SshLogin>) -> Result<LoginServer, String> {
    let sshd = SERVERS.into_iter().find(|path| Path::new(path).exists()).ok_or("there is no such program")?;
    // The server does not answer without a host key that it can read, and only root may read the real ones.
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let key = folder.path().join("key");
    tool::output(Command::new("ssh-keygen").args(["-q", "-t", "ecdsa", "-N", "", "-f"]).arg(&key))?;
    let specification = login.map_or_else(|| NO_LOGIN.to_owned(), SshLogin::specification);
    let ask = |options: &[&str]| {
        let mut command = Command::new(sshd);
        command.args(["-T", "-f"]).arg(root.path(MAIN)).arg("-h").arg(&key).args(["-C", &specification]);
        tool::output(command.args(options))
    };
    let settings = ask(&[])?;
    // An option outweighs the lines for all logins, and a `Match` outweighs an option.
    let outweighed =
        ask(&["-o", &format!("MaxSessions={}", u16::MAX), "-o", &format!("RekeyLimit={}", u32::MAX)])?;
    let is_of_match =
        |keyword, option: u64| first_number::<u64>(&outweighed, keyword).is_some_and(|now| now != option);
    Ok(LoginServer {
        max_startups: value(&settings, "maxstartups").and_then(startups),
        max_startups_of_one: first_number(&settings, "persourcemaxstartups"),
        penalties: value(&settings, "persourcepenalties").map(penalties),
        max_sessions: first_number(&settings, "maxsessions"),
        // 0 is no limit.
        rekey_bytes: first_number(&settings, "rekeylimit").filter(|bytes| *bytes > 0),
        of_match: (is_of_match("maxsessions", u16::MAX.into()), is_of_match("rekeylimit", u32::MAX.into())),
    })
}

/// Returns the value of a keyword, which `sshd -T` prints in lower case at the beginning of a line.
fn value<'a>(settings: &'a str, keyword: &str) -> Option<&'a str> {
    settings.lines().find_map(|line| line.strip_prefix(keyword)?.strip_prefix(' '))
}

/// Returns the number that a value begins with, such as the bytes in `1073741824 3600`.
fn first_number<N: FromStr>(settings: &str, keyword: &str) -> Option<N> {
    value(settings, keyword)?.split(' ').next()?.parse().ok()
}

/// Parses `10:30:100`.
fn startups(value: &str) -> Option<(u32, u32, u32)> {
    let numbers: Option<Vec<u32>> = value.split(':').map(|number| number.parse().ok()).collect();
    let [begin, percent, full] = numbers?[..] else { return None };
    Some((begin, percent, full))
}

/// Parses `crash:90 authfail:5 noauth:1 … min:15 …`, or `no`. Fractions of a second are rounded up.
fn penalties(value: &str) -> Penalties {
    let words = || value.split_whitespace().filter_map(|word| word.split_once(':'));
    let seconds = |name: &str| {
        let (_, time) = words().find(|(word, _)| *word == name)?;
        time.trim_end_matches('s').parse().ok().map(|time: f64| time.ceil() as u32)
    };
    match value == "no" {
        true => Penalties { refused_seconds: Some(0), silent_seconds: Some(0), from_seconds: None },
        false => Penalties {
            refused_seconds: seconds("authfail"),
            silent_seconds: seconds("noauth"),
            from_seconds: seconds("min"),
        },
    }
}

#[cfg(test)]
mod tests;
