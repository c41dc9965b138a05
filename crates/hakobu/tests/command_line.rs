//! Command lines that people type, and the answers of the real program.

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

/// Runs a command line; returns exit code, standard output and standard error.
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
        ("sync a", "not provided:\n  <TARGET>\n\nUsage: hakobu sync <SOURCE> <TARGET>"),
        ("verify a", "not provided:\n  <TARGET>\n\nUsage: hakobu verify <SOURCE> <TARGET>"),
        ("copy -P 22 d h:/b", "try: hakobu copy --ssh 'ssh -p 22' d h:/b"),
        ("copy -az --delete d h:/b", "copy never deletes"),
        ("copy --frob a b", "'--frob'"),
        ("copy --compress gzip a b", "--compress: it is auto, none, zstd, or zstd:LEVEL"),
        ("copy --compress=zstd:20 a b", "with a level from -7 to 19"),
        ("copy --bwlimit 5000 a b", "write 20M for 20 MB/s, or 5000KiB"),
        ("verify -n a b", "verify writes nothing"),
        ("copy --memory 1G a b", "--memory: not in this version"),
        ("copy --cipher rot13 a b", "aes-256-gcm"),
        ("copy --data-port 0 a b", "--data-port"),
        ("copy --lanes 0 a b", "--lanes: must be auto or a number from 1 to"),
        ("copy --quiet --verbose a b", "cannot be used with"),
        ("copy a s3://", "s3://: the bucket is missing: s3://BUCKET/PATH"),
        ("ls s3://", "the bucket is missing"),
        ("copy a s3:bucket/key", "for a store write s3://NAME/PATH, for a host of that name ssh://s3/PATH"),
        ("copy a s3://bucket:9000/key", "--endpoint http://HOST:PORT"),
        ("copy a s3://bucket//key", "no path has an empty name"),
        ("copy --region r a gs://bucket/key", "gs:// takes no --region"),
        (
            "copy --acl private a https://account.blob.core.windows.net/cont",
            "Azure has no --acl; leave it out",
        ),
        ("copy --endpoint localhost:9000 a s3://bucket", "--endpoint: must be the URL of a server"),
        (
            "copy --endpoint http://me:secret@h a s3://bucket",
            "--endpoint: credentials are not taken in a URL",
        ),
        ("copy --sse kms a s3://bucket", "--sse: must be AES256, aws:kms"),
        ("copy --acl open a s3://bucket", "bucket-owner-full-control"),
        ("copy --content-type text a s3://bucket", "--content-type: must be a content type"),
        ("copy --addressing host a s3://bucket", "[possible values: auto, path, virtual]"),
        ("ls --profile= s3://bucket", "--profile: must be the name of a profile"),
        ("copy -- -oProxyCommand=x:y b", "a host cannot begin with -"),
        ("sync a b c", "hakobu sync takes one SOURCE and one TARGET; c is too many"),
        ("verify a b -", "only hakobu copy takes several sources"),
        ("sync - b", "standard input works with copy only"),
        ("digest -", "For a file named - write ./-"),
        ("data host:/backup", "did you mean: hakobu copy data host:/backup"),
        ("-avz data host:/backup", "did you mean: hakobu copy -v data host:/backup"),
        ("-n data host:/backup", "did you mean: hakobu copy -n data host:/backup"),
        ("--report r a b", "options come after the command"),
        ("cp -r a b", "did you mean: hakobu copy a b"),
        ("scp -P 22 a h:b", "did you mean: hakobu copy --ssh 'ssh -p 22' a h:b"),
        ("rsync -av --delete a h:b", "copy never deletes"),
        ("mv a b", "hakobu never deletes the source"),
        ("mv a b", "did you mean: hakobu copy a b"),
        ("rm host:/backup", "there is no command rm"),
        ("sycn a b", "did you mean: hakobu sync a b"),
        ("verfy a b", "did you mean: hakobu verify a b"),
        ("diff m mm", "did you mean: hakobu verify m mm"),
        ("check a b", "did you mean: hakobu verify a b"),
        ("mirror a/ b", "did you mean: hakobu sync a/ b"),
        ("hash file", "did you mean: hakobu digest file"),
        ("plan a b", "did you mean: hakobu copy -n a b"),
        ("list host:/x", "hakobu ls"),
        ("version", "did you mean: hakobu --version"),
        ("-v copy m/ mm", "did you mean: hakobu copy -v m/ mm"),
        ("--json disks", "did you mean: hakobu disks --json"),
        ("copy -rP 22411 m peer:/x", "try: hakobu copy --ssh 'ssh -p 22411' m peer:/x"),
        ("copy -T 4 m/ mm", "try: hakobu copy --lanes=4 m/ mm"),
        ("jobs lsit", "it has list, show"),
        ("cp", "did you mean: hakobu copy"),
        ("help frob", "there is no command frob"),
        ("disks /dev/sda", "reading the host /dev/sda: not a host name"),
        ("disks host:/dev", "not a host name"),
        ("disks -- -oProxyCommand=x", "a host cannot begin with -"),
        ("disks --sudo", "--sudo: applies to another host"),
        ("disks --agent=-x host", "--agent: must be the path of hakobu"),
        ("disks a b", "hakobu disks"),
        ("frob", "there is no command frob"),
        ("copy --transport rsync a sftp://h/x", "write rsync://host/module/path"),
        ("copy --transport rsync a h:x", "write rsync://host/module/path"),
        ("copy --transport sftp a rsync://h/m", "leave --transport out"),
        ("jobs frob x", "hint: see hakobu jobs --help"),
        ("man frob", "no manual page"),
    ] {
        let (code, out, err) = said(line);
        assert_eq!((code, out.as_str()), (2, ""), "{line}: {err}");
        assert!(err.contains(words) && err.starts_with("error: "), "{line}: {err}");
        assert!(!err.contains("agent'"), "a hidden verb is no advice: {err}");
    }
}

