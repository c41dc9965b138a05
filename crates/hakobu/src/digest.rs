//! The verb `digest`, from the arguments to the exit code.

use std::io::{IsTerminal, stdout};
use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use hakobu_core::digest::{Digest, hex};
use hakobu_core::error::Error;
use hakobu_core::event::{Event, Observer};
use hakobu_core::path::lossy;
use hakobu_core::report::{Outcome, Report, ReportError, ReportFailure};
use hakobu_core::request::CopyRequest;
use serde::Serialize;

use crate::arguments::digest::DigestArguments;
use crate::render::json::{self, JsonPath};
use crate::render::progress_bar::shows_progress;
use crate::render::{RenderSettings, Renderer};
use crate::words::machines;
use crate::{exit, output, run, settings, settings_file, signals};

/// The schema of what `--json` prints.
const SCHEMA: &str = "hakobu.digest/1";

/// The algorithm whose tool escapes carriage returns as well.
const SHA256: &str = "sha256";
/// Lines of a manifest are printed so many bytes at a time.
const HELD_BYTES: usize = 64 * 1024;

/// What `--json` prints.
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
    let request = match settings::digest_request(typed, settings_file::ssh_variable()) {
        Ok(request) => request,
        Err(errors) => return exit::errors(&errors),
    };
    let cancel = match signals::cancel_flag() {
        Ok(cancel) => cancel,
        Err(error) => return exit::errors(&[Error::io("installing signal handlers", &error)]),
    };
    let shown =
        RenderSettings { mode: request.mode, progress: shows_progress(), ..RenderSettings::default() };
    let renderer = Renderer::new(shown).with_machines(machines(&request));
    let manifest = Manifest {
        inner: &renderer,
        place: place(&request),
        json: typed.json,
        on_terminal: stdout().is_terminal(),
        held: Mutex::default(),
        printed: AtomicU8::new(0),
    };
    let (report, digest) = run::digest(&request, &manifest, cancel);
    manifest.print(&mut manifest.held());
    let manifest_printed = manifest.printed.load(Relaxed);
    renderer.finish(&report);
    let name = typed.location.as_bytes();
    let said = match (typed.json, digest) {
        (true, digest) => {
            json_line(&report, name, &typed.algorithm, digest.as_ref(), began.elapsed().as_secs_f64())
        }
        (false, Some(digest)) => {
            // As with a tree, the path alone, so that the line holds on its machine.
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

/// Prints the digests of the files of a tree as they come.
struct Manifest<'a> {
    inner: &'a Renderer,
    /// What stands before the paths.
    place: Vec<u8>,
    json: bool,
    on_terminal: bool,
    /// What was not printed yet.
    held: Mutex<Vec<u8>>,
    /// The exit code of what was: lines that are missing in the middle count as well.
    printed: AtomicU8,
}

impl Manifest<'_> {
    /// Prints what is held.
    fn print(&self, held: &mut Vec<u8>) {
        self.printed.fetch_max(output::print(&std::mem::take(held)), Relaxed);
    }

    fn held(&self) -> MutexGuard<'_, Vec<u8>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What `--json` prints of each file of a tree.
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
            // Whoever reads it may have ended; then the run goes on to its exit code.
            self.print(&mut held);
        }
    }
}

/// A name as `b3sum` prints it, which reads its list as UTF-8: of other names it can check none, but all others.
fn printable(name: Vec<u8>) -> Vec<u8> {
    String::from_utf8(name)
        .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
        .into_bytes()
}

/// What stands before the paths of a tree: the directory as it was typed, without its machine, so that the lines hold
/// there.
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

/// What `b3sum` and `sha256sum` print, and read back: a name with a line end or a backslash in it is
/// escaped, and a backslash before the line says so. On a terminal nothing moves the cursor.
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
