//! The command lines.
//!
//! What runs here is a script for `sh` whose paths and names are in its environment: `$SSH` (the user's ssh with its options),
//! `$HOST`, `$SOURCE`, `$TARGET` and so on. What runs on the host is in `$FAR`, and holds plain letters alone.

use super::case::{Case, Compressor, Direction, Ends, Starter, Way, block};
use super::shell::for_any_login_shell;
use super::tools::{Netcat, Tools};

/// What a command line may name, but for what is in the environment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Names {
    /// Of this machine: the file to send, and where one is to arrive. Plain, as are all paths here.
    pub near_source: String,
    /// See `near_source`.
    pub near_target: String,
    /// The same of the host.
    pub far_source: String,
    /// See `far_source`.
    pub far_target: String,
    /// The free port over there, for ways that have a connection of their own.
    pub port: u16,
    /// How the host reaches this machine, if it does.
    pub back: Option<Back>,
    /// The program `hakobu` over there.
    pub far_hakobu: String,
    /// The same here, as the host is to start it; empty where its path is not plain.
    pub near_hakobu: String,
}

/// A login from the host to this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Back {
    /// `host` or `user@host`, plain.
    pub host: String,
    /// The port of its sshd, if it is not the usual one.
    pub port: Option<u16>,
}

/// What runs for one case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lines {
    /// The script here.
    pub near: String,
    /// `$FAR` of the script: what ssh runs over there.
    pub far: Option<String>,
    /// What ssh runs over there first, and what has to listen before the script begins.
    pub listener: Option<String>,
    /// All of it as people read it.
    pub shown: String,
}

/// The tail of what writes at the target: `dd`, or `>`.
fn sink(case: &Case, target: &str) -> String {
    let sync = if case.ends == Ends::DiskToDisk { " conv=fsync" } else { "" };
    format!("dd of={target} bs={} status=none{sync}", block(case.block_bytes))
}

fn read(case: &Case, source: &str) -> String {
    format!("dd if={source} bs={} status=none", block(case.block_bytes))
}

/// The stage that compresses, with its pipe behind it; and the one that expands.
fn stages(compressor: Compressor) -> (&'static str, &'static str) {
    match compressor {
        Compressor::None | Compressor::Ssh => ("", ""),
        Compressor::Gzip => ("gzip -c | ", "gzip -dc | "),
        Compressor::Lzop => ("lzop -c | ", "lzop -dc | "),
        Compressor::Pigz => ("pigz -c | ", "pigz -dc | "),
        Compressor::Zstd => ("zstd -q -T0 -c | ", "zstd -q -dc | "),
    }
}

/// The lines of a case. `None` where the tools that are there cannot do it.
#[must_use]
pub fn lines(case: &Case, names: &Names, tools: &Tools) -> Option<Lines> {
    let nothing = case.ends == Ends::MemoryToNothing;
    let names = match nothing {
        true => Names { near_target: "/dev/null".into(), far_target: "/dev/null".into(), ..names.clone() },
        false => names.clone(),
    };
    if nothing && !case.way.discards() {
        return None;
    }
    let (near, far, listener) = match (case.direction, case.starter) {
        (Direction::Here, _) => (here(case)?, None, None),
        (_, Starter::There) => {
            ("\"$SSH\" \"$HOST\" \"$FAR\"".to_owned(), Some(from_there(case, &names)?), None)
        }
        (_, Starter::Here) if matches!(case.way, Way::Nc | Way::Mbuffer) => {
            let (near, listener) = own_connection(case, &names, tools)?;
            (near, None, Some(listener))
        }
        (_, Starter::Here) => {
            let (near, far) = over_ssh(case, &names)?;
            (near, far, None)
        }
    };
    let shown = shown(&near, far.as_deref(), listener.as_deref(), &names);
    let wrapped =
        |script: Option<String>| script.map_or(Some(None), |script| for_any_login_shell(&script).map(Some));
    Some(Lines { near, far: wrapped(far)?, listener: wrapped(listener)?, shown })
}

