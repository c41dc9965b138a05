//! Builds the command lines.
//!
//! On this machine a script for `sh` runs, with its paths and names in its environment: `$SSH` (the user's ssh with
//! its options), `$HOST`, `$SOURCE`, `$TARGET` and so on. The host's script is in `$FAR` and contains only plain
//! characters. The same functions build the lines that are shown to people, from names that people can type: see
//! [`super::typed_names`].

use super::case::{BenchCase, Compressor, DataDirection, EndKinds, Initiator, Method, block};
use super::names::{NamedFile, ScriptNames};
use super::scripts::{CommandNames, ListenCommand, Scripts};
use super::shell::{for_any_login_shell, is_plain};
use super::tools::{Netcat, Tools};
use super::typed_names::{self, TypedNamesShown};

/// The scripts of one case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CaseScripts {
    /// The script for this machine.
    pub near: String,
    /// The value of `$FAR`: the command that ssh runs on the host.
    pub far: Option<String>,
    /// The command that must listen first.
    pub listener: Option<ListenCommand>,
    /// All commands as people type them, for a shell in which SOURCE and TARGET are set.
    pub shown: String,
}

/// The file to send and the place where it arrives, in scripts for this machine.
const SOURCE: &str = "\"$SOURCE\"";
const SOURCE_DIRECTORY_AND_NAME: &str = "\"${SOURCE%/*}\" \"${SOURCE##*/}\"";
const TARGET: &str = "\"$TARGET\"";
const TARGET_DIRECTORY: &str = "\"${TARGET%/*}\"";

/// The last stage of a pipeline, which writes to the target.
fn sink(case: &BenchCase, target: &str) -> String {
    let sync = if case.ends == EndKinds::DiskToDisk { " conv=fsync" } else { "" };
    format!("dd of={target} bs={} status=none{sync}", block(case.block_bytes))
}

fn read(case: &BenchCase, source: &str) -> String {
    format!("dd if={source} bs={} status=none", block(case.block_bytes))
}

/// The compressing and the expanding stage of a pipeline, each followed by a pipe.
fn stages(compressor: Compressor) -> (&'static str, &'static str) {
    match compressor {
        Compressor::None | Compressor::Off | Compressor::Ssh => ("", ""),
        Compressor::Gzip => ("gzip -c | ", "gzip -dc | "),
        Compressor::Lzop => ("lzop -c | ", "lzop -dc | "),
        Compressor::Pigz => ("pigz -c | ", "pigz -dc | "),
        Compressor::Zstd => ("zstd -q -T0 -c | ", "zstd -q -dc | "),
    }
}

/// Builds the lines of a case. `None` if the installed tools cannot do it.
#[must_use]
pub fn lines(
    case: &BenchCase,
    names: &ScriptNames,
    tools: &Tools,
    typed: &TypedNamesShown,
) -> Option<CaseScripts> {
    if case.ends == EndKinds::MemoryToNothing && !case.way.discards() {
        return None;
    }
    let real = scripts(case, &towards(case, names.clone()), &CommandNames::variables(names), tools)?;
    let names = towards(case, typed.names(names));
    let shown = typed_names::line(case, &scripts(case, &names, &typed.words(), tools)?, &typed.words());
    let wrapped =
        |script: Option<String>| script.map_or(Some(None), |script| for_any_login_shell(&script).map(Some));
    let listener = match real.listener {
        Some(ListenCommand::There(script)) => Some(ListenCommand::There(for_any_login_shell(&script)?)),
        other => other,
    };
    Some(CaseScripts { near: real.near, far: wrapped(real.far)?, listener, shown })
}

/// Replaces the target with `/dev/null` in cases from memory to nothing.
fn towards(case: &BenchCase, names: ScriptNames) -> ScriptNames {
    match case.ends {
        EndKinds::MemoryToNothing => {
            ScriptNames { near_target: NamedFile::nothing(), far_target: NamedFile::nothing(), ..names }
        }
        _ => names,
    }
}

fn scripts(case: &BenchCase, names: &ScriptNames, words: &CommandNames, tools: &Tools) -> Option<Scripts> {
    let to_the_host = || format!("{} {} \"$FAR\"", words.ssh, words.host);
    Some(match (case.direction, case.starter) {
        (DataDirection::Here, _) => Scripts { near: here(case, words)?, far: None, listener: None },
        (_, Initiator::Here) if case.way.has_own_connection() => {
            let (near, listener) = listened_there(case, names, words, tools)?;
            Scripts { near, far: None, listener: Some(ListenCommand::There(listener)) }
        }
        (_, Initiator::There) if case.way.has_own_connection() => {
            let (far, listener) = listened_here(case, names, tools)?;
            Scripts { near: to_the_host(), far: Some(far), listener: Some(ListenCommand::Here(listener)) }
        }
        (_, Initiator::There) => {
            Scripts { near: to_the_host(), far: Some(from_there(case, names)?), listener: None }
        }
        (_, Initiator::Here) => {
            let (near, far) = over_ssh(case, names, words)?;
            Scripts { near, far, listener: None }
        }
    })
}