#[test]
fn what_people_type_for_rsync_and_scp_runs_with_a_note() {
    let place = tempfile::tempdir().expect("a directory");
    std::fs::write(place.path().join("file"), "content").expect("a file");
    let [file, copy] = ["file", "copy"].map(|name| place.path().join(name).display().to_string());
    for (line, notes) in [
        (format!("copy -avz --partial --progress {file} {copy}"), 1),
        (format!("copy --compress zstd {file} {copy}"), 1),
        (format!("copy -a -q {file} {copy}"), 0),
        (format!("verify -r --bwlimit 5M --compress zstd {file} {copy}"), 3),
        (format!("copy -v -v {file} {copy}"), 0),
        (format!("copy --profile p --region r --acl private {file} {copy}"), 3),
        (format!("copy --source-profile p --sse AES256 {file} {copy}"), 2),
        (format!("verify --storage-class GLACIER --content-type a/b {file} {copy}"), 2),
        (format!("digest --request-payer --no-sign-request {file}"), 2),
        (format!("ls --endpoint http://localhost --addressing path {file}"), 2),
    ] {
        let (code, _, err) = said(&line);
        assert_eq!(code, 0, "{line}: {err}");
        assert_eq!(err.lines().filter(|line| line.starts_with("note: ")).count(), notes, "{line}: {err}");
    }
    assert_eq!(std::fs::read(&copy).expect("the copy"), b"content");
}