/// Of one machine.
fn here(case: &Case) -> Option<String> {
    let to_disk = case.ends == Ends::DiskToDisk;
    let and_sync = if to_disk { " && sync \"$TARGET\"" } else { "" };
    Some(match case.way {
        Way::Hakobu => "\"$HAKOBU\" copy -q \"$SOURCE\" \"$TARGET\"".to_owned(),
        Way::Cp => format!("cp \"$SOURCE\" \"$TARGET\"{and_sync}"),
        Way::Dd => {
            let sync = if to_disk { " conv=fsync" } else { "" };
            format!("dd if=\"$SOURCE\" of=\"$TARGET\" bs={} status=none{sync}", block(case.block_bytes))
        }
        Way::Rsync => format!("rsync \"$SOURCE\" \"$TARGET\"{and_sync}"),
        Way::Tar if case.ends == Ends::MemoryToNothing => {
            "tar cf - -C \"$SOURCE_DIR\" \"$NAME\" | tar xOf - >/dev/null".to_owned()
        }
        Way::Tar => format!("tar cf - -C \"$SOURCE_DIR\" \"$NAME\" | tar xf - -C \"$TARGET_DIR\"{and_sync}"),
        Way::Scp | Way::Nc | Way::Mbuffer => return None,
    })
}

/// Over the user's ssh, started here.
fn over_ssh(case: &Case, names: &Names) -> Option<(String, Option<String>)> {
    let to = case.direction == Direction::ToHost;
    let cipher = case.cipher.as_deref();
    let ssh_cipher = cipher.map(|cipher| format!(" -c {cipher}")).unwrap_or_default();
    let ssh = format!("\"$SSH\"{ssh_cipher} \"$HOST\" \"$FAR\"");
    let (pack, unpack) = stages(case.compressor);
    let (source, target) = (&names.far_source, &names.far_target);
    Some(match (case.way, to) {
        (Way::Dd, true) => {
            let near = format!("{} | {pack}{ssh}", read(case, "\"$SOURCE\""));
            (near, Some(format!("{unpack}{}", sink(case, target))))
        }
        (Way::Dd, false) => {
            let far = match pack.strip_suffix(" | ") {
                Some(pack) => format!("{} | {pack}", read(case, source)),
                None => read(case, source),
            };
            (format!("{ssh} | {unpack}{}", sink(case, "\"$TARGET\"")), Some(far))
        }
        (Way::Tar, true) => {
            let far = match (case.ends, directory(target)) {
                (Ends::MemoryToNothing, _) => "tar xOf - >/dev/null".to_owned(),
                (Ends::DiskToDisk, into) => format!("tar xf - -C {into} && sync {target}"),
                (Ends::MemoryToMemory, into) => format!("tar xf - -C {into}"),
            };
            (format!("tar cf - -C \"$SOURCE_DIR\" \"$NAME\" | {ssh}"), Some(far))
        }
        (Way::Tar, false) => {
            let near = match case.ends {
                Ends::MemoryToNothing => format!("{ssh} | tar xOf - >/dev/null"),
                Ends::DiskToDisk => format!("{ssh} | tar xf - -C \"$TARGET_DIR\" && sync \"$TARGET\""),
                Ends::MemoryToMemory => format!("{ssh} | tar xf - -C \"$TARGET_DIR\""),
            };
            (near, Some(format!("tar cf - -C {} {}", directory(source), name(source))))
        }
        (Way::Scp, _) => {
            let shrink = if case.compressor == Compressor::Ssh { " -C" } else { "" };
            let scp = format!("scp -q -S \"$SSH\"{ssh_cipher}{shrink}");
            synced(case, format!("{scp} {}", places(to, names)), target)
        }
        (Way::Rsync, _) => {
            let line = format!("rsync -e \"$SSH{ssh_cipher}\" {}", places(to, names));
            synced(case, line, target)
        }
        (Way::Hakobu, _) => {
            let cipher = cipher.map(|cipher| format!(" --cipher {cipher}")).unwrap_or_default();
            let (here, there) = match to {
                true => ("\"$SOURCE\"", format!("\"$HAKOBU_HOST\"{target}")),
                false => ("\"$TARGET\"", format!("\"$HAKOBU_HOST\"{source}")),
            };
            let places = if to { format!("{here} {there}") } else { format!("{there} {here}") };
            // Where no agent is installed over there, one was put beside the data.
            (format!("\"$HAKOBU\" copy -q --agent {}{cipher} {places}", names.far_hakobu), None)
        }
        (Way::Nc | Way::Mbuffer | Way::Cp, _) => return None,
    })
}

