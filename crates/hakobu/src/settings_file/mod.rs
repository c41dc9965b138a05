//! Options from settings files: they are put before what was typed, as if they had been typed there, so that all that is
//! said and checked of an option goes for them as well. What was typed counts more, and so does the environment.
//!
//! How a file is written is [`hakobu_core::host_settings`]' affair.

mod keywords;
mod places;
mod show;

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use clap::parser::ValueSource;
use clap::{ArgMatches, Command};
use hakobu_core::error::Error;
use hakobu_core::host_settings::{HERE, RunHosts};
use hakobu_core::location::{Location, SshHost};

pub use self::show::show;

use self::keywords::{KEYWORDS, Keyword};
use self::places::Files;
use crate::{pairs, settings};

/// The variable that has the ssh to log in with.
pub(crate) const SSH_VARIABLE: &str = "HAKOBU_SSH";

/// The value of an option that stands in a settings file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FromFile {
    /// The keyword, which is the option's name without its dashes.
    pub keyword: &'static str,
    /// The value as it stands there.
    pub value: String,
    /// `FILE:LINE`.
    pub place: String,
}

/// The login on one of several machines.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostLogin {
    /// The machine, as it was typed.
    pub host: String,
    /// The ssh to log in with.
    pub ssh: Option<OsString>,
    /// The hakobu there.
    pub agent: Option<PathBuf>,
    /// Whether it runs under sudo.
    pub sudo: bool,
}

/// What settings files make of a command line.
pub(crate) struct Settled {
    /// The command line with the options from files.
    pub words: Vec<OsString>,
    pub from_files: Vec<FromFile>,
    pub logins: Vec<HostLogin>,
}

/// Adds what settings files say to a command line, which `matches` are of. `None`: nothing.
///
/// # Errors
/// A file that was named and cannot be read, one that others may write to, and what cannot be understood in one.
pub(crate) fn settle(
    command: &Command,
    words: &[OsString],
    matches: &ArgMatches,
) -> Result<Option<Settled>, Vec<Error>> {
    let Some((verb, typed)) = matches.subcommand() else { return Ok(None) };
    let takes = |name: &str| has(command, verb, name);
    if !takes("settings") {
        return Ok(None);
    }
    let files = Files::read(typed.get_one::<PathBuf>("settings").map(PathBuf::as_path))?;
    let run = run_hosts(verb, typed);
    let is_far = run.hosts.iter().any(|host| host != HERE);
    let applies = |keyword: &Keyword| {
        takes(&keyword.id())
            && keyword.is_for(verb)
            && (is_far || !keyword.is_of_another_machine())
            && !is_typed(typed, keyword)
            && environment(keyword).is_none()
    };
    let (mut options, mut from_files) = (Vec::new(), Vec::new());
    let mut logins: Vec<_> =
        run.hosts.iter().map(|host| HostLogin { host: host.clone(), ..HostLogin::default() }).collect();
    let mut differ = false;
    for keyword in KEYWORDS.iter().filter(|keyword| applies(keyword)) {
        let of_hosts: Vec<_> = run.hosts.iter().map(|host| files.first(keyword, &run.of(host))).collect();
        if keyword.login && of_hosts.windows(2).any(|two| value(&two[0]) != value(&two[1])) {
            differ = true;
            for (login, found) in logins.iter_mut().zip(&of_hosts) {
                login.take(keyword, value(found));
            }
            from_files.extend(of_hosts.into_iter().flatten());
        } else if let Some(found) = files.first(keyword, &run) {
            options.extend(keyword.option(&found.value));
            logins.iter_mut().for_each(|login| login.take(keyword, Some(&found.value)));
            from_files.push(found);
        }
    }
    if from_files.is_empty() {
        return Ok(None);
    }
    if differ {
        // What was typed, or is in the environment, goes for all of them.
        for login in &mut logins {
            let typed_of = |keyword: &str| typed_value(typed, keyword);
            login.ssh = typed_of("ssh").or_else(ssh_variable).or(login.ssh.take());
            login.agent = typed_of("agent").map(PathBuf::from).or(login.agent.take());
            login.sudo |= typed.get_flag("sudo");
        }
    } else {
        logins.clear();
    }
    let words = words.iter().take(2).cloned().chain(options).chain(words.iter().skip(2).cloned()).collect();
    Ok(Some(Settled { words, from_files, logins }))
}

/// Whether a verb has an option of this name.
fn has(command: &Command, verb: &str, name: &str) -> bool {
    let options = command.find_subcommand(verb).into_iter().flat_map(Command::get_arguments);
    options.into_iter().any(|option| option.get_id() == name)
}

fn value(found: &Option<FromFile>) -> Option<&str> {
    found.as_ref().map(|found| &*found.value)
}

fn is_typed(typed: &ArgMatches, keyword: &Keyword) -> bool {
    typed.value_source(&keyword.id()) == Some(ValueSource::CommandLine)
}

/// What was typed for an option of one value.
fn typed_value(typed: &ArgMatches, name: &str) -> Option<OsString> {
    typed.try_get_raw(name).ok().flatten()?.next().map(OsString::from)
}

/// What the environment says.
fn environment(keyword: &Keyword) -> Option<OsString> {
    if keyword.name == "ssh" { ssh_variable() } else { None }
}