#[test]
fn a_colon_that_may_be_missing_or_not_meant_is_warned_of() {
    let place = tempfile::tempdir().expect("a directory");
    let here = place.path();
    std::fs::create_dir(here.join(".ssh")).expect("a directory");
    std::fs::write(here.join(".ssh/config"), "Host peer\n").expect("settings");
    for name in ["file", "a:b"] {
        std::fs::write(here.join(name), "x").expect("a file");
    }
    let run = |places: [&str; 2], code| {
        let mut program = Command::new(env!("CARGO_BIN_EXE_hakobu"));
        let program = program.arg("copy").args(places).args(["--ssh", "false", "--retry-for", "0s"]);
        let program = program.current_dir(here).env("HOME", here).env("HAKOBU_SETTINGS", "none");
        let output = program.stdin(Stdio::null()).output().expect("the program starts");
        let err = String::from_utf8(output.stderr).expect("UTF-8");
        assert_eq!(output.status.code(), Some(code), "{places:?}: {err}");
        err
    };
    for target in ["peer", "me@other"] {
        let expected = format!("warning: {target} is a local path; for the host write {target}:\n");
        assert!(run(["file", target], 0).contains(&expected), "{target}");
        // The file exists now, so there is no warning.
        assert!(!run(["file", target], 0).contains("warning: "), "{target}");
    }
    assert!(!run(["file", "other"], 0).contains("warning: "));
    let err = run(["a:b", "copied"], 1);
    assert!(err.contains("warning: a:b is a path on the host a; for the local file write ./a:b\n"), "{err}");
    assert!(!run(["./a:b", "copied"], 0).contains("warning: "));
}

/// Only a special build for tests has faults on purpose.
#[test]
#[cfg(not(feature = "planted-faults"))]
fn the_program_has_no_fault_on_purpose() {
    let program = std::fs::read(env!("CARGO_BIN_EXE_hakobu")).expect("the program can be read");
    let variable = b"HAKOBU_PLANT";
    assert!(!program.windows(variable.len()).any(|part| part == variable), "it is built with planted-faults");
}