/// Builds the script of a case on one machine.
fn here(case: &BenchCase, words: &CommandNames) -> Option<String> {
    let to_disk = case.ends == EndKinds::DiskToDisk;
    let and_sync = if to_disk { format!(" && sync {TARGET}") } else { String::new() };
    Some(match case.way {
        Method::Hakobu => format!("{} {SOURCE} {TARGET}", words.hakobu),
        Method::Cp => format!("cp {SOURCE} {TARGET}{and_sync}"),
        Method::Dd => {
            let sync = if to_disk { " conv=fsync" } else { "" };
            format!("dd if={SOURCE} of={TARGET} bs={} status=none{sync}", block(case.block_bytes))
        }
        Method::Rsync => format!("rsync {SOURCE} {TARGET}{and_sync}"),
        Method::Tar if case.ends == EndKinds::MemoryToNothing => {
            format!("tar cf - -C {SOURCE_DIRECTORY_AND_NAME} | tar xOf - >/dev/null")
        }
        Method::Tar => {
            format!("tar cf - -C {SOURCE_DIRECTORY_AND_NAME} | tar xf - -C {TARGET_DIRECTORY}{and_sync}")
        }
        Method::Scp | Method::Nc | Method::Mbuffer => return None,
    })
}

/// Builds the scripts of a case that uses the user's ssh and is started here.
fn over_ssh(case: &BenchCase, names: &ScriptNames, words: &CommandNames) -> Option<(String, Option<String>)> {
    let to = case.direction == DataDirection::ToHost;
    let cipher = case.cipher.as_deref();
    let ssh_cipher = cipher.map(|cipher| format!(" -c {cipher}")).unwrap_or_default();
    let ssh = format!("{}{ssh_cipher} {} \"$FAR\"", words.ssh, words.host);
    let (pack, unpack) = stages(case.compressor);
    let (source, target) = (&names.far_source.path, &names.far_target.path);
    Some(match (case.way, to) {
        (Method::Dd, true) => {
            let near = format!("{} | {pack}{ssh}", read(case, SOURCE));
            (near, Some(format!("{unpack}{}", sink(case, target))))
        }
        (Method::Dd, false) => {
            let far = match pack.strip_suffix(" | ") {
                Some(pack) => format!("{} | {pack}", read(case, source)),
                None => read(case, source),
            };
            (format!("{ssh} | {unpack}{}", sink(case, TARGET)), Some(far))
        }
        (Method::Tar, true) => {
            let into = &names.far_target.directory;
            let far = match case.ends {
                EndKinds::MemoryToNothing => "tar xOf - >/dev/null".to_owned(),
                EndKinds::DiskToDisk => format!("tar xf - -C {into} && sync {target}"),
                EndKinds::MemoryToMemory => format!("tar xf - -C {into}"),
            };
            (format!("tar cf - -C {SOURCE_DIRECTORY_AND_NAME} | {ssh}"), Some(far))
        }
        (Method::Tar, false) => {
            let near = match case.ends {
                EndKinds::MemoryToNothing => format!("{ssh} | tar xOf - >/dev/null"),
                EndKinds::DiskToDisk => format!("{ssh} | tar xf - -C {TARGET_DIRECTORY} && sync {TARGET}"),
                EndKinds::MemoryToMemory => format!("{ssh} | tar xf - -C {TARGET_DIRECTORY}"),
            };
            let NamedFile { directory, name, .. } = &names.far_source;
            (near, Some(format!("tar cf - -C {directory} {name}")))
        }
        (Method::Scp, _) => {
            let shrink = if case.compressor == Compressor::Ssh { " -C" } else { "" };
            let scp = format!("{}{ssh_cipher}{shrink}", words.scp);
            synced(case, format!("{scp} {}", places(to, names, words)), target, words)
        }
        (Method::Rsync, _) => {
            let ssh = format!("\"{}{ssh_cipher}\"", words.ssh_inside);
            // People omit `-e` when it is rsync's default.
            let by = if ssh == "\"ssh\"" { String::new() } else { format!(" -e {ssh}") };
            synced(case, format!("rsync{by} {}", places(to, names, words)), target, words)
        }
        (Method::Hakobu, _) => {
            let far = |path: &str| match path {
                path if path.starts_with('$') => format!("{}\"{path}\"", words.hakobu_host),
                path => format!("{}{path}", words.hakobu_host),
            };
            let places = match to {
                true => format!("{SOURCE} {}", far(target)),
                false => format!("{} {TARGET}", far(source)),
            };
            (format!("{}{}{} {places}", words.hakobu, words.agent, of_hakobu(case)), None)
        }
        (Method::Nc | Method::Mbuffer | Method::Cp, _) => return None,
    })
}

