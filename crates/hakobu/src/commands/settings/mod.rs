//! The command `settings`: shows the effective settings of a run, and the origin of each.

use std::ffi::OsString;
use std::path::PathBuf;

use crate::settings_file::host_settings::HERE;
use clap::{Arg, ArgAction, ArgMatches};
use hakobu_core::error::Error;
use hakobu_core::path::lossy;
use serde::Serialize;

use crate::settings_file::checker::Checker;
use crate::settings_file::environment::{SSH_VARIABLE, environment};
use crate::settings_file::files::SettingsFiles;
use crate::settings_file::hosts::{self, OfHost, is_store, run_hosts, run_of_one};
use crate::settings_file::keywords::{KEYWORDS, Keyword};
use crate::settings_file::options::{is_typed, value};

pub mod arguments;

use self::arguments::{SettingsArguments, USAGE};
use crate::render::json::pretty;
use crate::{cli, exit, order, output};

/// The schema of what `--json` prints.
const SCHEMA: &str = "hakobu.settings/1";

/// A value and its origin.
#[derive(Serialize)]
struct OriginatedValue {
    keyword: &'static str,
    /// The host, if hosts have different values.
    #[serde(skip_serializing_if = "Option::is_none")]
    host: Option<String>,
    value: String,
    /// `default`, `file`, `environment` or `command line`.
    from: &'static str,
    /// `FILE:LINE`.
    #[serde(skip_serializing_if = "Option::is_none")]
    place: Option<String>,
}

#[derive(Serialize)]
struct ShownJson {
    schema: &'static str,
    hosts: Vec<String>,
    files: Vec<String>,
    missing: Vec<String>,
    settings: Vec<OriginatedValue>,
    /// Keywords that apply only to runs with another host, if none is named.
    of_other_machines: Vec<&'static str>,
    /// Keywords that apply only to runs with an object store, if none is named.
    of_object_stores: Vec<&'static str>,
    /// True if sections for pairs of hosts are ignored because not both ends are named.
    without_pairs: bool,
}

/// Prints the effective settings of a run; returns the exit code.
pub fn show(typed: &SettingsArguments) -> u8 {
    let matches = match parse(&words_of_copy(typed)) {
        Ok(matches) => matches,
        Err(error) => return exit::clap_error(error),
    };
    let Some((_, typed)) = matches.subcommand() else { return exit::FAILED };
    match seen(typed) {
        Ok(seen) if typed.get_flag("json") => match pretty(&seen) {
            Ok(text) => output::print(text.as_bytes()),
            Err(error) => exit::errors(&[Error::io("writing JSON", &error)]),
        },
        Ok(seen) => output::print(text(&seen).as_bytes()),
        Err(errors) => exit::errors(&errors),
    }
}

/// Returns the words that follow `hakobu copy`, with the options that the parser took as those of `hakobu settings`.
fn words_of_copy(typed: &SettingsArguments) -> Vec<OsString> {
    let json = typed.json.then(|| "--json".into());
    let file = typed.file.iter().flat_map(|file| ["--settings".into(), file.clone().into()]);
    json.into_iter().chain(file).chain(typed.words.iter().cloned()).collect()
}

/// Parses the words as `hakobu copy` would, except that locations are optional.
fn parse(words: &[OsString]) -> Result<ArgMatches, clap::Error> {
    let command = cli::command().mut_subcommand("copy", |copy| {
        let one = |sources: Arg| sources.required(false).num_args(1).action(ArgAction::Set);
        let copy = copy.mut_arg("sources", one);
        copy.mut_arg("target", |target| target.required(false)).override_usage(USAGE)
    });
    let line: Vec<_> = ["hakobu", "copy"].map(OsString::from).into_iter().chain(words.to_vec()).collect();
    command.clone().try_get_matches_from(&line).or_else(|error| match order::places_last(&line, &command) {
        Some(ordered) => command.try_get_matches_from(ordered).map_err(|_| error),
        None => Err(error),
    })
}

