//! The machines that a command line names.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use crate::settings_file::host_settings::{HERE, RunHosts};
use clap::ArgMatches;
use hakobu_core::location::{Location, SshHost};

use super::keywords::Keyword;
use crate::commands::copy::pairs;
use crate::commands::shared::login;
use crate::commands::shared::store::{is_in_object_store, pattern_name};

/// Returns the hosts that a command line names. Invalid arguments are ignored; they are reported elsewhere.
pub(crate) fn run_hosts(verb: &str, typed: &ArgMatches) -> RunHosts {
    let words = |name: &str| -> Vec<OsString> {
        let words = typed.try_get_raw(name).ok().flatten();
        words.into_iter().flatten().map(OsString::from).collect()
    };
    let locations = |name: &str| -> Vec<Location> {
        words(name).iter().filter_map(|word| Location::parse(word.as_bytes()).ok()).collect()
    };
    match verb {
        "digest" | "ls" => of_hosts(locations("location").iter().map(host_of)),
        // Data for a lone location comes from this host.
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
    login::host(word.as_bytes()).ok().map(|host: SshHost| host.host)
}

/// Returns the pairs of a bench, which measures both directions.
pub(crate) fn of_bench(host: Option<&str>) -> RunHosts {
    let both = |host: &str| vec![(HERE.to_owned(), host.to_owned()), (host.to_owned(), HERE.to_owned())];
    host.map_or_else(|| of_hosts(std::iter::empty()), |host| of_pairs(both(host)))
}

/// The machine that a single word names, be it a location or a host.
pub(crate) fn run_of_one(word: &OsStr) -> RunHosts {
    let is_path =
        word.as_bytes().iter().any(|byte| matches!(byte, b'/' | b':')) || word == "-" || word == ".";
    let host = match is_path {
        false => login::host(word.as_bytes()).ok().map(|host| host.host),
        true => None,
    };
    let located = || Location::parse(word.as_bytes()).ok().map(|location| host_of(&location));
    of_hosts(host.or_else(located).into_iter())
}

/// Returns true if a name in patterns is that of an object store.
pub(crate) fn is_store(host: &str) -> bool {
    host.contains("://")
}

/// Returns true if an option has an effect on runs with these hosts.
pub(crate) fn concerns(keyword: &Keyword, run: &RunHosts) -> bool {
    let is_far = || run.hosts.iter().any(|host| host != HERE && !is_store(host));
    match (keyword.store, keyword.objects) {
        (true, true) => run.pairs.iter().any(|(_, target)| is_store(target)),
        (true, false) => run.hosts.iter().any(|host| is_store(host)),
        _ => !keyword.is_of_another_machine() || is_far(),
    }
}

/// Returns the hosts that can have values of their own for an option.
pub(crate) fn hosts_of<'a>(keyword: &Keyword, run: &'a RunHosts) -> Vec<&'a String> {
    let takes = |host: &&String| !(keyword.login || keyword.store) || is_store(host) == keyword.store;
    run.hosts.iter().filter(takes).collect()
}

/// The name of the machine on which a location is, or of the object store.
fn host_of(location: &Location) -> String {
    if let Some(store) = location.store().filter(|_| is_in_object_store(location)) {
        return pattern_name(store);
    }
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
pub(crate) trait OfHost {
    fn of(&self, host: &str) -> RunHosts;
}

impl OfHost for RunHosts {
    fn of(&self, host: &str) -> RunHosts {
        RunHosts { hosts: vec![host.to_owned()], pairs: self.pairs.clone() }
    }
}
