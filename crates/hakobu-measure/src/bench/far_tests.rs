use super::*;

/// A shell here, in the place of one over there: `sh -c` runs the `sh` that is added.
fn shell() -> FarShell {
    let mut command = Command::new("env");
    command.arg("X=1");
    FarShell::open(command, "h", &|| false).unwrap()
}

#[test]
fn answers_are_lines_and_banners_are_none_of_them() {
    let mut all = Vec::new();
    let output =
        b"Welcome\r\n\n\0hakobu-bench:\na\n\nb\n\n\0hakobu-bench:\n\n\0hakobu-bench:\ncut".as_slice();
    read_answers(output, |answer| {
        all.push(answer);
        true
    });
    assert_eq!(all, [vec!["Welcome".to_owned()], vec!["a".into(), String::new(), "b".into()], vec![]]);
}

#[test]
fn an_endless_answer_ends() {
    let mut taken = 0;
    read_answers(std::io::repeat(b'x').take(1 << 20), |_| {
        taken += 1;
        true
    });
    let lines = "x\n".repeat(LINES_MAX + 2) + "\0hakobu-bench:\n";
    read_answers(lines.as_bytes(), |_| {
        taken += 1;
        true
    });
    let long = "x".repeat(LINE_BYTES_MAX as usize - 1) + "\n";
    let lines = long.repeat(ANSWER_BYTES_MAX / long.len() + 1) + "\0hakobu-bench:\n";
    read_answers(lines.as_bytes(), |_| {
        taken += 1;
        true
    });
    assert_eq!(taken, 0);
}

#[test]
fn a_shell_answers_looks_and_clears_away() {
    let place = tempfile::Builder::new().prefix("it's a $place").tempdir().unwrap();
    let mut shell = shell();
    assert_eq!(shell.ask("echo a; echo; printf b").unwrap(), ["a", "", "b"]);
    let moment = shell.moment().unwrap();
    assert!(moment.processes.iter().any(|seen| seen.name == "sh"), "{moment:?}");
    assert!(moment.retransmitted.is_some());
    let (path, free) = shell.scratch(place.path().to_str().unwrap()).unwrap().unwrap();
    assert!(crate::bench::shell::is_plain(&path) && free > 0);
    let real = std::fs::canonicalize(&path).unwrap();
    assert!(real.starts_with(place.path()) && real.join("target").is_dir());
    let plain = shell.scratch("/dev/shm").unwrap().unwrap().0;
    assert!(std::path::Path::new(&plain).join("source").is_dir());
    assert!(shell.scratch("/proc").unwrap().is_err());
    assert_eq!(shell.scratch("/no/such").unwrap().unwrap_err().matches("/no/such").count(), 1);
    drop(shell);
    assert!(
        !real.exists() && !std::path::Path::new(&path).exists() && !std::path::Path::new(&plain).exists()
    );
}

#[test]
fn a_program_over_there_is_found_by_a_plain_path() {
    use std::os::unix::fs::{PermissionsExt, symlink};
    let place = tempfile::Builder::new().prefix("it's a $place").tempdir().unwrap();
    let mut shell = shell();
    let (scratch, _) = shell.scratch("/dev/shm").unwrap().unwrap();
    let link = format!("{scratch}/hakobu");
    let odd = place.path().join("my hakobu");
    symlink("/bin/echo", &odd).unwrap();
    let odd = odd.to_str().unwrap();
    assert_eq!(shell.program(odd, &link).unwrap().as_deref(), Some(link.as_str()));
    assert_eq!(Command::new(&link).arg("it").output().unwrap().stdout, b"it\n");
    assert_eq!(shell.program("/bin/echo", &link).unwrap().as_deref(), Some("/bin/echo"));
    let data = place.path().join("data");
    std::fs::write(&data, "").unwrap();
    std::fs::set_permissions(&data, std::fs::Permissions::from_mode(0o644)).unwrap();
    for none in [data.to_str().unwrap(), "/no/such", "~/no such", scratch.as_str()] {
        assert_eq!(shell.program(none, &link).unwrap(), None, "{none}");
    }
}

#[test]
fn what_is_no_shell_is_an_error_in_its_own_words() {
    let open = |script: &str| {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        FarShell::open(command, "h", &|| false).unwrap_err().to_string()
    };
    assert_eq!(open("echo ssh: no route >&2; exit 255"), "ssh: no route");
    assert!(open("exit 1").contains("a shell is needed over there"));
    let mut shell = shell();
    assert!(
        matches!(shell.ask("exit 0").unwrap_err(), Error::Lost(words) if words.contains("to h was lost"))
    );
}