#[test]
fn every_verb_of_later_versions_is_known_by_name() {
    for verb in ["scan", "daemon", "receive", "modules", "keys"] {
        let (code, _, err) = said(&format!("{verb} a b"));
        assert_eq!(code, 2);
        assert!(err.starts_with(&format!("error: {verb} is not in this version; ")), "{err}");
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
        ("--help", "copy         Copy what is missing"),
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

/// Output to a pipe has no colors unless the option or the variable asks for them.
#[test]
fn errors_and_help_are_colored_on_request() {
    let colored = |line: &str, variable: &str| {
        let mut program = Command::new(env!("CARGO_BIN_EXE_hakobu"));
        let program = program.args(line.split(' ')).env("HAKOBU_SETTINGS", "none").stdin(Stdio::null());
        for name in ["NO_COLOR", "CLICOLOR_FORCE"] {
            program.env_remove(name);
        }
        let output = program.env(variable, "1").output().expect("the program starts");
        String::from_utf8([output.stdout, output.stderr].concat()).expect("UTF-8")
    };
    for line in ["copy --frob a b", "copy -h", "copy --help", "copy /nonexistent/a /nonexistent/b/c", "frob"]
    {
        assert!(!colored(line, "IRRELEVANT").contains('\u{1b}'), "{line}");
        let always = format!("{line} --color always");
        assert!(colored(&always, "NO_COLOR").contains('\u{1b}'), "{line}");
        assert!(colored(line, "CLICOLOR_FORCE").contains('\u{1b}'), "{line}");
        assert!(!colored(&format!("{line} --color=never"), "CLICOLOR_FORCE").contains('\u{1b}'), "{line}");
    }
    let err = colored("copy /nonexistent/a /nonexistent/b/c --color always", "IRRELEVANT");
    assert!(err.contains("\u{1b}[1m\u{1b}[31merror:\u{1b}[0m "), "{err:?}");
}

#[test]
fn the_version_is_short_or_tells_commit_protocol_and_features() {
    let short = concat!("hakobu ", env!("CARGO_PKG_VERSION"), "\n");
    assert_eq!(said("-V"), (0, short.to_owned(), String::new()));
    let (code, long, _) = said("--version");
    assert_eq!(code, 0);
    assert!(long.starts_with(short), "{long}");
    for line in ["commit: ", "protocol: ", "target: ", "features: agent ssh "] {
        assert!(long.lines().any(|found| found.starts_with(line)), "{line}: {long}");
    }
}

#[test]
fn help_as_a_verb_is_the_option() {
    for (verb, option) in [("help", "--help"), ("help copy", "copy --help")] {
        let (code, out, err) = said(verb);
        assert_eq!((code, err.as_str()), (0, ""), "{verb}");
        assert_eq!(out, said(option).1, "{verb}");
    }
}

/// Completions contain nothing that the program refuses.
#[test]
fn completions_offer_what_works_now() {
    for shell in ["bash", "zsh", "fish"] {
        let script = said(&format!("completions {shell}")).1;
        for offered in ["verify", "wire", "data-address", "transport", "chacha20-poly1305"] {
            assert!(script.contains(offered), "{shell} lacks {offered}");
        }
        for hidden in ["memory", "--join", "hakobu,agent", "(agent)", "-a \"agent\""] {
            assert!(!script.contains(hidden), "{shell} offers {hidden}");
        }
    }
}

/// bash runs the script as it does when the user presses Tab.
#[test]
fn bash_completes_hosts_files_and_jobs() {
    let place = tempfile::tempdir().expect("a directory");
    let home = place.path();
    std::fs::create_dir(home.join(".ssh")).expect("a directory");
    std::fs::write(home.join(".ssh/config"), "Host nas-one peer\n").expect("settings");
    std::fs::write(home.join("nas file"), "x").expect("a file");
    let run = |program: &mut Command| {
        let program = program.env("HOME", home).env("HAKOBU_STATE", home.join("state")).current_dir(home);
        let output = program.env("HAKOBU_SETTINGS", "none").stdin(Stdio::null()).output().expect("it starts");
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).expect("UTF-8")
    };
    let hakobu = env!("CARGO_BIN_EXE_hakobu");
    let job = run(Command::new(hakobu).args(["copy", "nas file", "copied", "--detach"]));
    let completed = |words: &[&str]| {
        let script = format!(
            "compopt() {{ :; }}; source <({hakobu} completions bash); COMP_WORDS=({hakobu} \"$@\"); COMP_CWORD=$#; \
             _hakobu_all {hakobu} \"${{COMP_WORDS[COMP_CWORD]}}\" \"${{COMP_WORDS[COMP_CWORD-1]}}\"; \
             printf '%s\\n' \"${{COMPREPLY[@]}}\""
        );
        run(Command::new("bash").args(["-c", &script, "bash"]).args(words))
    };
    for (words, expected) in [
        (&["copy", "nas"][..], "nas-one:\nnas\\ file \n"),
        (&["copy", "copied", "me", "@", "p"], "peer:\n"),
        (&["copy", "copied", "peer", ":", ""], "\n"),
        (&["doctor", "p"], "peer\n"),
        (&["jobs", "attach", ""], &job),
        (&["jobs", "atta"], "attach\n"),
        (&["copy", "--bwl"], "--bwlimit\n"),
    ] {
        assert_eq!(completed(words), expected, "{words:?}");
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
    assert_eq!(end, 12, "{examples:#?}");
    assert!(examples[1..end].iter().all(|line| line.contains("hakobu copy ")), "{examples:#?}");
    assert!(after(r#".SH "EXIT STATUS""#)[0].starts_with("0 complete"), "{page}");
    assert!(!page.contains("--memory"), "{page}");
    for (section, words) in [
        ("FILES", r"~/.config/hakobu/config.toml"),
        ("ENVIRONMENT", "HAKOBU_SSH"),
        ("ENVIRONMENT", "AWS_PROFILE"),
    ] {
        assert!(
            after(&format!(".SH {section}")).iter().any(|line| line.contains(words)),
            "{section}: {page}"
        );
    }
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

#[test]
fn the_first_place_is_the_source() {
    for verb in ["copy", "sync", "verify"] {
        let (code, _, err) = said(&format!("{verb} no-source.a no-target.b"));
        assert_eq!(code, 1, "{verb}: {err}");
        assert!(err.contains("the source no-source.a"), "{verb}: {err}");
    }
}
