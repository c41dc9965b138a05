//! The real program and what it says to what people type.

#![allow(clippy::expect_used)]

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::process::{Command, Output, Stdio};

fn hakobu<S: AsRef<OsStr>>(arguments: &[S]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_hakobu"))
        .args(arguments)
        .env_remove("HAKOBU_SSH")
        .env("HAKOBU_SETTINGS", "none")
        .stdin(Stdio::null())
        .output()
        .expect("the program starts")
}

/// Exit code, standard output, standard error.
fn said(line: &str) -> (i32, String, String) {
    let output = hakobu(&line.split(' ').collect::<Vec<_>>());
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("only UTF-8 is printed");
    (output.status.code().expect("no signal"), text(output.stdout), text(output.stderr))
}

#[test]
fn what_is_wrong_is_said_on_standard_error_with_code_2() {
    for (line, words) in [
        ("copy", "<SOURCE>"),
        ("copy a", "not provided:\n  <TARGET>\n\nUsage: hakobu copy <SOURCE>... <TARGET>"),
        ("copy -a d h:/b", "try: hakobu copy d h:/b"),
        ("copy -P 22 d h:/b", "try: hakobu copy --ssh 'ssh -p 22' d h:/b"),
        ("copy -az --delete d h:/b", "copy never deletes"),
        ("copy --frob a b", "'--frob'"),
        (
            "copy --compress a b",
            "--compress: not needed: content is compressed where the line is what limits",
        ),
        ("copy --compress a b", "try: hakobu copy a b"),
        ("copy --compress", "--compress: not needed"),
        ("copy a b --compress", "try: hakobu copy a b"),
        ("copy -C a h:b", "(--compress zstd: everywhere)\ntry: hakobu copy a h:b"),
        ("copy -avz a h:b", "-z: not needed"),
        ("copy --compress gzip a b", "--compress: it is auto, none, zstd, or zstd:LEVEL"),
        ("copy --compress=zstd:20 a b", "with a level from -7 to 19"),
        ("verify --compress zstd a b", "only digests travel"),
        ("copy --bwlimit 5000 a b", "needs a unit: 5000KiB is what rsync takes it for"),
        ("verify --bwlimit 5M a b", "only digests travel"),
        ("verify -n a b", "verify writes nothing"),
        ("copy --memory 1G a b", "--memory: it is not in this version"),
        ("copy --cipher rot13 a b", "aes-256-gcm"),
        ("copy --data-port 0 a b", "--data-port"),
        ("copy --lanes 0 a b", "--lanes: it is auto or a number from 1 to"),
        ("copy --quiet --verbose a b", "cannot be used with"),
        ("copy a s3://bucket/key", "s3:// is not in this version"),
        ("copy -- -oProxyCommand=x:y b", "a host cannot begin with -"),
        ("sync - b", "standard input can only be copied"),
        ("digest -", "A file named - is ./-"),
        ("data host:/backup", "did you mean: hakobu copy data host:/backup"),
        ("-avz data host:/backup", "did you mean: hakobu copy -v data host:/backup"),
        ("-n data host:/backup", "did you mean: hakobu copy -n data host:/backup"),
        ("--report r a b", "the verb comes first"),
        ("cp -r a b", "did you mean: hakobu copy a b"),
        ("scp -P 22 a h:b", "did you mean: hakobu copy --ssh 'ssh -p 22' a h:b"),
        ("rsync -av --delete a h:b", "copy never deletes"),
        ("mv a b", "hakobu never deletes the source"),
        ("mv a b", "did you mean: hakobu copy a b"),
        ("rm host:/backup", "there is no verb rm"),
        ("cp", "the verb is copy"),
        ("help frob", "there is no verb frob"),
        ("disks /dev/sda", "reading the host /dev/sda: it is no host"),
        ("disks host:/dev", "it is no host"),
        ("disks -- -oProxyCommand=x", "a host cannot begin with -"),
        ("disks --sudo", "--sudo: it is for another machine"),
        ("disks --agent=-x host", "--agent: it is the path of hakobu"),
        ("disks a b", "hakobu disks"),
        ("frob", "there is no verb frob"),
        ("copy --transport rsync a sftp://h/x", "contradict each other"),
        ("copy --transport sftp a rsync://h/m", "leave --transport out"),
        ("jobs frob x", "jobs has no frob; see hakobu jobs --help"),
        ("man frob", "no manual page"),
    ] {
        let (code, out, err) = said(line);
        assert_eq!((code, out.as_str()), (2, ""), "{line}: {err}");
        assert!(err.contains(words) && err.starts_with("hakobu: "), "{line}: {err}");
        assert!(!err.contains("agent'"), "a hidden verb is no advice: {err}");
    }
}

/// Faults on purpose are in a build of their own alone.
#[test]
#[cfg(not(feature = "planted-faults"))]
fn the_program_has_no_fault_on_purpose() {
    let program = std::fs::read(env!("CARGO_BIN_EXE_hakobu")).expect("the program can be read");
    let variable = b"HAKOBU_PLANT";
    assert!(!program.windows(variable.len()).any(|part| part == variable), "it is built with planted-faults");
}

