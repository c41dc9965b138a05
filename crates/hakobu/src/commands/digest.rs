//! The verb `digest`, from the arguments to the exit code.

use std::ffi::OsString;
use std::io::{IsTerminal, stdout};
use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use clap::Args;
use clap::builder::PossibleValuesParser;
use hakobu_agent::stream::named_source;
use hakobu_core::digest::{Algorithm, Digest, hex};
use hakobu_core::error::Error;
use hakobu_core::event::{Event, Observer};
use hakobu_core::location::Location;
use hakobu_core::path::lossy;
use hakobu_core::report::{Outcome, Report, ReportError, ReportFailure};
use hakobu_core::request::CopyRequest;
use serde::Serialize;

use crate::commands::shared::findings::Findings;
use crate::commands::shared::headings::{DISKS, OUTPUT, TRANSFER};
use crate::commands::shared::login::LoginArguments;
use crate::commands::shared::store::{ObjectArguments, StoreArguments, is_in_object_store};
use crate::language::Language;
use crate::prompts::Terminal;
use crate::render::json::{self, JsonPath};
use crate::render::progress_bar::shows_progress;
use crate::render::{RenderSettings, Renderer};
use crate::settings_file::{name_places, ssh_variable};
use crate::translation::localized;
use crate::words::machines;
use crate::{exit, messages, output, run, signals};

pub(crate) const DIGEST_HELP: &str = "\
The data is read on the host that holds it; disks are read bypassing the page cache. BLAKE3 uses all cores. Only digests \
are sent. A symbolic link given as LOCATION is followed. For a tree one line per file is printed in b3sum's format, \
with the path on that host and in no particular order; `b3sum --check` accepts it there, except for names that are \
not UTF-8.

Examples:
  hakobu digest disk.img                     same output as b3sum disk.img
  hakobu digest host:/dev/sdb                a disk, read on host
  hakobu digest --algorithm sha256 host:/images/disk.img

Exit codes: 0 done, 1 failed, 2 wrong usage, 3 parts could not be read (--on-read-error skip), 5 the data changed \
while it was read, 6 refused (it is in use), 130 interrupted.";

/// The arguments of `digest`.
#[derive(Debug, Args)]
pub struct DigestArguments {
    /// File, tree or block device: path, host:path, ssh://host:port/path, sftp://host/path, s3://bucket/path, az://container/path or gs://bucket/path
    #[arg(value_name = "LOCATION")]
    pub location: OsString,

    /// Algorithm: blake3, sha256
    ///
    /// sha256 is for a file or disk; the digest of a tree is blake3.
    #[arg(long, value_name = "NAME", default_value = "blake3", hide_possible_values = true,
        value_parser = PossibleValuesParser::new(["blake3", "sha256"]), help_heading = TRANSFER)]
    pub algorithm: String,

    /// Read all content, also where a store keeps its digest
    ///
    /// Otherwise such a digest is printed, if the store's own checksum proves that the content has not changed since.
    #[arg(long, help_heading = TRANSFER)]
    pub full: bool,

    /// Read a disk in use; the digest may be inconsistent
    #[arg(long, help_heading = DISKS)]
    pub live: bool,

    /// If the data cannot be read: stop, or skip
    ///
    /// `skip` treats unreadable areas as zeros, and lists them
    #[arg(long, value_name = "HOW", default_value = "stop", hide_possible_values = true,
        value_parser = PossibleValuesParser::new(["stop", "skip"]), help_heading = DISKS)]
    pub on_read_error: String,

    /// Print JSON objects instead of lines
    #[arg(long, help_heading = OUTPUT)]
    pub json: bool,

    /// The login on the other machine.
    #[command(flatten)]
    pub login: LoginArguments,

    /// The options for reaching object stores.
    #[command(flatten)]
    pub store: StoreArguments,
}

/// The error for `-` as location.
const NO_INPUT: &str = "hakobu digest does not read standard input in this version; use b3sum or sha256sum. For a file named - write ./-";