fn seen(typed: &ArgMatches) -> Result<ShownJson, Vec<Error>> {
    let named = typed.get_one::<PathBuf>("settings").map(PathBuf::as_path);
    let files = SettingsFiles::read(named)?;
    let places: Vec<_> = typed.try_get_raw("sources").ok().flatten().into_iter().flatten().collect();
    // A single word that is not a path is a host, as for `hakobu doctor`.
    let run = match places[..] {
        [one] if typed.get_raw("target").is_none() => run_of_one(one),
        _ => run_hosts("copy", typed),
    };
    let without_pairs = run.pairs.is_empty() && files.read.iter().any(|(_, settings)| settings.has_pairs());
    // Both are shown for a lone store, which can be a target as well.
    let concerns_run = |keyword: &Keyword| match keyword.store {
        true => run.hosts.iter().any(|host| is_store(host)),
        false => hosts::concerns(keyword, &run),
    };
    let (mut settings, mut of_other_machines) = (Vec::new(), Vec::new());
    let mut of_object_stores = Vec::new();
    for keyword in &KEYWORDS {
        if !concerns_run(keyword) && !is_typed(typed, keyword) {
            let others = if keyword.store { &mut of_object_stores } else { &mut of_other_machines };
            others.push(keyword.name);
            continue;
        }
        if is_typed(typed, keyword) {
            settings.push(of_command_line(typed, keyword)?);
        } else if let Some(value) = environment(keyword) {
            let (value, place) = (lossy(value.as_encoded_bytes()), Some(SSH_VARIABLE.to_owned()));
            settings.push(OriginatedValue {
                keyword: keyword.name,
                host: None,
                value,
                from: "environment",
                place,
            });
        } else {
            let hosts: Vec<_> = match keyword.login || keyword.store {
                true => hosts::hosts_of(keyword, &run)
                    .into_iter()
                    .map(|host| (host, files.first(keyword, &run.of(host))))
                    .collect(),
                false => run.hosts.iter().take(1).map(|host| (host, files.first(keyword, &run))).collect(),
            };
            let differ = hosts.windows(2).any(|two| value(&two[0].1) != value(&two[1].1));
            for (host, found) in hosts.into_iter().take(if differ { usize::MAX } else { 1 }) {
                let host = differ.then(|| host.clone());
                settings.push(match found {
                    Some(found) => OriginatedValue {
                        keyword: keyword.name,
                        host,
                        value: found.value,
                        from: "file",
                        place: Some(found.place),
                    },
                    None => {
                        let value = keyword.default.to_owned();
                        OriginatedValue { keyword: keyword.name, host, value, from: "default", place: None }
                    }
                });
            }
        }
    }
    let names = |paths: &mut dyn Iterator<Item = &PathBuf>| -> Vec<String> {
        paths.map(|path| lossy(path.as_os_str().as_encoded_bytes())).collect()
    };
    Ok(ShownJson {
        schema: SCHEMA,
        hosts: run.hosts.into_iter().filter(|host| host != HERE).collect(),
        files: names(&mut files.read.iter().map(|(path, _)| path)),
        missing: names(&mut files.missing.iter()),
        settings,
        of_other_machines,
        of_object_stores,
        without_pairs,
    })
}

/// Returns a typed value, if it is valid.
fn of_command_line(typed: &ArgMatches, keyword: &Keyword) -> Result<OriginatedValue, Vec<Error>> {
    let words: Vec<_> = typed.get_raw(&keyword.id()).into_iter().flatten().collect();
    let words: Vec<_> = words.into_iter().map(|word| lossy(word.as_encoded_bytes())).collect();
    let value = match keyword.is_flag() {
        true => "yes".to_owned(),
        false => words.join(","),
    };
    Checker::new().check(keyword, &value).map_err(|(_, words)| {
        let kind = hakobu_core::ErrorKind::Usage;
        vec![Error::new(kind, "option", words).at(format!("--{}", keyword.name))]
    })?;
    Ok(OriginatedValue { keyword: keyword.name, host: None, value, from: "command line", place: None })
}

fn text(seen: &ShownJson) -> String {
    let name = |shown: &OriginatedValue| match &shown.host {
        Some(host) => format!("{} ({})", shown.keyword, lossy(host.as_bytes())),
        None => shown.keyword.to_owned(),
    };
    let width = |text: &str| text.chars().count();
    let names = seen.settings.iter().map(|shown| width(&name(shown))).max().unwrap_or(0);
    let values = seen.settings.iter().map(|shown| width(&shown.value)).max().unwrap_or(0);
    let mut text = String::new();
    for shown in &seen.settings {
        let from = shown.place.as_deref().unwrap_or(shown.from);
        let value = lossy(shown.value.as_bytes());
        text.push_str(&format!("{:names$}  {value:values$}  {from}\n", name(shown)));
    }
    if !seen.of_other_machines.is_empty() {
        let keywords = seen.of_other_machines.join(", ");
        text.push_str(&format!("only for other machines, shown if one is named: {keywords}\n"));
    }
    if !seen.of_object_stores.is_empty() {
        let keywords = seen.of_object_stores.join(", ");
        text.push_str(&format!("only for object stores, shown if one is named: {keywords}\n"));
    }
    if seen.without_pairs {
        text.push_str("left out: [[pair]] sections, shown with both ends: hakobu settings SOURCE TARGET\n");
    }
    for (words, files) in [("read", &seen.files), ("not there", &seen.missing)] {
        if !files.is_empty() {
            text.push_str(&format!("{words}: {}\n", files.join(", ")));
        }
    }
    text
}
