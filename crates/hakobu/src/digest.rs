//! The verb `digest`, from the arguments to the exit code.

use std::io::{IsTerminal, stdout};
use std::os::unix::ffi::OsStrExt;
use std::time::Instant;

use hakobu_core::digest::{Digest, hex};
use hakobu_core::error::Error;
use hakobu_core::path::lossy;
use hakobu_core::report::{Outcome, Report, ReportError, ReportFailure};
use serde::Serialize;

use crate::cli::DigestArguments;
use crate::copy::{machines, shows_progress};
use crate::render::json::{self, JsonPath};
use crate::render::{RenderSettings, Renderer};
use crate::{exit, output, run, settings, signals};

/// The schema of what `--json` prints.
const SCHEMA: &str = "hakobu.digest/1";

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
    let request = match settings::digest_request(typed, std::env::var_os("HAKOBU_SSH")) {
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
    let (report, digest) = run::digest(&request, &renderer, cancel);
    renderer.finish(&report);
    let name = typed.location.as_bytes();
    let said = match (typed.json, digest) {
        (true, digest) => {
            json_line(&report, name, &typed.algorithm, digest.as_ref(), began.elapsed().as_secs_f64())
        }
        (false, Some(digest)) => Ok(line(&digest, name, stdout().is_terminal())),
        (false, None) => Ok(Vec::new()),
    };
    let printed = match said {
        Ok(said) => output::print(&said),
        Err(error) => exit::errors(&[Error::io("writing JSON", &error)]),
    };
    match report.outcome.exit_code() {
        0 => printed,
        code => code,
    }
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
fn line(digest: &Digest, name: &[u8], on_terminal: bool) -> Vec<u8> {
    let mut escaped = Vec::with_capacity(name.len());
    for byte in name {
        match byte {
            b'\\' => escaped.extend(b"\\\\"),
            b'\n' => escaped.extend(b"\\n"),
            b'\r' => escaped.extend(b"\\r"),
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
        let of = |name: &[u8], on_terminal| String::from_utf8(line(&[0xab; 32], name, on_terminal)).unwrap();
        let hex = "ab".repeat(32);
        assert_eq!(of(b"h:/a b", true), format!("{hex}  h:/a b\n"));
        assert_eq!(of(b"a\nb\\c\r", false), format!("\\{hex}  a\\nb\\\\c\\r\n"));
        assert_eq!(of(b"a\x1b[2J", false), format!("{hex}  a\x1b[2J\n"));
        assert!(!of(b"a\x1b[2J", true).contains('\x1b'));
        assert_eq!(line(&[1; 32], b"\xff", false).last_chunk(), Some(b"  \xff\n"));
    }
}