/// Returns the request that the arguments of `digest` stand for.
///
/// # Errors
/// `Usage` for each value that is wrong.
pub fn digest_request(
    typed: &DigestArguments,
    environment_ssh: Option<OsString>,
) -> Result<CopyRequest, Vec<Error>> {
    let mut found = Findings::default();
    let location = found.keep(Location::parse(typed.location.as_bytes()));
    let location = location.map(named_source).unwrap_or_default();
    let algorithm = Algorithm::from_name(&typed.algorithm).unwrap_or_default();
    if location.is_stream() {
        found.usage("-", NO_INPUT);
    }
    let mut request = hakobu_transfer::digest::request(location, algorithm);
    (request.live, request.full) = (typed.live, typed.full);
    request.skip_unreadable = typed.on_read_error == "skip";
    found.login(&typed.login, environment_ssh, &mut request);
    let settings = found.store(&typed.store, &ObjectArguments::default(), request.sources.first());
    (request.source_store, request.target_store) = (settings.clone(), settings);
    name_places(&mut found.errors, &typed.login.from_files);
    found.or(request)
}

/// The schema of what `--json` prints.
const SCHEMA: &str = "hakobu.digest/1";

/// The algorithm whose tool escapes carriage returns as well.
const SHA256: &str = "sha256";
/// The number of bytes of output that are printed at a time.
const HELD_BYTES: usize = 64 * 1024;

/// The JSON object that `--json` prints for a file or disk.
#[derive(Serialize)]
struct JsonDigest<'a> {
    schema: &'static str,
    outcome: Outcome,
    exit_code: u8,
    #[serde(flatten)]
    location: JsonPath,
    algorithm: &'a str,
    digest: Option<String>,
    size_bytes: u64,
    seconds: f64,
    failures: &'a [ReportFailure],
    error: Option<&'a ReportError>,
}

/// Prints a digest; returns the exit code.
pub fn digest(typed: &DigestArguments) -> u8 {
    let began = Instant::now();
    let request = match digest_request(typed, ssh_variable()) {
        Ok(request) => request,
        Err(errors) => return exit::errors(&errors),
    };
    let in_vain = typed.store.without_effect(request.sources.iter().any(is_in_object_store));
    in_vain.iter().for_each(|words| output::tell_translated(&messages::note(words)));
    let cancel = match signals::cancel_flag() {
        Ok(cancel) => cancel,
        Err(error) => return exit::errors(&[Error::io("installing signal handlers", &error)]),
    };
    let (progress, language) = (shows_progress(), Language::from_environment());
    let shown = RenderSettings { mode: request.mode, progress, language, ..RenderSettings::default() };
    let renderer = Renderer::new(shown).with_machines(machines(&request));
    let manifest = Manifest {
        inner: &renderer,
        place: place(&request),
        json: typed.json,
        on_terminal: stdout().is_terminal(),
        held: Mutex::default(),
        printed: AtomicU8::new(0),
    };
    let (report, digest) =
        run::digest(&request, &manifest, Terminal::new(cancel, shows_progress() && !typed.json));
    manifest.print(&mut manifest.held());
    let manifest_printed = manifest.printed.load(Relaxed);
    renderer.finish(&report);
    if let Some(words) = kept_digests(&report, language).filter(|_| !typed.json) {
        output::tell(&messages::note(&words));
    }
    let name = typed.location.as_bytes();
    let said = match (typed.json, digest) {
        (true, digest) => {
            json_line(&report, name, &typed.algorithm, digest.as_ref(), began.elapsed().as_secs_f64())
        }
        (false, Some(digest)) => {
            // As for a tree, the line has the path without the host, so that it can be checked on that host.
            let name = request.sources.first().filter(|source| source.ssh_host().is_some());
            let name = name.map_or(typed.location.as_bytes(), |source| source.path());
            Ok(line(&digest, name, &typed.algorithm, stdout().is_terminal()))
        }
        (false, None) => Ok(Vec::new()),
    };
    let printed = match said {
        Ok(said) => output::print(&said),
        Err(error) => exit::errors(&[Error::io("writing JSON", &error)]),
    };
    match report.outcome.exit_code() {
        0 => printed.max(manifest_printed),
        code => code,
    }
}

/// Says how many digests are those that the store keeps.
fn kept_digests(report: &Report, language: Language) -> Option<String> {
    let kept = report.requests.source.map_or(0, |requests| requests.kept_digests);
    let count = language.count(kept);
    (kept > 0).then(|| {
        localized!(
            language,
            "{} digests are those that the store keeps; --full reads the content instead",
            count
        )
    })
}

/// Prints the digests of the files of a tree as they come.
struct Manifest<'a> {
    inner: &'a Renderer,
    /// The prefix of the paths.
    place: Vec<u8>,
    json: bool,
    on_terminal: bool,
    /// Output that is not printed yet.
    held: Mutex<Vec<u8>>,
    /// The exit code of the output so far. A line that could not be printed counts.
    printed: AtomicU8,
}