/// Returns hakobu's options for cipher and compressor.
fn of_hakobu(case: &BenchCase) -> String {
    let cipher = case.cipher.as_ref().map(|cipher| format!(" --cipher {cipher}")).unwrap_or_default();
    let compress = match case.compressor {
        Compressor::None => String::new(),
        other => format!(" --compress {}", other.name()),
    };
    cipher + &compress
}

/// Adds a sync to a line for scp or rsync, which do not wait for stable storage. On this machine `sync` runs
/// afterwards; on the host a second login runs it.
fn synced(case: &BenchCase, line: String, target: &str, words: &CommandNames) -> (String, Option<String>) {
    match (case.ends, case.direction) {
        (EndKinds::DiskToDisk, DataDirection::ToHost) => {
            (format!("{line} && {} {} \"$FAR\"", words.ssh, words.host), Some(format!("sync {target}")))
        }
        (EndKinds::DiskToDisk, _) => (format!("{line} && sync {TARGET}"), None),
        _ => (line, None),
    }
}

/// Returns source and target for a tool that takes `host:path`.
fn places(to: bool, names: &ScriptNames, words: &CommandNames) -> String {
    match to {
        true => format!("{SOURCE} \"{}:{}\"", words.copy_host, names.far_target.path),
        false => format!("\"{}:{}\" {TARGET}", words.copy_host, names.far_source.path),
    }
}

fn sends_by_mbuffer(case: &BenchCase, source: &str, to: &str) -> String {
    format!("mbuffer -q -s {} -m 64M -i {source} -O {to}", block(case.block_bytes))
}

fn receives_by_mbuffer(case: &BenchCase, port: u16, target: &str) -> String {
    let and_sync =
        if case.ends == EndKinds::DiskToDisk { format!(" && sync {target}") } else { String::new() };
    format!("mbuffer -q -s {} -m 64M -I {port} >{target}{and_sync}", block(case.block_bytes))
}

/// Builds the scripts of a case with its own connection for which the host listens. Only nc supports both directions.
fn listened_there(
    case: &BenchCase,
    names: &ScriptNames,
    words: &CommandNames,
    tools: &Tools,
) -> Option<(String, String)> {
    let to = case.direction == DataDirection::ToHost;
    let (source, target) = (&names.far_source.path, &names.far_target.path);
    if case.way == Method::Mbuffer {
        let (address, port) = (words.address.trim_matches('"'), words.port.trim_matches('"'));
        let near = sends_by_mbuffer(case, SOURCE, &format!("\"{address}:{port}\""));
        return to.then_some((near, receives_by_mbuffer(case, names.port, target)));
    }
    let (pack, unpack) = stages(case.compressor);
    let (here, there) = (tools.here.netcat?, tools.there.as_ref()?.netcat?);
    let host = format!("{} {}", words.address, words.port);
    let port = names.port;
    Some(match to {
        true => (
            format!("{} | {pack}{}", read(case, SOURCE), here.sends(&host)),
            format!("{} | {unpack}{}", there.listens(port, false), sink(case, target)),
        ),
        false => (
            format!("{} | {unpack}{}", here.receives(&host), sink(case, TARGET)),
            format!("{} | {pack}{}", read(case, source), there.listens(port, true)),
        ),
    })
}

