//! Tests the whole start without a network: "ssh" is a script that passes the command to a login shell on this host.

use std::fs;
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use tempfile::TempDir;

use super::*;
use crate::script;
use hakobu_core::prompts::NoPrompts;
use hakobu_core::shell::split;

/// An agent that prints the preamble and echoes its input.
const AGENT: &str = "#!/bin/sh\nprintf \"\\000hakobu:agent\\n\"\nexec cat\n";
const LOGIN_SHELLS: [&str; 3] = ["dash", "bash", "tcsh"];
/// The programs that may be `sh` on the remote host.
const SHELLS: [&str; 2] = ["/bin/dash", "/bin/bash"];

/// A simulated remote host in a directory: `bin` is on its PATH, `run` is its first candidate for uploads.
struct Far {
    root: TempDir,
    settings: SshSettings,
}

impl Far {
    fn new(login_shell: &str, shell: &str) -> Self {
        let root = tempfile::tempdir().unwrap();
        let at = root.path();
        for dir in ["bin", "run", "home"] {
            fs::create_dir(at.join(dir)).unwrap();
        }
        std::os::unix::fs::symlink(shell, at.join("bin/sh")).unwrap();
        let script = format!(
            "PATH={0}/bin:$PATH HOME={0}/home XDG_RUNTIME_DIR={0}/run TMPDIR={0}/run; \
             export PATH HOME XDG_RUNTIME_DIR TMPDIR; \
             for line; do :; done; exec {login_shell} -c \"$line\"\n",
            at.display()
        );
        fs::write(at.join("ssh"), script).unwrap();
        let mut settings = SshSettings::new(b"far".to_vec());
        settings.ssh_command = split(format!("sh {}/ssh", at.display())).unwrap();
        Self { root, settings }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    fn start(&self) -> Result<RunningAgent, SshError> {
        start(&self.settings, &mut NoPrompts)
    }

    fn run_dir_is_empty(&self) -> bool {
        fs::read_dir(self.path("run")).unwrap().next().is_none()
    }
}

/// Runs a test with every login shell and every `sh`.
fn for_each_shell(test: impl Fn(Far)) {
    for login_shell in LOGIN_SHELLS {
        for shell in SHELLS {
            eprintln!("login shell {login_shell}, sh {shell}");
            test(Far::new(login_shell, shell));
        }
    }
}

/// Writes a program from another process: a descriptor open for writing in this process could be inherited by a child
/// of another test's thread, and the program could not be run.
pub(crate) fn install(path: &Path, text: &str) {
    let mut writer = Command::new("sh")
        .args(["-c", "cat >\"$1\" && chmod 755 \"$1\"", "sh"])
        .arg(path)
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    writer.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    assert!(writer.wait().unwrap().success());
}

/// Sends a line to the agent, reads it back, and ends the agent.
fn echo(started: RunningAgent) {
    let RunningAgent { mut stdin, mut stdout, mut ssh, .. } = started;
    stdin.write_all(b"from near\n").unwrap();
    drop(stdin);
    let mut back = String::new();
    stdout.read_to_string(&mut back).unwrap();
    assert_eq!(back, "from near\n");
    assert!(ssh.end().unwrap().success());
}

#[test]
fn found_on_path() {
    for_each_shell(|far| {
        install(&far.path("bin/hakobu"), AGENT);
        let started = far.start().unwrap();
        assert_eq!(started.way, AgentOrigin::OnPath);
        echo(started);
    });
}

#[test]
fn found_at_a_path_with_an_awkward_name() {
    for_each_shell(|mut far| {
        for name in ["plain", "it's a !$(x)`\\\\x;\"", "tail\n", "ä*"] {
            let path = far.path(name);
            install(&path, AGENT);
            far.settings.agent_path = Some(path.to_str().unwrap().as_bytes().to_vec());
            let started = far.start().unwrap();
            assert_eq!(started.way, AgentOrigin::AtPath);
            echo(started);
        }
        install(&far.path("home/mine"), AGENT);
        far.settings.agent_path = Some(b"~/mine".to_vec());
        echo(far.start().unwrap());
    });
}

#[test]
fn uploaded_and_gone_at_once() {
    for_each_shell(|mut far| {
        // Larger than any pipe, so that sending takes more than one write.
        let program = format!("{AGENT}#{}", "x".repeat(1 << 20));
        install(&far.path("program"), &program);
        far.settings.uploads = vec![far.path("program")];
        let started = far.start().unwrap();
        assert_eq!(started.way, AgentOrigin::Uploaded);
        assert_eq!(started.uploaded, Some(far.path("program")));
        assert!(!started.agent_path_missing);
        assert!(far.run_dir_is_empty());
        echo(started);
    });
}

#[test]
fn uploaded_when_the_path_is_missing_or_when_told_to() {
    let mut far = Far::new("sh", "/bin/dash");
    install(&far.path("program"), AGENT);
    install(&far.path("bin/hakobu"), "#!/bin/sh\nexit 3\n");
    far.settings.uploads = vec![far.path("program")];
    far.settings.agent_path = Some(b"/nowhere/hakobu".to_vec());
    let started = far.start().unwrap();
    assert!(started.agent_path_missing && started.way == AgentOrigin::Uploaded);
    echo(started);

    far.settings.agent_path = None;
    far.settings.always_upload = true;
    let started = far.start().unwrap();
    assert!(!started.agent_path_missing && started.way == AgentOrigin::Uploaded);
    echo(started);
}

#[test]
fn a_path_that_cannot_be_run_is_an_error() {
    let mut far = Far::new("tcsh", "/bin/dash");
    fs::write(far.path("text"), "x").unwrap();
    for name in ["text", "home"] {
        let path = far.path(name);
        far.settings.agent_path = Some(path.to_str().unwrap().as_bytes().to_vec());
        let error = far.start().unwrap_err();
        assert!(matches!(error, SshError::NotExecutable { .. }), "{error}");
    }
}

#[test]
fn nothing_to_upload_says_what_to_do() {
    for_each_shell(|mut far| {
        let error = far.start().unwrap_err();
        assert!(matches!(error, SshError::NothingToUpload { .. }), "{error}");
        let text = error.to_string();
        assert!(text.contains("not on the PATH of far") && text.contains("--agent PATH"));

        // With `--agent`, the error names that path.
        far.settings.agent_path = Some(b"/nowhere/hakobu".to_vec());
        let text = far.start().unwrap_err().to_string();
        assert!(text.contains("\"/nowhere/hakobu\", which --agent names, is not on far"), "{text}");
        assert!(!text.contains("--agent PATH") && !text.contains("on the PATH"), "{text}");
        assert!(far.run_dir_is_empty());
    });
}

#[test]
fn another_architecture_is_named() {
    let mut far = Far::new("sh", "/bin/dash");
    let mut header = vec![0; 64];
    header[..6].copy_from_slice(b"\x7fELF\x02\x01");
    header[18] = 243;
    fs::write(far.path("riscv"), header).unwrap();
    far.settings.uploads = vec![far.path("riscv")];
    let error = far.start().unwrap_err();
    let SshError::Architecture { far, near, .. } = &error else {
        panic!("{error}");
    };
    assert_eq!((far.as_str(), near.as_str()), (std::env::consts::ARCH, "riscv64"));
}

#[test]
fn other_programs_are_told_from_agents() {
    let far = Far::new("sh", "/bin/dash");
    install(&far.path("bin/hakobu"), "#!/bin/sh\necho Usage: hakobu\n");
    let error = far.start().unwrap_err();
    let SshError::NotAnAgent { first_line, .. } = &error else {
        panic!("{error}");
    };
    assert_eq!(first_line, "Usage: hakobu");

    install(&far.path("bin/hakobu"), "#!/bin/sh\nexit 3\n");
    let error = far.start().unwrap_err();
    let SshError::Ended { ending, .. } = &error else {
        panic!("{error}");
    };
    assert_eq!(ending, "exit code 3");
    assert!(error.to_string().contains("hakobu --version`"), "{error}");
    let named = SshError::Ended {
        host: "h".to_owned(),
        ending: "exit code 0".to_owned(),
        agent: Some("/bin/true".to_owned()),
    };
    assert!(named.to_string().contains("see what `ssh h /bin/true --version` says"), "{named}");

    // A remote side that asks for a password without `--sudo` gets none.
    install(&far.path("bin/hakobu"), "#!/bin/sh\nprintf \"\\000hakobu:password\\n\"\nexec cat\n");
    let error = far.start().unwrap_err();
    assert!(matches!(error, SshError::NotAnAgent { .. }), "{error}");
}

#[test]
fn silence_ends() {
    let mut far = Far::new("sh", "/bin/dash");
    install(&far.path("bin/hakobu"), "#!/bin/sh\nexec cat\n");
    far.settings.time_limit = Duration::from_millis(50);
    let error = far.start().unwrap_err();
    assert!(matches!(error, SshError::TimedOut { .. }), "{error}");
}

#[test]
fn a_missing_ssh_is_named() {
    let mut settings = SshSettings::new(b"far".to_vec());
    settings.ssh_command = vec!["/nowhere/ssh".into(), "-v".into()];
    let error = start(&settings, &mut NoPrompts).unwrap_err();
    assert!(error.to_string().contains("/nowhere/ssh"), "{error}");
}

/// Runs the command by hand and stops sending the program halfway.
#[test]
fn killed_in_the_middle_of_an_upload_it_leaves_nothing() {
    for_each_shell(|far| {
        let mut shell = Command::new("sh")
            .arg(far.path("ssh"))
            .arg(script::command_line((false, true, false), None))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdin = shell.stdin.take().unwrap();
        let mut answers = PreambleReader::new(shell.stdout.take().unwrap());
        let limit = Duration::from_secs(60);
        assert!(matches!(answers.next(limit).unwrap(), AgentAnswer::Need(_)));
        let half = vec![b'x'; 1 << 20];
        stdin.write_all(format!("{} 0\n", 2 * half.len()).as_bytes()).unwrap();
        stdin.write_all(&half).unwrap();
        // More than a pipe's capacity was taken, so the upload is in progress.
        shell.kill().unwrap();
        shell.wait().unwrap();
        assert!(far.run_dir_is_empty());
        drop(stdin);
        assert!(!matches!(answers.next(limit).unwrap(), AgentAnswer::Agent));
        assert!(far.run_dir_is_empty());
    });
}

#[test]
fn a_wrong_digest_and_a_short_program_are_not_run() {
    for_each_shell(|far| {
        for (size_bytes, send_bytes) in [(AGENT.len(), AGENT.len()), (AGENT.len() + 5, AGENT.len())] {
            let mut shell = Command::new("sh")
                .arg(far.path("ssh"))
                .arg(script::command_line((false, true, false), None))
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .spawn()
                .unwrap();
            let mut stdin = shell.stdin.take().unwrap();
            let mut answers = PreambleReader::new(shell.stdout.take().unwrap());
            let limit = Duration::from_secs(60);
            assert!(matches!(answers.next(limit).unwrap(), AgentAnswer::Need(_)));
            stdin.write_all(format!("{size_bytes} 00ff\n").as_bytes()).unwrap();
            stdin.write_all(&AGENT.as_bytes()[..send_bytes]).unwrap();
            drop(stdin);
            let AgentAnswer::Fail { reason, .. } = answers.next(limit).unwrap() else {
                panic!("no failure");
            };
            let expected = if size_bytes == send_bytes { "digest" } else { "short" };
            assert_eq!(reason, expected);
            assert!(shell.wait().is_ok() && far.run_dir_is_empty());
        }
    });
}