/// What [`SSH_VARIABLE`] says.
pub(crate) fn ssh_variable() -> Option<OsString> {
    std::env::var_os(SSH_VARIABLE).filter(|value| !value.is_empty())
}

impl HostLogin {
    fn take(&mut self, keyword: &Keyword, value: Option<&str>) {
        match keyword.name {
            "ssh" => self.ssh = value.map(OsString::from),
            "agent" => self.agent = value.map(PathBuf::from),
            "sudo" => self.sudo = value == Some("yes"),
            _ => {}
        }
    }
}

/// The machines that a command line names. What cannot be read of it is somebody else's affair.
fn run_hosts(verb: &str, typed: &ArgMatches) -> RunHosts {
    let words = |name: &str| -> Vec<OsString> {
        let words = typed.try_get_raw(name).ok().flatten();
        words.into_iter().flatten().map(OsString::from).collect()
    };
    let locations = |name: &str| -> Vec<Location> {
        words(name).iter().filter_map(|word| Location::parse(word.as_bytes()).ok()).collect()
    };
    match verb {
        "digest" => of_hosts(locations("location").iter().map(host_of)),
        // What a lone place takes comes from here.
        "probe" => of_pairs(match &locations("places")[..] {
            [source, target] => vec![(host_of(source), host_of(target))],
            [target] => vec![(HERE.to_owned(), host_of(target))],
            _ => Vec::new(),
        }),
        "disks" | "doctor" => of_hosts(words("host").iter().filter_map(host_name)),
        "bench" => of_bench(words("host").iter().find_map(host_name).as_deref()),
        _ => {
            let (sources, targets) = (locations("sources"), locations("target"));
            let file = typed.try_get_one::<PathBuf>("pairs").ok().flatten();
            let listed = file.and_then(|file| pairs::read(file).ok()).unwrap_or_default();
            of_pairs(match targets.first() {
                Some(target) => sources.iter().map(|source| (host_of(source), host_of(target))).collect(),
                None => listed.iter().map(|(source, target)| (host_of(source), host_of(target))).collect(),
            })
        }
    }
}

/// The host that was typed by itself.
fn host_name(word: &OsString) -> Option<String> {
    settings::host(word.as_bytes()).ok().map(|host: SshHost| host.host)
}

/// A bench, which goes both ways.
fn of_bench(host: Option<&str>) -> RunHosts {
    let both = |host: &str| vec![(HERE.to_owned(), host.to_owned()), (host.to_owned(), HERE.to_owned())];
    host.map_or_else(|| of_hosts(std::iter::empty()), |host| of_pairs(both(host)))
}

/// Whatever the files say for runs between this machine and a host, whichever way, or on this machine alone.
///
/// # Errors
/// As [`settle`].
pub(crate) fn of_way(
    host: Option<&str>,
    named: Option<&std::path::Path>,
) -> Result<Vec<FromFile>, Vec<Error>> {
    let files = Files::read(named)?;
    let run = of_bench(host);
    let applies = |keyword: &&Keyword| host.is_some() || !keyword.is_of_another_machine();
    Ok(KEYWORDS.iter().filter(applies).filter_map(|keyword| files.first(keyword, &run)).collect())
}

/// The machine that a single word names, be it a location or a host.
fn run_of_one(word: &OsStr) -> RunHosts {
    let is_path =
        word.as_bytes().iter().any(|byte| matches!(byte, b'/' | b':')) || word == "-" || word == ".";
    let host = match is_path {
        false => settings::host(word.as_bytes()).ok().map(|host| host.host),
        true => None,
    };
    let located = || Location::parse(word.as_bytes()).ok().map(|location| host_of(&location));
    of_hosts(host.or_else(located).into_iter())
}

/// The name of the machine on which a location is.
fn host_of(location: &Location) -> String {
    let host = location.ssh_host().or(location.rsync_host());
    host.map_or(HERE.to_owned(), |host| host.host.clone())
}

fn of_hosts(hosts: impl Iterator<Item = String>) -> RunHosts {
    let mut all: Vec<String> = Vec::new();
    for host in hosts.filter(|host| host != HERE) {
        if !all.contains(&host) {
            all.push(host);
        }
    }
    if all.is_empty() {
        all.push(HERE.to_owned());
    }
    RunHosts { hosts: all, pairs: Vec::new() }
}

fn of_pairs(pairs: Vec<(String, String)>) -> RunHosts {
    let hosts: Vec<_> = pairs.iter().flat_map(|(source, target)| [source.clone(), target.clone()]).collect();
    RunHosts { pairs, ..of_hosts(hosts.into_iter()) }
}

/// A run as one of its machines sees it.
trait OfHost {
    fn of(&self, host: &str) -> RunHosts;
}

impl OfHost for RunHosts {
    fn of(&self, host: &str) -> RunHosts {
        RunHosts { hosts: vec![host.to_owned()], pairs: self.pairs.clone() }
    }
}

/// Says of errors in options which file they come from.
pub(crate) fn name_places(errors: &mut [Error], from_files: &[FromFile]) {
    for error in errors {
        let option = String::from_utf8_lossy(&error.at).into_owned();
        let keyword = option.strip_prefix("--").unwrap_or_default();
        if let Some(found) = from_files.iter().find(|found| found.keyword == keyword) {
            error.detail = format!("{} (it comes from {})", error.detail, found.place);
        }
    }
}

#[cfg(test)]
mod tests;