/// scp and rsync do not wait for the medium: here `sync` does, and over there a second login.
fn synced(case: &Case, line: String, target: &str) -> (String, Option<String>) {
    match (case.ends, case.direction) {
        (Ends::DiskToDisk, Direction::ToHost) => {
            (format!("{line} && \"$SSH\" \"$HOST\" \"$FAR\""), Some(format!("sync {target}")))
        }
        (Ends::DiskToDisk, _) => (format!("{line} && sync \"$TARGET\""), None),
        _ => (line, None),
    }
}

/// Source and target of what takes `host:path`.
fn places(to: bool, names: &Names) -> String {
    match to {
        true => format!("\"$SOURCE\" \"$COPY_HOST:{}\"", names.far_target),
        false => format!("\"$COPY_HOST:{}\" \"$TARGET\"", names.far_source),
    }
}

/// Over a connection of its own, which the far end listens for. nc alone goes both ways.
fn own_connection(case: &Case, names: &Names, tools: &Tools) -> Option<(String, String)> {
    let to = case.direction == Direction::ToHost;
    let (pack, unpack) = stages(case.compressor);
    let port = names.port;
    let (source, target) = (&names.far_source, &names.far_target);
    if case.way == Way::Mbuffer {
        let size = block(case.block_bytes);
        let and_sync =
            if case.ends == Ends::DiskToDisk { format!(" && sync {target}") } else { String::new() };
        let near = format!("mbuffer -q -s {size} -m 64M -i \"$SOURCE\" -O \"$ADDRESS:$PORT\"");
        let far = format!("mbuffer -q -s {size} -m 64M -I {port} >{target}{and_sync}");
        return to.then_some((near, far));
    }
    let (here, there) = (tools.here.netcat?, tools.there.as_ref()?.netcat?);
    Some(match to {
        true => {
            let near =
                format!("{} | {pack}{}", read(case, "\"$SOURCE\""), here.sends("\"$ADDRESS\" \"$PORT\""));
            (near, format!("{} | {unpack}{}", there.listens(port, false), sink(case, target)))
        }
        false => {
            let near = format!(
                "{} | {unpack}{}",
                here.receives("\"$ADDRESS\" \"$PORT\""),
                sink(case, "\"$TARGET\"")
            );
            (near, format!("{} | {pack}{}", read(case, source), there.listens(port, true)))
        }
    })
}

