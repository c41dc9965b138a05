//! Creates users on this machine for one test.

use std::fs;
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use super::process::{LOOK_EVERY, explained, run};

/// The time limit for waiting for the lock of the user database.
const USERS_LIMIT: Duration = Duration::from_secs(30);
/// The prefix of test users' names, which is followed by the process ID of the test.
const USER_PREFIX: &str = "hkb";

/// A login shell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shell {
    /// `/bin/sh`
    Sh,
    /// `/bin/bash`
    Bash,
    /// `/bin/tcsh`, which is csh here
    Csh,
}

/// The sudo rights of a user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Sudo {
    /// None.
    Refused,
    /// With this password.
    Password(String),
    /// Without a password.
    Free,
}

/// A user on this machine for one test. Requires root. Dropping it ends the user's processes and removes the user,
/// the home directory and the sudo rule.
#[derive(Debug)]
pub struct User {
    name: String,
    home: TempDir,
    sudo_rule: Option<PathBuf>,
}

impl User {
    /// Creates a user with an empty home directory.
    ///
    /// # Errors
    /// If root or one of `useradd`, `chpasswd`, `chown` is missing.
    pub fn create(shell: Shell, sudo: &Sudo) -> io::Result<Self> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        if !rustix::process::geteuid().is_root() {
            let text = "making a user needs root (HAKOBU_NO_ROOT=1 leaves such tests out)";
            return Err(io::Error::new(ErrorKind::PermissionDenied, text));
        }
        remove_stale_users();
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("{USER_PREFIX}{}x{number}", std::process::id());
        let home = TempDir::with_prefix("hakobu-home.")?;
        let shell = match shell {
            Shell::Sh => "/bin/sh",
            Shell::Bash => "/bin/bash",
            Shell::Csh => "/bin/tcsh",
        };
        // A password of `*` matches nothing, but unlike useradd's own `!` it does not lock the user out of sshd.
        with_user_lock(|| {
            let mut command = Command::new("useradd");
            command.args(["-M", "-N", "-p", "*", "-s", shell, "-d"]);
            command.arg(home.path()).arg(&name);
            command
        })?;
        let mut user = Self { name, home, sudo_rule: None };
        run(Command::new("chown").arg(&user.name).arg(user.home.path()))?;
        user.allow_sudo(sudo)?;
        Ok(user)
    }

    /// Returns the login name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the path of the home directory.
    #[must_use]
    pub fn home(&self) -> &Path {
        self.home.path()
    }

    fn allow_sudo(&mut self, sudo: &Sudo) -> io::Result<()> {
        let tag = match sudo {
            Sudo::Refused => return Ok(()),
            Sudo::Free => "NOPASSWD: ",
            Sudo::Password(password) => {
                self.set_password(password)?;
                ""
            }
        };
        let rule = Path::new("/etc/sudoers.d").join(&self.name);
        let mut file = fs::File::create(&rule)?;
        self.sudo_rule = Some(rule);
        file.set_permissions(fs::Permissions::from_mode(0o440))?;
        // The default of newer sudo: a pseudo-terminal, if there is a terminal.
        writeln!(file, "Defaults:{} use_pty", self.name)?;
        writeln!(file, "{} ALL=(ALL) {tag}ALL", self.name)
    }

    fn set_password(&self, password: &str) -> io::Result<()> {
        let deadline = Instant::now() + USERS_LIMIT;
        loop {
            let mut child = Command::new("chpasswd")
                .stdin(Stdio::piped())
                .stderr(Stdio::null())
                .spawn()
                .map_err(|error| explained("chpasswd", &error))?;
            if let Some(mut stdin) = child.stdin.take() {
                writeln!(stdin, "{}:{password}", self.name)?;
            }
            if child.wait()?.success() {
                return Ok(());
            }
            if Instant::now() >= deadline {
                return Err(io::Error::other("chpasswd failed"));
            }
            thread::sleep(LOOK_EVERY);
        }
    }
}

impl Drop for User {
    fn drop(&mut self) {
        if let Some(rule) = &self.sudo_rule {
            let _ = fs::remove_file(rule);
        }
        remove_user(&self.name);
    }
}

/// Removes users whose test was killed before it could remove them.
fn remove_stale_users() {
    let users = fs::read_to_string("/etc/passwd").unwrap_or_default();
    let names = users.lines().filter_map(|line| line.split(':').next());
    for name in names {
        let owner = name.strip_prefix(USER_PREFIX).and_then(|rest| rest.split_once('x'));
        let Some((owner, _)) = owner else { continue };
        if owner.parse::<u32>().is_ok() && !Path::new("/proc").join(owner).exists() {
            let _ = fs::remove_file(Path::new("/etc/sudoers.d").join(name));
            remove_user(name);
        }
    }
}

fn remove_user(name: &str) {
    // -f: even while a session of the user is just ending.
    let _ = with_user_lock(|| {
        let mut command = Command::new("userdel");
        command.args(["-f", name]);
        command
    });
}

/// Repeats a command as long as another process holds the lock of the user database.
fn with_user_lock(command: impl Fn() -> Command) -> io::Result<()> {
    let deadline = Instant::now() + USERS_LIMIT;
    loop {
        match run(&mut command()) {
            Err(error) if Instant::now() < deadline && error.to_string().contains("lock") => {
                thread::sleep(LOOK_EVERY);
            }
            other => return other,
        }
    }
}