#[test]
fn every_verb_of_later_versions_is_known_by_name() {
    for verb in ["scan", "daemon", "receive", "modules", "keys", "serve", "broker"] {
        let (code, _, err) = said(&format!("{verb} a b"));
        assert_eq!(code, 2);
        assert!(err.starts_with(&format!("hakobu: {verb} is not in this version; ")), "{err}");
    }
}

#[test]
fn a_requirement_that_nothing_meets_is_refused() {
    let (code, _, err) = said("copy --require direct a b");
    assert_eq!(code, 6, "{err}");
}

#[test]
fn a_report_that_cannot_be_written_is_known_before_the_copy() {
    let (code, out, err) = said("copy --report /nonexistent/report.json /etc/hostname /dev/null");
    assert_eq!((code, out.as_str()), (1, ""));
    assert!(err.contains("opening the report /nonexistent/report.json"), "{err}");
}

#[test]
fn nothing_typed_reaches_the_terminal_unescaped() {
    let hostile = b"x\x1b[2J\x07\x9b\xc2\x9b\xe2\x80\xaey";
    for before in [&b""[..], b"copy", b"copy\0a", b"copy\0--", b"copy\0--lanes", b"copy\0-a"] {
        for prefix in [&b""[..], b"--", b"-", b"--cipher=", b"--require=", b"h:~", b"s3://"] {
            let mut arguments: Vec<&OsStr> = before
                .split(|&byte| byte == 0)
                .filter(|word| !word.is_empty())
                .map(OsStr::from_bytes)
                .collect();
            let typed = [prefix, hostile].concat();
            arguments.push(OsStr::from_bytes(&typed));
            arguments.push(OsStr::new("s3://b"));
            let output = hakobu(&arguments);
            assert_eq!(output.status.code(), Some(2), "{arguments:?}");
            let text = String::from_utf8([output.stdout, output.stderr].concat()).expect("UTF-8");
            let unsafe_characters = |c: char| (c.is_control() && c != '\n') || c == '\u{202e}';
            assert!(!text.contains(unsafe_characters), "{arguments:?}: {text:?}");
        }
    }
}

#[test]
fn help_completions_and_manual_go_to_standard_output() {
    for (line, words) in [
        ("--help", "copy         Bring over"),
        ("--version", env!("CARGO_PKG_VERSION")),
        ("copy --help", "Examples:"),
        ("completions bash", "--data-address"),
        ("completions zsh", "--data-address"),
        ("completions fish", "data-address"),
        ("man", ".TH hakobu 1"),
        ("man copy", ".TH hakobu-copy 1"),
        ("disks --help", "--json"),
        ("man disks", ".TH hakobu-disks 1"),
    ] {
        let (code, out, err) = said(line);
        assert_eq!((code, err.as_str()), (0, ""), "{line}");
        assert!(out.contains(words), "{line}: {out}");
    }
    assert_eq!(hakobu::<&str>(&[]).status.code(), Some(2));
}

#[test]
fn help_as_a_verb_is_the_option() {
    for (verb, option) in [("help", "--help"), ("help copy", "copy --help")] {
        let (code, out, err) = said(verb);
        assert_eq!((code, err.as_str()), (0, ""), "{verb}");
        assert_eq!(out, said(option).1, "{verb}");
    }
}

/// Nothing that is refused is offered.
#[test]
fn completions_offer_what_works_now() {
    for shell in ["bash", "zsh", "fish"] {
        let script = said(&format!("completions {shell}")).1;
        for offered in ["verify", "wire", "data-address", "transport", "chacha20-poly1305"] {
            assert!(script.contains(offered), "{shell} lacks {offered}");
        }
        for hidden in ["memory", "--join", "hakobu,man", "(man)", "-a \"man\""] {
            assert!(!script.contains(hidden), "{shell} offers {hidden}");
        }
    }
}

#[test]
fn the_manual_shows_how_to_type_it_line_by_line() {
    let page = said("man copy").1;
    let lines: Vec<&str> = page.lines().collect();
    let after = |line: &str| {
        let at = lines.iter().position(|found| *found == line);
        lines.get(at.unwrap_or_else(|| panic!("no {line}: {page}")) + 1..).expect("more follows")
    };
    assert_eq!(after(".SH SYNOPSIS")[0], r"\fBhakobu copy\fR [OPTION]... SOURCE... TARGET");
    let examples = after(".SH EXAMPLES");
    assert_eq!(examples[0], ".nf");
    let end = examples.iter().position(|line| *line == ".fi").expect("the examples end");
    assert_eq!(end, 11, "{examples:#?}");
    assert!(examples[1..end].iter().all(|line| line.contains("hakobu copy ")), "{examples:#?}");
    assert!(after(r#".SH "EXIT STATUS""#)[0].starts_with("0 done"), "{page}");
    assert!(!page.contains("--memory"), "{page}");
}

#[test]
fn a_closed_pipe_is_no_panic() {
    for line in ["copy --help", "completions bash", "copy --json /nonexistent/a /nonexistent/b"] {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let output = Command::new(env!("CARGO_BIN_EXE_hakobu"))
            .args(line.split(' '))
            .stdout(writer)
            .stderr(Stdio::piped())
            .output()
            .expect("the program starts");
        let err = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code().is_some_and(|code| code < 10), "{line}: {:?} {err}", output.status);
        assert!(!err.contains("panicked"), "{err}");
    }
}