/// Started on the host, which logs in to this machine.
fn from_there(case: &Case, names: &Names) -> Option<String> {
    let back = names.back.as_ref()?;
    let cipher = case.cipher.as_deref();
    let ssh_cipher = cipher.map(|cipher| format!(" -c {cipher}")).unwrap_or_default();
    let port = |flag: &str| back.port.map(|port| format!(" {flag} {port}")).unwrap_or_default();
    let ssh = format!("ssh -o BatchMode=yes{ssh_cipher}{} {}", port("-p"), back.host);
    let to = case.direction == Direction::ToHost;
    Some(match (case.way, to) {
        // The host pulls.
        (Way::Dd, true) => {
            format!(
                "{ssh} \"{}\" </dev/null | {}",
                read(case, &names.near_source),
                sink(case, &names.far_target)
            )
        }
        (Way::Dd, false) => {
            format!("{} | {ssh} \"{}\"", read(case, &names.far_source), sink(case, &names.near_target))
        }
        (Way::Scp, _) => {
            let scp = format!("scp -q -o BatchMode=yes{ssh_cipher}{}", port("-P"));
            match to {
                true => format!("{scp} {}:{} {}", back.host, names.near_source, names.far_target),
                false => format!("{scp} {} {}:{}", names.far_source, back.host, names.near_target),
            }
        }
        (Way::Hakobu, _) => {
            let cipher = cipher.map(|cipher| format!(" --cipher {cipher}")).unwrap_or_default();
            let there = match back.port {
                Some(port) => format!("ssh://{}:{port}", back.host),
                None => format!("{}:", back.host),
            };
            // Without it the host would not find the program here, and take a slower way.
            let agent = match names.near_hakobu.as_str() {
                "" => String::new(),
                path => format!(" --agent {path}"),
            };
            let hakobu =
                format!("{} copy -q{agent} --ssh \"ssh -o BatchMode=yes\"{cipher}", names.far_hakobu);
            match to {
                true => format!("{hakobu} {there}{} {}", names.near_source, names.far_target),
                false => format!("{hakobu} {} {there}{}", names.far_source, names.near_target),
            }
        }
        _ => return None,
    })
}

fn directory(path: &str) -> &str {
    path.rsplit_once('/').map_or(".", |(directory, _)| directory)
}

fn name(path: &str) -> &str {
    path.rsplit_once('/').map_or(path, |(_, name)| name)
}

impl Netcat {
    /// Reads standard input, sends it and ends.
    fn sends(self, to: &str) -> String {
        match self {
            Self::OpenBsd => format!("nc -N {to}"),
            Self::Ncat => format!("nc --send-only {to}"),
            Self::Traditional => format!("nc -q 0 {to}"),
        }
    }

    /// Writes to standard output what comes, and ends with it.
    fn receives(self, from: &str) -> String {
        match self {
            Self::OpenBsd => format!("nc -d {from}"),
            Self::Ncat => format!("nc --recv-only {from}"),
            Self::Traditional => format!("nc {from} </dev/null"),
        }
    }

    /// Waits for one connection, and sends or receives over it.
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

/// As people would type it, with names in the place of paths.
fn shown(near: &str, far: Option<&str>, listener: Option<&str>, names: &Names) -> String {
    let plain = |text: &str| {
        let mut text = text.replace(&names.near_source, "$SOURCE").replace(&names.far_source, "$SOURCE");
        for target in [&names.near_target, &names.far_target] {
            if target != "/dev/null" {
                text = text.replace(target, "$TARGET").replace(directory(target), "$TARGET_DIR");
            }
        }
        for source in [&names.near_source, &names.far_source] {
            text = text.replace(directory(source), "$SOURCE_DIR").replace(name(source), "$NAME");
        }
        let text = text.replace(&format!(" --agent {}", names.far_hakobu), "");
        let text = text.replace(&format!(" --agent {}", names.near_hakobu), "");
        text.replace(&names.far_hakobu, "hakobu").replace(&names.port.to_string(), "$PORT")
    };
    let mut line = near
        .replace("\"$FAR\"", &format!("'{}'", plain(far.unwrap_or_default())))
        .replace("\"$HAKOBU\"", "hakobu")
        .replace("\"$HAKOBU_HOST\"", "$HOST:")
        .replace("$COPY_HOST", "$HOST")
        .replace(" -S \"$SSH\"", "")
        .replace("-e \"$SSH\" ", "")
        .replace("\"$SSH\"", "ssh")
        .replace("$SSH", "ssh");
    line = plain(&line).replace('"', "");
    if names.near_target == "/dev/null" {
        line = line.replace("$TARGET", "/dev/null");
    }
    match listener {
        Some(listener) => format!("there: {}; here: {line}", plain(listener)),
        None => line,
    }
}

#[cfg(test)]
#[path = "lines_tests.rs"]
mod tests;
