use super::super::spinner::Spinner;
use super::*;

/// A shell on this machine instead of the host: `sh -c` runs the `sh` that is added.
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
fn every_thread_over_there_waits() {
    let mut shell = shell();
    let spinner = Spinner::start();
    spinner.wait_until_all_threads_count(|| {
        let processes = shell.moment().unwrap().processes;
        let found = processes.into_iter().find(|seen| seen.pid == spinner.pid()).unwrap();
        (found.threads, found.waited_ns.unwrap())
    });
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
        matches!(shell.ask("exit 0").unwrap_err(), BenchError::Lost(words) if words.contains("to h was lost"))
    );
}

/// Runs a process that keeps a file open in the scratch directory.
fn scratch_with_a_writer(
    shell: &mut FarShell,
    below: &std::path::Path,
) -> (std::path::PathBuf, std::process::Child) {
    let (path, _) = shell.scratch(below.to_str().unwrap()).unwrap().unwrap();
    let real = std::fs::canonicalize(&path).unwrap();
    let file = std::fs::File::create(real.join("target/file")).unwrap();
    let writer = Command::new("sleep").arg("600").stdout(file).spawn().unwrap();
    (real, writer)
}

fn wait_until_gone(path: &std::path::Path) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while path.exists() {
        assert!(Instant::now() < deadline, "{}", path.display());
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn what_a_killed_shell_made_goes_too() {
    for below in ["it's a $place", "plain"] {
        let place = tempfile::Builder::new().prefix(below).tempdir().unwrap();
        let mut shell = shell();
        let (real, mut writer) = scratch_with_a_writer(&mut shell, place.path());
        let pid = shell.ask("echo $$").unwrap()[0].parse().unwrap();
        let pid = rustix::process::Pid::from_raw(pid).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
        let _ = shell.child.wait();
        assert!(!writer.wait().unwrap().success());
        wait_until_gone(&real);
        assert!(place.path().exists());
    }
}

#[test]
fn what_a_shell_made_that_hears_nothing_goes_while_it_waits() {
    let place = tempfile::tempdir().unwrap();
    let mut command = Command::new("env");
    command.arg("X=1");
    let signs = LivenessSigns { every: Duration::from_secs(600), silence_s: 1 };
    let mut shell = FarShell::open_with(command, "h", signs, &|| false).unwrap();
    let (real, mut writer) = scratch_with_a_writer(&mut shell, place.path());
    assert!(!writer.wait().unwrap().success());
    wait_until_gone(&real);
    assert_eq!(shell.ask("echo here").unwrap(), ["here"]);
}

#[test]
fn a_shell_hears_from_this_end_and_tells_its_watchers() {
    let place = tempfile::tempdir().unwrap();
    let mut command = Command::new("env");
    command.arg("X=1");
    let signs = LivenessSigns { every: Duration::from_millis(10), silence_s: 600 };
    let mut shell = FarShell::open_with(command, "h", signs, &|| false).unwrap();
    let heard = place.path().join("heard");
    // Replaces the watcher with a process that counts signs of life.
    let script = format!(
        "watchers=$( (trap \"echo x >>{}\" USR1; exec </dev/null >/dev/null 2>&1; kept=$$\n\
         while kill -0 $kept; do sleep 0.01; done) & echo $! )",
        heard.display()
    );
    shell.ask(&script).unwrap();
    let deadline = Instant::now() + Duration::from_secs(60);
    while std::fs::read_to_string(&heard).unwrap_or_default().lines().count() < 3 {
        assert!(Instant::now() < deadline);
        std::thread::sleep(Duration::from_millis(20));
    }
}
