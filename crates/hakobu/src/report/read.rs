//! Reading a report: what it has to be, and in plain words what is wrong where it is not.

use std::fs::File;
use std::io::{self, IsTerminal, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use hakobu_core::error::{Error, ErrorKind, Result};
use hakobu_core::report::{Outcome, REPORT_SCHEMA, Report};
use serde::Deserialize;
use serde_json::error::Category;

const READING: &str = "reading the report";
/// The largest file that is read: a run with all the failures and differences that are kept has a tenth of this.
const REPORT_BYTES_MAX: u64 = 256 << 20;

/// Reads a report from a file, or from standard input where that is `-`.
///
/// # Errors
/// `Unsupported` where it is no report that this version knows, else as the system says.
pub fn read(path: &Path) -> Result<Report> {
    read_limited(path, REPORT_BYTES_MAX)
        .and_then(|bytes| parse(&bytes))
        .map_err(|error| error.at(path.as_os_str().as_bytes()))
}

fn read_limited(path: &Path, limit: u64) -> Result<Vec<u8>> {
    let read = |from: &mut dyn Read| {
        let mut bytes = Vec::new();
        let count = from.take(limit + 1).read_to_end(&mut bytes)?;
        Ok((bytes, count as u64))
    };
    let read: io::Result<_> = match path == Path::new("-") {
        true if io::stdin().is_terminal() => {
            let words = "standard input is a terminal; let a file or a program give the report";
            return Err(Error::new(ErrorKind::Usage, READING, words));
        }
        true => read(&mut io::stdin().lock()),
        false => File::open(path).and_then(|mut file| read(&mut file)),
    };
    match read.map_err(|error| Error::io(READING, &error))? {
        (_, count) if count > limit => {
            Err(wrong(format!("it is larger than {} MiB, which no report is", limit >> 20)))
        }
        (bytes, _) => Ok(bytes),
    }
}

fn wrong(words: impl Into<String>) -> Error {
    Error::new(ErrorKind::Unsupported, READING, words)
}

/// The fields that every report has had since the first version.
#[derive(Deserialize)]
struct ReportHead {
    schema: Option<String>,
}

#[derive(Deserialize)]
struct OutcomeRecord {
    #[serde(rename = "outcome")]
    _outcome: Outcome,
}

/// Reads a report from its bytes.
///
/// # Errors
/// `Unsupported` where it is no report that this version knows.
pub fn parse(bytes: &[u8]) -> Result<Report> {
    if bytes.trim_ascii().is_empty() {
        let words = "it is empty: a run fills its report when it ends; this one has not ended, or was killed";
        return Err(wrong(words));
    }
    // The schema comes first, whatever else there is: what another version has written may be anything.
    let mut values = serde_json::Deserializer::from_slice(bytes).into_iter::<ReportHead>();
    let head = values.next().transpose().map_err(|error| misread(&error))?;
    match head.and_then(|head| head.schema).as_deref() {
        Some(REPORT_SCHEMA) => {}
        Some("hakobu.event/1") => {
            return Err(wrong(
                "it holds events (--json); a report is what --report FILE writes, and the last event has it too",
            ));
        }
        Some(other) if other.starts_with("hakobu.report/") => {
            return Err(wrong(format!(
                "its schema is {other}, and this version of hakobu knows {REPORT_SCHEMA} only; use the version \
                 that wrote it, or a newer one"
            )));
        }
        Some(other) if ["hakobu.probe/", "hakobu.bench/"].iter().any(|own| other.starts_with(own)) => {
            return Err(wrong(format!(
                "it is of a probe or a bench ({other}), and no report of a run; these write pages themselves (--html FILE)"
            )));
        }
        Some(other) if other.starts_with("hakobu.fleet.run/") => {
            return Err(wrong(format!(
                "it is of a run of a fleet ({other}), and no report of one process; hakobu fleet run show N and the page of \
                 the control plane show it"
            )));
        }
        Some(other) => return Err(wrong(format!("it is no report: its schema is {other}"))),
        None => return Err(wrong("it is no report: it does not say its schema")),
    }
    let ended: std::result::Result<OutcomeRecord, _> = serde_json::from_slice(bytes);
    ended.and_then(|_| serde_json::from_slice(bytes)).map_err(|error| misread(&error))
}

/// The line and the column are in serde's words.
fn misread(error: &serde_json::Error) -> Error {
    match error.classify() {
        Category::Eof => wrong(format!("it is cut short: {error}")),
        Category::Data => wrong(format!("it is no report: {error}")),
        Category::Syntax | Category::Io => wrong(format!("it is no JSON: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(text: &str) -> String {
        parse(text.as_bytes()).unwrap_err().detail
    }

    #[test]
    fn what_is_no_report_is_told_with_the_place() {
        for (text, words) in [
            ("", "it is empty"),
            (" \n", "it is empty"),
            ("{\n  \"schema\": \"hakobu.rep", "cut short: EOF while parsing a string at line 2"),
            ("hello", "it is no JSON: expected value at line 1 column 1"),
            ("[1]", "it is no report: invalid type: integer"),
            ("{}", "does not say its schema"),
            ("{\"schema\":\"hakobu.disks/1\"}", "its schema is hakobu.disks/1"),
            ("{\"schema\":\"hakobu.probe/1\"}", "write pages themselves (--html FILE)"),
            ("{\"schema\":\"hakobu.report/2\",\"outcome\":[]}", "knows hakobu.report/1 only"),
            ("{\"schema\":\"hakobu.event/1\"}\n{}", "it holds events"),
            ("{\"schema\":\"hakobu.report/1\"}", "missing field `outcome` at line 1 column 28"),
            ("{\"schema\":\"hakobu.report/1\",\"outcome\":\"odd\"}", "unknown variant `odd`"),
            (
                "{\"schema\":\"hakobu.report/1\",\"outcome\":\"done\",\n\"entries\":7}",
                "it is no report: invalid type: integer `7`, expected struct ReportEntries at line 2 column 11",
            ),
            ("{\"schema\":\"hakobu.report/1\",\"outcome\":\"done\"} x", "it is no JSON: trailing characters"),
        ] {
            assert!(said(text).contains(words), "{text}: {}", said(text));
        }
    }

    #[test]
    fn nesting_without_end_is_an_error_like_any_other() {
        let deep = "[".repeat(1 << 20);
        assert!(said(&format!("{{\"schema\":\"hakobu.report/1\",\"x\":{deep}")).contains("cut short"));
        let typed = format!("{{\"schema\":\"hakobu.report/1\",\"outcome\":\"done\",\"job\":{deep}");
        assert!(said(&typed).contains("it is "), "{}", said(&typed));
    }

    #[test]
    fn a_report_of_another_version_is_read_as_far_as_it_goes() {
        let text = "{\"schema\":\"hakobu.report/1\",\"outcome\":\"done\",\"new\":{\"a\":[1]},\"job\":null}";
        assert_eq!(parse(text.as_bytes()).unwrap(), Report { outcome: Outcome::Done, ..Report::default() });
    }

    #[test]
    fn a_file_may_be_as_large_as_the_limit_and_no_larger() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "x".repeat(2 << 20)).unwrap();
        assert_eq!(read_limited(file.path(), 2 << 20).unwrap().len(), 2 << 20);
        let error = read_limited(file.path(), (2 << 20) - 1).unwrap_err();
        assert!(error.detail.contains("larger than 1 MiB"), "{error}");
    }
}
