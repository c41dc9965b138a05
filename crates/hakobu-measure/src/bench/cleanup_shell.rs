//! Cleans up on this machine when this process no longer can: after a second Ctrl-C, or SIGKILL.
//!
//! A shell is told which directories were created and which process groups run. When its input ends, for any reason,
//! it ends the groups that still run and removes the directories that still exist. After an orderly end nothing is
//! left to do.

use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Mutex;

/// The script. It starts no process before the end, so that it does not appear in the account of a run.
const SCRIPT: &str = r#"
trap "" HUP INT QUIT TERM PIPE
groups=" "; set --
while read -r what value; do
  case $what in
    run) groups="$groups$value ";;
    end) case $groups in *" $value "*) groups="${groups%%" $value "*} ${groups#*" $value "}";; esac;;
    place) path=$(printf %b_ "$value"); set -- "$@" "${path%_}";;
  esac
done
for group in $groups; do kill -TERM "-$group"; done
if [ "$groups" != " " ]; then sleep 1; fi
for group in $groups; do kill -KILL "-$group"; done
if [ $# -gt 0 ]; then rm -rf -- "$@"; fi
"#;

/// The shell that cleans up.
#[derive(Debug)]
pub(super) struct CleanupShell {
    child: Child,
    input: Mutex<Option<ChildStdin>>,
}

/// A process group that ends with this process. Drop it once the group has ended by itself.
#[derive(Debug)]
pub(super) struct KeptProcessGroup<'a> {
    keeper: &'a CleanupShell,
    group: u32,
}

impl CleanupShell {
    pub fn start() -> io::Result<Self> {
        let mut command = Command::new("sh");
        command.args(["-c", SCRIPT]).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        // A Ctrl-C must not reach it.
        let mut child = command.process_group(0).spawn()?;
        let input = Mutex::new(child.stdin.take());
        Ok(Self { child, input })
    }

    /// Registers a directory for removal.
    pub fn place(&self, path: &Path) {
        self.tell(&format!("place {}", escaped(path.as_os_str().as_bytes())));
    }

    /// Registers a process group, by its leader, that must not outlive this process.
    pub fn group(&self, leader: u32) -> KeptProcessGroup<'_> {
        self.tell(&format!("run {leader}"));
        KeptProcessGroup { keeper: self, group: leader }
    }

    fn tell(&self, words: &str) {
        if let Ok(mut input) = self.input.lock()
            && let Some(input) = input.as_mut()
        {
            // If the shell was ended, this process still cleans up by itself.
            let _ = input.write_all(format!("{words}\n").as_bytes());
        }
    }
}

impl Drop for CleanupShell {
    fn drop(&mut self) {
        if let Ok(mut input) = self.input.lock() {
            drop(input.take());
        }
        let _ = self.child.wait();
    }
}

impl Drop for KeptProcessGroup<'_> {
    fn drop(&mut self) {
        self.keeper.tell(&format!("end {}", self.group));
    }
}

/// Escapes a path for `printf %b`. A path may contain line feeds and spaces.
fn escaped(path: &[u8]) -> String {
    let one = |byte: &u8| match byte {
        b'/' | b'.' | b'_' | b'-' => char::from(*byte).to_string(),
        byte if byte.is_ascii_alphanumeric() => char::from(*byte).to_string(),
        byte => format!("\\0{byte:03o}"),
    };
    path.iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::time::{Duration, Instant};

    use super::*;

    fn sleeper() -> Child {
        Command::new("sh").args(["-c", "sleep 600 & wait"]).process_group(0).spawn().unwrap()
    }

    #[test]
    fn at_its_end_nothing_is_left_but_what_was_let_go() {
        let place = tempfile::tempdir().unwrap();
        let names = ["plain", "it's a $(odd)\\n one ", "two\nlines\n", "-rf"];
        let paths: Vec<_> = names.iter().map(|name| place.path().join(name)).collect();
        let stays = place.path().join("stays");
        for path in paths.iter().chain([&stays]) {
            fs::create_dir(path).unwrap();
            fs::write(path.join("file"), "x").unwrap();
        }
        let keeper = CleanupShell::start().unwrap();
        paths.iter().for_each(|path| keeper.place(path));
        let (mut ended, mut others) = (sleeper(), [sleeper(), sleeper()]);
        drop(keeper.group(ended.id()));
        for other in &others {
            std::mem::forget(keeper.group(other.id()));
        }
        drop(keeper);
        assert!(ended.try_wait().unwrap().is_none());
        for other in &mut others {
            assert!(!other.wait().unwrap().success());
        }
        assert!(stays.join("file").exists() && paths.iter().all(|path| !path.exists()));
        let group = rustix::process::Pid::from_child(&ended);
        rustix::process::kill_process_group(group, rustix::process::Signal::KILL).unwrap();
        ended.wait().unwrap();
    }

    #[test]
    fn what_is_for_others_does_not_end_it() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("scratch");
        fs::create_dir(&path).unwrap();
        let keeper = CleanupShell::start().unwrap();
        keeper.place(&path);
        let pid = rustix::process::Pid::from_child(&keeper.child);
        // Once it ignores the signals, the shell has started and reads its input.
        let deadline = Instant::now() + Duration::from_secs(20);
        let ignores = || {
            let status = fs::read_to_string(format!("/proc/{}/status", keeper.child.id())).unwrap();
            let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap().trim();
            u64::from_str_radix(mask, 16).unwrap() & (1 << 14) != 0
        };
        while !ignores() {
            assert!(Instant::now() < deadline);
            std::thread::sleep(Duration::from_millis(10));
        }
        for signal in [rustix::process::Signal::INT, rustix::process::Signal::TERM] {
            rustix::process::kill_process(pid, signal).unwrap();
        }
        assert!(path.exists());
        drop(keeper);
        assert!(!path.exists());
    }
}
