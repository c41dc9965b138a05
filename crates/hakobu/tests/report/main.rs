//! The command `report` shows the reports that the real program writes.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};
use tempfile::TempDir;

mod hostile;
mod html;
mod probe;

const FORMATS: [&str; 3] = ["text", "markdown", "html"];
const LANGUAGES: [&str; 2] = ["en", "ja"];

fn hakobu(arguments: &[&str], stdin: Stdio) -> Output {
    Command::new(env!("CARGO_BIN_EXE_hakobu"))
        .args(arguments)
        .stdin(stdin)
        .output()
        .expect("the program starts")
}

/// A report in a file.
struct Written {
    place: TempDir,
}

impl Written {
    fn with(content: impl AsRef<[u8]>) -> Self {
        let place = tempfile::tempdir().unwrap();
        fs::write(place.path().join("report.json"), content).unwrap();
        Self { place }
    }

    /// Copies a file of this name and size, and keeps the report.
    fn of_copy(name: &[u8], size_bytes: usize) -> Self {
        let written = Self::with("");
        let source = written.place.path().join(std::ffi::OsStr::from_bytes(name));
        fs::write(&source, vec![b'x'; size_bytes]).unwrap();
        let mut copy = Command::new(env!("CARGO_BIN_EXE_hakobu"));
        copy.args(["copy", "--verify", "wire", "--report"]).arg(written.file());
        copy.arg(&source).arg(written.place.path().join("target"));
        let output = copy.stdin(Stdio::null()).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        written
    }

    fn file(&self) -> PathBuf {
        self.place.path().join("report.json")
    }

    fn value(&self) -> Value {
        serde_json::from_slice(&fs::read(self.file()).unwrap()).unwrap()
    }