impl Manifest<'_> {
    /// Prints the lines held back so far.
    fn print(&self, held: &mut Vec<u8>) {
        self.printed.fetch_max(output::print(&std::mem::take(held)), Relaxed);
    }

    fn held(&self) -> MutexGuard<'_, Vec<u8>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The JSON object that `--json` prints for each file of a tree.
#[derive(Serialize)]
struct JsonFile {
    schema: &'static str,
    #[serde(flatten)]
    path: JsonPath,
    digest: String,
}

impl Observer for Manifest<'_> {
    fn event(&self, event: Event) {
        let Event::Digest { path, digest } = &event else { return self.inner.event(event) };
        let name = [&self.place[..], path].concat();
        let said = match self.json {
            true => {
                json::one_line(&JsonFile { schema: SCHEMA, path: JsonPath::new(&name), digest: hex(digest) })
                    .map(|line| (line + "\n").into_bytes())
                    .unwrap_or_default()
            }
            false => line(digest, &printable(name), "blake3", self.on_terminal),
        };
        let mut held = self.held();
        held.extend_from_slice(&said);
        if self.on_terminal || held.len() >= HELD_BYTES {
            // The reader may have exited. The run continues to its exit code.
            self.print(&mut held);
        }
    }
}

/// Returns a name as `b3sum` prints it. `b3sum --check` reads its list as UTF-8, so other names are replaced and
/// fail, while the remaining lines can be checked.
fn printable(name: Vec<u8>) -> Vec<u8> {
    String::from_utf8(name)
        .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
        .into_bytes()
}

/// Returns the prefix of the paths of a tree: the directory as it was typed, without its host, so that the lines are valid on
/// that host.
fn place(request: &CopyRequest) -> Vec<u8> {
    let mut place = request.sources.first().map(|source| source.path().to_vec()).unwrap_or_default();
    if place == b"." {
        place.clear();
    } else if !place.ends_with(b"/") {
        place.push(b'/');
    }
    place
}

fn json_line(
    report: &Report,
    name: &[u8],
    algorithm: &str,
    digest: Option<&Digest>,
    seconds: f64,
) -> std::io::Result<Vec<u8>> {
    let object = JsonDigest {
        schema: SCHEMA,
        outcome: report.outcome,
        exit_code: report.outcome.exit_code(),
        location: JsonPath::new(name),
        algorithm,
        digest: digest.map(hex),
        size_bytes: report.bytes_done,
        seconds,
        failures: &report.failures,
        error: report.error.as_ref(),
    };
    Ok((json::one_line(&object)? + "\n").into_bytes())
}

/// Returns a line in the format that `b3sum` and `sha256sum` print and check: a name with a line end or a backslash is
/// escaped, and the line then begins with a backslash. On a terminal, control characters are escaped too.
fn line(digest: &Digest, name: &[u8], algorithm: &str, on_terminal: bool) -> Vec<u8> {
    let mut escaped = Vec::with_capacity(name.len());
    for byte in name {
        match byte {
            b'\\' => escaped.extend(b"\\\\"),
            b'\n' => escaped.extend(b"\\n"),
            b'\r' if algorithm == SHA256 => escaped.extend(b"\\r"),
            byte => escaped.push(*byte),
        }
    }
    let mark: &[u8] = if escaped == name { b"" } else { b"\\" };
    if on_terminal {
        escaped = lossy(&escaped).into_bytes();
    }
    [mark, hex(digest).as_bytes(), b"  ", &escaped, b"\n"].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_escaped_as_the_usual_tools_do() {
        let of = |name: &[u8], on_terminal| {
            String::from_utf8(line(&[0xab; 32], name, SHA256, on_terminal)).unwrap()
        };
        let hex = "ab".repeat(32);
        assert_eq!(of(b"h:/a b", true), format!("{hex}  h:/a b\n"));
        assert_eq!(of(b"a\nb\\c\r", false), format!("\\{hex}  a\\nb\\\\c\\r\n"));
        assert_eq!(of(b"a\x1b[2J", false), format!("{hex}  a\x1b[2J\n"));
        assert!(!of(b"a\x1b[2J", true).contains('\x1b'));
        assert_eq!(line(&[1; 32], b"a\r\n", "blake3", false).last_chunk(), Some(b"  a\r\\n\n"));
        assert_eq!(line(&[1; 32], b"\xff", SHA256, false).last_chunk(), Some(b"  \xff\n"));
    }
}