/// Builds the scripts of a case with its own connection for which this machine listens and the host connects. Returns
/// the host's script and this machine's. mbuffer connects only to send.
fn listened_here(case: &BenchCase, names: &ScriptNames, tools: &Tools) -> Option<(String, String)> {
    let to = case.direction == DataDirection::ToHost;
    let (address, port) = names.near_port.as_ref().filter(|(address, _)| is_plain(address))?;
    let (source, target) = (&names.far_source.path, &names.far_target.path);
    if case.way == Method::Mbuffer {
        let far = sends_by_mbuffer(case, source, &format!("{address}:{port}"));
        return (!to).then_some((far, receives_by_mbuffer(case, *port, TARGET)));
    }
    let (pack, unpack) = stages(case.compressor);
    let (here, there) = (tools.here.netcat?, tools.there.as_ref()?.netcat?);
    let to_us = format!("{address} {port}");
    Some(match to {
        true => (
            format!("{} | {unpack}{}", there.receives(&to_us), sink(case, target)),
            format!("{} | {pack}{}", read(case, SOURCE), here.listens(*port, true)),
        ),
        false => (
            format!("{} | {pack}{}", read(case, source), there.sends(&to_us)),
            format!("{} | {unpack}{}", here.listens(*port, false), sink(case, TARGET)),
        ),
    })
}

/// Builds the script of a case that is started on the host, which logs in to this machine.
fn from_there(case: &BenchCase, names: &ScriptNames) -> Option<String> {
    let back = names.back.as_ref()?;
    let cipher = case.cipher.as_deref();
    let ssh_cipher = cipher.map(|cipher| format!(" -c {cipher}")).unwrap_or_default();
    let port = |flag: &str| back.port.map(|port| format!(" {flag} {port}")).unwrap_or_default();
    let ssh = format!("ssh -o BatchMode=yes{ssh_cipher}{} {}", port("-p"), back.host);
    let to = case.direction == DataDirection::ToHost;
    let (near_source, near_target) = (&names.near_source.path, &names.near_target.path);
    let (far_source, far_target) = (&names.far_source.path, &names.far_target.path);
    Some(match (case.way, to) {
        // The host pulls.
        (Method::Dd, true) => {
            format!("{ssh} \"{}\" </dev/null | {}", read(case, near_source), sink(case, far_target))
        }
        (Method::Dd, false) => {
            format!("{} | {ssh} \"{}\"", read(case, far_source), sink(case, near_target))
        }
        (Method::Scp, _) => {
            let scp = format!("scp -q -o BatchMode=yes{ssh_cipher}{}", port("-P"));
            match to {
                true => format!("{scp} {}:{near_source} {far_target}", back.host),
                false => format!("{scp} {far_source} {}:{near_target}", back.host),
            }
        }
        (Method::Hakobu, _) => {
            let there = match back.port {
                Some(port) => format!("ssh://{}:{port}", back.host),
                None => format!("{}:", back.host),
            };
            let report =
                names.far_report.as_ref().map(|path| format!(" --report {path}")).unwrap_or_default();
            // Without its path the host would not find the program on this machine, and would use a slower transport.
            // The settings of that machine must not affect the measurement. People do not type this, so it is added
            // only together with the report.
            let settings = names.far_report.as_ref().map_or("", |_| "HAKOBU_SETTINGS=none ");
            let hakobu = format!(
                "{settings}{} copy -q{report} --ssh \"ssh -o BatchMode=yes\" --agent {}{}",
                names.far_hakobu,
                names.near_hakobu,
                of_hakobu(case)
            );
            match to {
                true => format!("{hakobu} {there}{near_source} {far_target}"),
                false => format!("{hakobu} {far_source} {there}{near_target}"),
            }
        }
        _ => return None,
    })
}

impl Netcat {
    /// Returns the command that reads standard input, sends it and exits.
    pub(super) fn sends(self, to: &str) -> String {
        match self {
            Self::OpenBsd => format!("nc -N {to}"),
            Self::Ncat => format!("nc --send-only {to}"),
            Self::Traditional => format!("nc -q 0 {to}"),
        }
    }

    /// Returns the command that writes received data to standard output, and exits at its end.
    fn receives(self, from: &str) -> String {
        match self {
            Self::OpenBsd => format!("nc -d {from}"),
            Self::Ncat => format!("nc --recv-only {from}"),
            Self::Traditional => format!("nc {from} </dev/null"),
        }
    }

    /// Returns the command that waits for one connection, and sends or receives over it.
    pub(super) fn listens(self, port: u16, sending: bool) -> String {
        match (self, sending) {
            (Self::OpenBsd, true) => format!("nc -N -l {port}"),
            (Self::OpenBsd, false) => format!("nc -l {port}"),
            (Self::Ncat, true) => format!("nc --send-only -l {port}"),
            (Self::Ncat, false) => format!("nc --recv-only -l {port}"),
            (Self::Traditional, true) => format!("nc -q 0 -l -p {port}"),
            (Self::Traditional, false) => format!("nc -l -p {port}"),
        }
    }
}

#[cfg(test)]
#[path = "case_scripts_tests.rs"]
mod tests;