    #[track_caller]
    fn shown(&self, format: &str, language: &str) -> String {
        let file = self.file();
        let arguments = ["report", "--format", format, "--lang", language, file.to_str().unwrap()];
        let output = hakobu(&arguments, Stdio::null());
        assert!(output.status.success(), "{format} {language}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// Runs `hakobu report`; returns exit code and standard error.
    fn refused(&self, more: &[&str]) -> (i32, String) {
        let file = self.file();
        let output = hakobu(&[&["report", file.to_str().unwrap()], more].concat(), Stdio::null());
        assert_eq!(output.stdout, b"");
        (output.status.code().unwrap(), String::from_utf8(output.stderr).unwrap())
    }
}

/// Returns the text that a reader sees, without the markup of the format.
#[track_caller]
fn plain(format: &str, shown: &str) -> String {
    match format {
        "html" => html::text_of(shown),
        "markdown" => shown.replace(['`', '\\'], ""),
        _ => shown.to_owned(),
    }
}

#[test]
fn the_facts_of_a_copy_are_there_in_every_format_and_language() {
    let written = Written::of_copy(b"disk image", 3_000_000);
    let report = written.value();
    let digest = report["digest_blake3"].as_str().unwrap();
    let job = report["job"].as_str().unwrap();
    let resolved = report["source"]["resolved"].as_str().unwrap();
    assert!(resolved.ends_with("/disk image"), "{report:#}");
    let timeline = &report["timeline"];
    let bytes =
        timeline["samples"].as_array().unwrap().iter().map(|sample| sample["bytes"].as_u64().unwrap());
    assert_eq!(bytes.sum::<u64>(), 3_000_000, "{timeline}");
    for format in FORMATS {
        for (language, facts) in LANGUAGES.into_iter().zip([
            [
                "done (exit code 0)",
                "Everything is at the target",
                "3 000 000",
                "Throughput",
                "What limited it",
                "UTC",
            ],
            ["完了(終了コード 0)", "コピー先", "3,000,000", "スループット", "速度を決めた要因", "JST"],
        ]) {
            let shown = written.shown(format, language);
            let plain = plain(format, &shown);
            let version = env!("CARGO_PKG_VERSION");
            for fact in facts.into_iter().chain([digest, job, resolved, version, "3.00 MB", "hakobu copy"]) {
                // The command is quoted for a shell where necessary.
                let fact = if fact == "hakobu copy" { " copy --verify wire" } else { fact };
                assert!(plain.contains(fact), "{format} {language}: no {fact} in {plain}");
            }
            assert_eq!(format == "html", shown.contains("<svg class=\"chart\" "), "{format}");
        }
    }
    let html = written.shown("html", "ja");
    assert!(html.contains("<html lang=\"ja\">") && html.contains("default-src 'none'"));
}

#[test]
fn names_of_a_real_file_stay_names() {
    let name = b"<img src=x onerror=alert(1)>`|*_\x1b[31m\xff";
    let written = Written::of_copy(name, 1000);
    for format in FORMATS {
        let shown = written.shown(format, "en");
        assert!(!shown.contains('\x1b'), "{format}");
        let plain = plain(format, &shown);
        assert!(plain.contains("onerror=alert(1)>"), "{format}: {plain}");
    }
    assert!(written.shown("markdown", "en").contains("``"), "the fence is longer than what is within");
}

#[test]
fn long_lists_are_whole_but_for_text() {
    let mut report = Written::of_copy(b"x", 10).value();
    let failure = |number: usize| json!({"path": format!("dir/{number}."), "during": "reading", "error": "no", "kind": "io"});
    report["failures"] = (0..25).map(failure).collect();
    report["outcome"] = "partial".into();
    report["exit_code"] = 3.into();
    report["losses"] = json!([{"what": "acl", "count": 1200, "side": "source", "example": "a/b"}]);
    report["passes"] = json!([{"seconds": 100.5, "written_bytes": 5000}, {"seconds": 2, "written_bytes": 7}]);
    report["differences"] =
        json!([{"path": "d", "what": "range", "offset_bytes": 262144, "length_bytes": 262144}]);
    let written = Written::with(report.to_string());
    for format in FORMATS {
        let all = if format == "text" { 20 } else { 25 };
        for (language, facts) in LANGUAGES.into_iter().zip([
            ["partly done (exit code 3)", "25 entries failed", "1 200 entries", "262144 to 524288", "Passes"],
            ["一部未完了(終了コード 3)", "25 件が失敗", "1,200 件", "262144〜524288", "差分転送"],
        ]) {
            let plain = plain(format, &written.shown(format, language));
            assert_eq!((0..25).filter(|number| plain.contains(&format!("dir/{number}."))).count(), all);
            for fact in facts {
                assert!(plain.contains(fact), "{format} {language}: no {fact} in {plain}");
            }
        }
    }
    assert!(written.shown("text", "en").contains("and 5 more"));
    assert!(written.shown("text", "ja").contains("ほか 5 件"));
}

/// A full disk does not lead to the advice to use a faster one.
#[test]
fn what_limited_a_run_that_an_error_ended_is_no_advice() {
    let mut report = Written::of_copy(b"x", 10).value();
    report["bottleneck"] = json!({"stage": "target write", "share": 0.9});
    let advises =
        |report: &Value| Written::with(report.to_string()).shown("text", "en").contains("faster disk");
    assert!(advises(&report));
    report["only_compared"] = true.into();
    let shown = Written::with(report.to_string()).shown("text", "en");
    assert!(!shown.contains("faster disk") && shown.contains("the comparison there"), "{shown}");
    report["only_compared"] = false.into();
    report["error"] = json!({"kind": "no_space", "during": "writing", "at": "x", "error": "no space left"});
    assert!(!advises(&report));
}

#[test]
fn a_report_of_an_older_version_is_shown() {
    let written = Written::with("{\"schema\":\"hakobu.report/1\",\"outcome\":\"failed\",\"exit_code\":1}");
    for format in FORMATS {
        let shown = written.shown(format, "en");
        assert!(plain(format, &shown).contains("failed (exit code 1)"), "{shown}");
        assert!(!shown.contains("<figure>"));
    }
}

#[test]
fn it_is_read_from_standard_input_and_written_to_a_file() {
    let written = Written::of_copy(b"x", 10);
    let stdin = fs::File::open(written.file()).unwrap();
    let output = hakobu(&["report", "-"], stdin.into());
    assert_eq!(String::from_utf8(output.stdout).unwrap(), written.shown("text", "en"));
    let page = written.place.path().join("page.html");
    fs::write(&page, "before").unwrap();
    let file = written.file();
    let arguments = ["report", "--format=html", "--output", page.to_str().unwrap(), file.to_str().unwrap()];
    // A file that is not a page of hakobu is not overwritten.
    assert_eq!(hakobu(&arguments, Stdio::null()).status.code(), Some(6));
    assert_eq!(fs::read_to_string(&page).unwrap(), "before");
    fs::remove_file(&page).unwrap();
    for _again in 0..2 {
        let output = hakobu(&arguments, Stdio::null());
        assert!(output.status.success() && output.stdout.is_empty(), "{output:?}");
    }
    html::text_of(&fs::read_to_string(&page).unwrap());
    let names = fs::read_dir(written.place.path()).unwrap().map(|entry| entry.unwrap().file_name());
    assert!(!names.into_iter().any(|name| name.as_bytes().starts_with(b".hakobu")), "no draft stays");
}

#[test]
fn what_is_no_report_is_refused_with_words() {
    for (content, words) in [
        ("", "it is empty"),
        ("{\n\"schema\": \"hakobu.report/1\",\n!", "line 3 column 1"),
        ("{\"schema\":\"hakobu.report/2\"}", "its schema is hakobu.report/2"),
        ("{\"schema\":\"\\u001b[2J\"}", "\\u{1b}[2J"),
    ] {
        let (code, said) = Written::with(content).refused(&[]);
        assert_eq!(code, 1, "{said}");
        assert!(said.starts_with("error: reading the report ") && said.contains(words), "{said}");
    }
    let written = Written::of_copy(b"x", 10);
    let before = fs::read(written.file()).unwrap();
    let (code, said) = written.refused(&["--output", written.file().to_str().unwrap()]);
    assert_eq!((code, fs::read(written.file()).unwrap()), (6, before), "{said}");
    assert_eq!(written.refused(&["--format", "pdf"]).0, 2);
    assert_eq!(written.refused(&["--lang", "fr"]).0, 2);
    let missing = hakobu(&["report", "/nonexistent"], Stdio::null());
    assert_eq!(missing.status.code(), Some(1));
    assert!(!Path::new("/nonexistent").exists());
    assert_eq!(hakobu(&["report", "/"], Stdio::null()).status.code(), Some(1));
}
