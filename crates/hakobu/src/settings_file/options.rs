//! The options of a command line, with those from settings files put before the typed ones.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::parser::ValueSource;
use clap::{ArgMatches, Command};
use hakobu_core::error::Error;

use super::environment::{environment, ssh_variable};
use super::files::SettingsFiles;
use super::from_file::FromFile;
use super::host_login::FileLogin;
use super::hosts::{OfHost, concerns, hosts_of, is_store, of_bench, run_hosts};
use super::keywords::{KEYWORDS, Keyword};
use super::store_overrides::StoreOverrides;

/// A command line with the options that settings files add.
pub(crate) struct ResolvedOptions {
    /// The command line with the options from files.
    pub words: Vec<OsString>,
    pub from_files: Vec<FromFile>,
    pub logins: Vec<FileLogin>,
    pub stores: Vec<StoreOverrides>,
}

/// Adds settings from files to the command line that `matches` are of. Returns `None` if there are none.
///
/// # Errors
/// A named file that cannot be read, a file that others may write to, or invalid settings.
pub(crate) fn settle(
    command: &Command,
    words: &[OsString],
    matches: &ArgMatches,
) -> Result<Option<ResolvedOptions>, Vec<Error>> {
    let Some((verb, typed)) = matches.subcommand() else { return Ok(None) };
    let takes = |name: &str| has(command, verb, name);
    if !takes("settings") {
        return Ok(None);
    }
    let files = SettingsFiles::read(typed.get_one::<PathBuf>("settings").map(PathBuf::as_path))?;
    let run = run_hosts(verb, typed);
    let applies = |keyword: &Keyword| {
        takes(&keyword.id())
            && keyword.is_for(verb)
            && concerns(keyword, &run)
            && !is_typed(typed, keyword)
            && environment(keyword).is_none()
    };
    let (mut options, mut from_files) = (Vec::new(), Vec::new());
    let machines = run.hosts.iter().filter(|host| !is_store(host));
    let mut logins: Vec<_> =
        machines.map(|host| FileLogin { host: host.clone(), ..FileLogin::default() }).collect();
    let mut stores: Vec<_> =
        run.hosts.iter().filter(|host| is_store(host)).map(|host| StoreOverrides::new(host)).collect();
    let mut differ = false;
    for keyword in KEYWORDS.iter().filter(|keyword| applies(keyword)) {
        let hosts = hosts_of(keyword, &run);
        let of_hosts: Vec<_> = hosts.iter().map(|host| files.first(keyword, &run.of(host))).collect();
        let is_one = of_hosts.windows(2).all(|two| value(&two[0]) == value(&two[1]));
        if keyword.store && !is_one {
            for (store, found) in stores.iter_mut().zip(&of_hosts) {
                store.take(keyword, value(found));
            }
            from_files.extend(of_hosts.into_iter().flatten());
        } else if keyword.store {
            if let Some(found) = of_hosts.into_iter().flatten().next() {
                options.extend(keyword.option(&found.value));
                from_files.push(found);
            }
        } else if keyword.login && !is_one {
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
        // Values from the command line or the environment apply to all logins.
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
    Ok(Some(ResolvedOptions { words, from_files, logins, stores }))
}

/// Whatever the files say for runs between this machine and a host, whichever way, or on this machine alone.
///
/// # Errors
/// As [`settle`].
pub(crate) fn of_way(
    host: Option<&str>,
    named: Option<&std::path::Path>,
) -> Result<Vec<FromFile>, Vec<Error>> {
    let files = SettingsFiles::read(named)?;
    let run = of_bench(host);
    let applies = |keyword: &&Keyword| concerns(keyword, &run);
    Ok(KEYWORDS.iter().filter(applies).filter_map(|keyword| files.first(keyword, &run)).collect())
}

/// Returns true if a verb has an option of this name.
pub(crate) fn has(command: &Command, verb: &str, name: &str) -> bool {
    let options = command.find_subcommand(verb).into_iter().flat_map(Command::get_arguments);
    options.into_iter().any(|option| option.get_id() == name)
}

pub(crate) fn value(found: &Option<FromFile>) -> Option<&str> {
    found.as_ref().map(|found| &*found.value)
}

pub(crate) fn is_typed(typed: &ArgMatches, keyword: &Keyword) -> bool {
    typed.value_source(&keyword.id()) == Some(ValueSource::CommandLine)
}

/// Returns the typed value of an option that takes one value.
fn typed_value(typed: &ArgMatches, name: &str) -> Option<OsString> {
    typed.try_get_raw(name).ok().flatten()?.next().map(OsString::from)
}
