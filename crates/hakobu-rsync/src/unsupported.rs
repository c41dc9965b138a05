//! Refuses what rsync cannot do before anything runs.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use hakobu_core::error::{Error, ErrorKind, Result};
use hakobu_core::job::Mode;
use hakobu_core::location::Location;
use hakobu_core::losses::LossKind;

use hakobu_core::request::{CipherChoice, CopyRequest, Transport, Verify};

/// The permission bits that rsync refuses in the mode of a password file.
const OF_OTHERS: u32 = 0o006;

/// Refuses requests that this transport does not support.
///
/// # Errors
/// The password file cannot be read; `Usage`, or `Requirement` if rsync cannot guarantee what `--require` asks for.
pub fn check(request: &CopyRequest) -> Result<()> {
    let verb = match request.mode {
        Mode::Compare => "hakobu verify reads both sides itself, and rsync moves data only",
        Mode::Digest(_) => "hakobu digest reads the file itself, and rsync moves data only",
        Mode::Copy | Mode::Delta => "",
    };
    if !verb.is_empty() {
        return Err(usage(verb.to_owned()));
    }
    places(request)?;
    if let Some(option) = option(request) {
        let of_a_daemon = ends(request).any(|end| end.rsync_host().is_some());
        let other = if of_a_daemon { "use host:path" } else { "leave --transport rsync out" };
        return Err(usage(format!(
            "{option} is not possible where rsync moves the data; leave it out, or {other}"
        )));
    }
    if request.limits.rate.constant().is_none() {
        return Err(usage("rsync knows no timetable for --bwlimit; give it one rate".to_owned()));
    }
    if request.password_file.as_deref() == Some(Path::new("-")) {
        return Err(usage("--password-file is a file; standard input is not read".to_owned()));
    }
    request.password_file.as_deref().map_or(Ok(()), password_file)?;
    let promised = [LossKind::Acl, LossKind::Xattr, LossKind::HardLinks, LossKind::Holes];
    if let Some(kind) = request.require.iter().find(|kind| !promised.contains(kind)) {
        let words = format!("--require {} cannot be promised where rsync moves the data", kind.name());
        return Err(Error::new(ErrorKind::Requirement, "looking at the request", words));
    }
    Ok(())
}

/// Checks the password file now: rsync reads it only when the daemon asks, and its message then sounds as if a file to
/// be copied were missing.
fn password_file(file: &Path) -> Result<()> {
    let look = || {
        let found = std::fs::metadata(file)?;
        // A pipe is left for rsync to read.
        if found.is_file() {
            std::fs::File::open(file)?;
        }
        Ok(found)
    };
    let (kind, words) = match look() {
        Err(error) => {
            let error = Error::io("", &error);
            (error.kind, error.detail)
        }
        Ok(found) if found.is_dir() => (ErrorKind::Usage, "it is a directory".to_owned()),
        Ok(found) if found.mode() & OF_OTHERS != 0 => {
            (ErrorKind::Usage, "others may read or write it, so rsync does not take it".to_owned())
        }
        Ok(_) => return Ok(()),
    };
    let next = "it is a file with the password on its first line, for its owner alone (chmod 600)";
    let error = Error::new(kind, "reading the password file", format!("{words}; {next}"));
    Err(error.at(file.as_os_str().as_encoded_bytes()))
}

/// Requires one local and one remote endpoint.
fn places(request: &CopyRequest) -> Result<()> {
    if !request.pairs.is_empty() {
        return Err(usage("--pairs is not possible where rsync moves the data".to_owned()));
    }
    if ends(request).any(|end| end.rsync_host().is_some()) && matches!(request.transport, Transport::Agent) {
        return Err(usage("an rsync daemon has no agent; leave --transport agent out".to_owned()));
    }
    if ends(request).any(|end| end.rsync_host().is_some())
        && matches!(request.transport, Transport::Sftp | Transport::Ssh)
    {
        return Err(usage("an rsync daemon is spoken to by rsync alone; leave --transport out".to_owned()));
    }
    if ends(request).any(Location::is_stream) {
        return Err(usage("standard input and output cannot be copied by rsync".to_owned()));
    }
    if request.sources.len() > 1 {
        return Err(usage("rsync gets one source at a time here; run it once for each".to_owned()));
    }
    let is_daemon = |end: &Location| end.rsync_host().is_some();
    if !ends(request).any(is_daemon) {
        let words = "--transport rsync is for the modules of rsync daemons: write rsync://host/module/path, or leave \
                     --transport out";
        return Err(usage(words.to_owned()));
    }
    let is_here = |end: &Location| !is_daemon(end) && end.ssh_host().is_none();
    let is_pair = match (request.sources.iter().any(is_daemon), is_daemon(&request.target)) {
        (true, false) => is_here(&request.target),
        (false, true) => request.sources.iter().all(is_here),
        _ => false,
    };
    if !is_pair {
        let words =
            "rsync copies between this machine and a daemon; run hakobu on the machine with the other end";
        return Err(usage(words.to_owned()));
    }
    Ok(())
}

