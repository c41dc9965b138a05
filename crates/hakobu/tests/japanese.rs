//! The real program in Japanese: by the locale, for people alone, with values as they are.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

use std::fs;
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;

const HAKOBU: &str = env!("CARGO_BIN_EXE_hakobu");
const JAPANESE: (&str, &str) = ("LANG", "ja_JP.UTF-8");

/// The program with these variables of the locale and no others.
fn program(program: &str, locale: &[(&str, &str)]) -> Command {
    let mut command = Command::new(program);
    for name in ["LC_ALL", "LC_MESSAGES", "LANG", "HAKOBU_SSH"] {
        command.env_remove(name);
    }
    command.envs(locale.iter().copied()).env("HAKOBU_SETTINGS", "none").stdin(Stdio::null());
    command
}

fn hakobu(directory: &Path, locale: &[(&str, &str)], line: &str) -> Output {
    let mut command = program(HAKOBU, locale);
    command.current_dir(directory).args(line.split(' ')).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// Exit code, standard output and standard error in Japanese.
fn said(directory: &Path, line: &str) -> (i32, String, String) {
    let output = hakobu(directory, &[JAPANESE], line);
    (output.status.code().unwrap(), text(&output.stdout), text(&output.stderr))
}

/// A directory with a tree `a` of two files.
fn place() -> TempDir {
    let place = tempfile::tempdir().unwrap();
    fs::create_dir_all(place.path().join("a/below")).unwrap();
    fs::write(place.path().join("a/file"), "content").unwrap();
    fs::write(place.path().join("a/below/it is closed"), "more").unwrap();
    place
}

#[test]
fn a_copy_is_told_in_the_language_of_the_locale() {
    let japanese = [
        vec![JAPANESE],
        vec![("LANG", "C"), ("LC_MESSAGES", "ja_JP.UTF-8")],
        vec![("LANG", "C"), ("LC_ALL", "ja")],
    ];
    for locale in &japanese {
        let place = place();
        let output = hakobu(place.path(), locale, "copy a/ b");
        let shown = text(&output.stdout);
        assert!(output.status.success(), "{output:?}");
        assert!(
            shown.contains(" にコピー\n") && shown.contains("\n完了: 作成 4(うちディレクトリ 2)"),
            "{shown}"
        );
        assert!(!shown.contains("copying") && !shown.contains("created"), "{shown}");
        let again = text(&hakobu(place.path(), locale, "copy a/ b").stdout);
        assert!(again.contains("、変更なし 4\n"), "{again}");
    }
    let english = [
        vec![("LC_ALL", "C"), ("LC_MESSAGES", "ja_JP.UTF-8"), JAPANESE],
        vec![("LANG", "ja_JP.eucJP")],
        vec![("LANG", "en_US.UTF-8")],
        vec![],
    ];
    for locale in &english {
        let place = place();
        let output = hakobu(place.path(), locale, "copy a/ b");
        let shown = text(&output.stdout);
        assert!(shown.starts_with("copying ") && shown.contains("\ndone: 4 created"), "{locale:?}: {shown}");
        assert!(shown.is_ascii() && output.stderr.is_empty(), "{output:?}");
    }
}

#[test]
fn an_error_names_step_place_cause_and_remedy() {
    let place = place();
    let (code, _, shown) = said(place.path(), "copy nothing b");
    assert_eq!(code, 1, "{shown}");
    let at = place.path().canonicalize().unwrap().join("nothing");
    let known =
        [format!("エラー: コピー元の確認: {}: ", at.display()), "エラー: コピー元の確認: nothing: ".into()];
    assert!(known.iter().any(|begin| shown.starts_with(begin)), "{shown}");
    assert!(shown.trim_end().ends_with("存在しない"), "{shown}");
    let (code, _, shown) = said(place.path(), "copy a/ a/below");
    assert_eq!(code, 6, "{shown}");
    assert!(shown.contains("コピーが自分自身を含んでしまう"), "{shown}");
    // A file that cannot be replaced, with a name that looks like a message.
    fs::create_dir_all(place.path().join("b/below/it is closed/permission denied: x")).unwrap();
    let (code, shown, failed) = said(place.path(), "copy a/ b");
    assert_eq!(code, 3, "{shown}{failed}");
    assert!(failed.contains("失敗: below/it is closed: "), "{failed}");
    assert!(failed.contains("コピー先ではディレクトリである"), "{failed}");
    assert!(shown.contains("一部のみ完了: ") && shown.contains("失敗 1: 上に表示"), "{shown}");
}

#[test]
fn wrong_usage_has_japanese_labels_and_hints() {
    let place = place();
    for (line, words) in [
        ("copy --frob a b", &["エラー: 引数 '--frob' は使えない\n", "使い方: hakobu copy "][..]),
        (
            "sycn a b",
            &["エラー: コマンド sycn はない\n", "ヒント: 正しくは次のとおりか確認する: hakobu sync a b\n"],
        ),
        ("copy --lanes 0 a b", &["エラー: オプション: --lanes: auto または 1 から "]),
        ("copy -P 22 d h:/b", &["ヒント: 次を試す: hakobu copy --ssh 'ssh -p 22' d h:/b"]),
        ("copy --region r a gs://bucket/key", &["gs:// では --region を使えない"]),
        ("copy a s3://", &["s3://: バケットがない: s3://BUCKET/PATH と書く"]),
        ("scan a", &["エラー: scan は、このバージョンにない。違いは hakobu copy --dry-run で一覧できる"]),
    ] {
        let (code, shown, error) = said(place.path(), line);
        assert_eq!((code, shown.as_str()), (2, ""), "{line}: {error}");
        assert!(words.iter().all(|words| error.contains(words)), "{line}: {error}");
    }
    let (code, help, _) = said(place.path(), "copy --help");
    assert!(code == 0 && help.contains("Usage:"), "{help}");
}

#[test]
fn what_programs_read_stays_english() {
    let place = place();
    let line = "copy --itemize --log-file log --report report.json a/ b";
    let (code, shown, _) = said(place.path(), line);
    assert!(code == 0 && shown.contains("\ncreate     file\n"), "{shown}");
    for file in ["log", "report.json"] {
        let written = fs::read_to_string(place.path().join(file)).unwrap();
        assert!(written.is_ascii() && !written.is_empty(), "{written}");
    }
    let log = fs::read_to_string(place.path().join("log")).unwrap();
    assert!(log.contains(" finished   done, exit code 0: 4 created (2 directories)"), "{log}");
    let (code, events, remarks) = said(place.path(), "sync --json --dry-run a/ b");
    assert!(code == 0 && events.is_ascii() && remarks.contains("予定: "), "{events}{remarks}");
    events.lines().for_each(|line| assert!(serde_json::from_str::<Value>(line).is_ok(), "{line}"));
}

#[test]
fn pages_are_in_the_language_of_the_locale_unless_told_otherwise() {
    let place = place();
    said(place.path(), "copy --report report.json a/ b");
    let page = |line: &str| said(place.path(), line).1;
    assert!(page("report report.json").contains("コピー元"));
    assert!(!page("report --lang en report.json").contains("コピー"));
    let english = hakobu(place.path(), &[("LANG", "C")], "report --lang ja report.json");
    assert!(text(&english.stdout).contains("コピー元"));
    assert!(!text(&hakobu(place.path(), &[], "report report.json").stdout).contains("コピー"));
}

#[test]
fn a_question_is_asked_in_japanese_and_takes_the_same_answers() {
    let place = place();
    fs::create_dir_all(place.path().join("b")).unwrap();
    for name in ["permission denied", "and 1 more"] {
        fs::write(place.path().join("b").join(name), "").unwrap();
    }
    let line = format!("cd '{}' && exec {HAKOBU} sync --max-delete 9 a/ b", place.path().display());
    let mut script = program("script", &[JAPANESE]);
    script.args(["--quiet", "--return", "--echo", "never", "--command", &line, "/dev/null"]);
    script.env("TERM", "dumb").stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = script.spawn().unwrap();
    let mut shown = Vec::new();
    while !String::from_utf8_lossy(&shown).contains("y(はい)か n(いいえ)を入力してください: ")
    {
        let mut byte = [0];
        child.stdout.as_mut().unwrap().read_exact(&mut byte).unwrap();
        shown.push(byte[0]);
    }
    let mut input = child.stdin.take().unwrap();
    input.write_all(b"y\n").unwrap();
    let output = child.wait_with_output().unwrap();
    drop(input);
    shown.extend(output.stdout);
    let shown = text(&shown).replace('\r', "");
    assert!(output.status.success(), "{shown}");
    assert!(
        shown.contains("/b の 2 件はコピー元にありません:\n  and 1 more\n  permission denied\n"),
        "{shown}"
    );
    assert!(shown.contains("、削除 2"), "{shown}");
}