fn ends(request: &CopyRequest) -> impl Iterator<Item = &Location> {
    request.sources.iter().chain([&request.target])
}

/// Returns a given option that rsync does not support.
fn option(request: &CopyRequest) -> Option<&'static str> {
    let typed = [
        (matches!(request.verify, Verify::Wire | Verify::Medium), "--verify"),
        (request.compare_content, "--compare digest"),
        (request.in_place, "--in-place"),
        (request.restart, "--restart"),
        (request.passes.is_some(), "--passes"),
        (!request.confirmed.is_empty(), "--confirm"),
        (request.live, "--live"),
        (request.skip_unreadable, "--on-read-error skip"),
        (request.sample.is_some(), "--sample"),
        (request.cipher != CipherChoice::Auto, "--cipher"),
        (request.wants_compression(), "--compress zstd"),
        (request.agent.is_some(), "--agent"),
        (request.sudo, "--sudo"),
        (request.data_address.is_some(), "--data-address"),
        (request.data_port.is_some(), "--data-port"),
        (request.limits.operations_per_second.is_some(), "--iops-limit"),
        (request.limits.source_p99_us.is_some(), "--source-p99"),
    ];
    typed.into_iter().find_map(|(is_typed, name)| is_typed.then_some(name))
}

fn usage(words: String) -> Error {
    Error::new(ErrorKind::Usage, "looking at the request", words)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(source: &str, target: &str) -> CopyRequest {
        let parse = |typed: &str| Location::parse(typed.as_bytes()).unwrap();
        CopyRequest { sources: vec![parse(source)], target: parse(target), ..CopyRequest::default() }
    }

    #[test]
    fn what_cannot_be_done_is_said_before() {
        let push = || request("a", "rsync://h/m/");
        assert!(check(&push()).is_ok() && check(&request("h::m/x", "b")).is_ok());
        let wrong = [
            request("h::m/x", "i::m/y"),
            request("h::m/x", "i:y"),
            request("a", "b"),
            request("-", "h::m/x"),
            CopyRequest { mode: Mode::Compare, ..push() },
            CopyRequest { in_place: true, ..push() },
            CopyRequest { verify: Verify::Medium, ..push() },
            CopyRequest { transport: Transport::Agent, ..push() },
            CopyRequest { sources: vec![Location::local("a"), Location::local("b")], ..push() },
        ];
        for request in wrong {
            assert_eq!(check(&request).unwrap_err().kind, ErrorKind::Usage, "{request:?}");
        }
        let owner = CopyRequest { require: [LossKind::Owner].into(), ..push() };
        assert_eq!(check(&owner).unwrap_err().kind, ErrorKind::Requirement);
    }

    #[test]
    fn a_password_file_that_rsync_would_not_take_is_named() {
        use std::os::unix::fs::PermissionsExt;
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("secret");
        let said = |file: &Path| {
            let request =
                CopyRequest { password_file: Some(file.to_owned()), ..request("a", "rsync://joe@h/m/") };
            check(&request).map_err(|error| (error.kind, error.to_string()))
        };
        let (kind, words) = said(&file).unwrap_err();
        assert_eq!(kind, ErrorKind::NotFound);
        let named = format!("reading the password file {}: no such file", file.display());
        assert!(words.starts_with(&named) && !words.contains("directory that is to hold"), "{words}");
        assert!(said(place.path()).unwrap_err().1.contains("it is a directory"));
        std::fs::write(&file, "sesame\n").unwrap();
        let mode = |mode| std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).unwrap();
        mode(0o644);
        assert!(said(&file).unwrap_err().1.contains("chmod 600"));
        mode(0o640);
        assert_eq!(said(&file), Ok(()));
    }
}
