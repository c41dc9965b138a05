//! One login for several sessions: the socket through which further ssh processes reach the one that has logged in.

use hakobu_sys::processor::has_aes;
use std::collections::hash_map::RandomState;
use std::fs::{DirBuilder, File};
use std::hash::BuildHasher;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::event::PollFlags;
use rustix::fs::{CWD, Mode, OFlags, openat};

use super::answer::wait_for;
use super::child::SshChild;
use super::command::{self, Program, words};
use super::error::SshError;
use super::settings::SshSettings;
use super::stale_sockets;

/// Keep-alive options, because a broken connection is otherwise not noticed. The server answers them however busy it is
/// with data.
const ALIVE: [&str; 2] = ["ServerAliveInterval=10", "ServerAliveCountMax=3"];
/// The names of AES-GCM in OpenSSH.
const FAST_CIPHERS: [&str; 2] = ["aes128-gcm@openssh.com", "aes256-gcm@openssh.com"];
/// The time limit for ssh to print its configuration.
const QUESTION_LIMIT: Duration = Duration::from_secs(10);
/// More bytes than any printed configuration has.
const CONFIGURATION_BYTES_MAX: usize = 1 << 20;
/// The most time between ssh giving its socket a second name and removing the first.
const RENAMING: Duration = Duration::from_millis(500);
/// The longest path of the socket, in bytes. The system allows 107, and ssh first creates it under a longer name, with
/// a dot and 16 letters.
const SOCKET_PATH_BYTES_MAX: usize = 107 - 17;
/// The number of attempts to create a directory if it is removed at once.
const TRIES: u32 = 3;

/// The mode of sharing one login among several sessions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sharing {
    /// The user's own configuration shares connections.
    Theirs,
    /// The first login can be shared by others.
    Ours,
    /// Every session logs in by itself.
    None,
}

/// The relevant part of the user's configuration.
#[derive(Debug, Clone)]
pub(super) struct SshConfigFacts {
    pub(super) sharing: Sharing,
    /// Arguments for each ssh that logs in, besides the user's.
    pub(super) login: Vec<String>,
}

/// Reads the user's configuration.
pub(super) fn find(settings: &SshSettings) -> Result<SshConfigFacts, SshError> {
    let none = SshConfigFacts { sharing: Sharing::None, login: Vec::new() };
    if command::program(settings) != Program::Here {
        return Ok(none);
    }
    let Some(configuration) = ask(command::question(settings, &["-G"])?)? else { return Ok(none) };
    let value = |name: &str| value(&configuration, name);
    let mut login = Vec::new();
    if value("serveraliveinterval").is_none_or(|seconds| seconds == "0") {
        login.extend(words(&ALIVE));
    }
    if let Some(limit) = settings.connect_limit
        && value("connecttimeout").is_none_or(|seconds| seconds == "none")
    {
        login.extend(words(&[&format!("ConnectTimeout={}", limit.as_secs().max(1))]));
    }
    login.extend(ciphers(settings, value("ciphers").as_deref())?);
    let sharing = match value("controlpath").is_none_or(|path| path == "none") {
        true => Sharing::Ours,
        // A path alone does not share anything, but a connection opened there by hand was meant to be shared.
        false => {
            let by_hand = matches!(value("controlmaster").as_deref(), None | Some("no" | "false"));
            match by_hand && ask(command::question(settings, &["-O", "check"])?)?.is_none() {
                true => Sharing::Ours,
                false => Sharing::Theirs,
            }
        }
    };
    Ok(SshConfigFacts { sharing, login })
}

/// Returns arguments that make ssh prefer a cipher for which this processor has instructions, unless the user or the
/// administrator of this host has configured ciphers. OpenSSH's default preference is another cipher, which takes twice
/// the time.
fn ciphers(settings: &SshSettings, configured: Option<&str>) -> Result<Vec<String>, SshError> {
    let Some(preferred) = configured.and_then(preferred).filter(|_| has_aes()) else {
        return Ok(Vec::new());
    };
    let own = ask(command::question_of_nobody(settings))?;
    let is_untouched = own.and_then(|own| value(&own, "ciphers")).as_deref() == configured;
    Ok(if is_untouched { words(&[&format!("Ciphers={preferred}")]) } else { Vec::new() })
}

/// Returns these ciphers with AES-GCM first, or `None` if that changes nothing.
fn preferred(ciphers: &str) -> Option<String> {
    let is_fast = |name: &&str| FAST_CIPHERS.contains(name);
    let (fast, others): (Vec<&str>, Vec<&str>) = ciphers.split(',').partition(is_fast);
    let all = [fast, others].concat().join(",");
    (all != ciphers).then_some(all)
}

/// Returns one value of a configuration as ssh prints it.
fn value(configuration: &str, name: &str) -> Option<String> {
    let mut lines = configuration.lines();
    lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')).map(str::to_owned)
}

/// Returns the output of ssh, or `None` if it fails.
fn ask(mut command: Command) -> Result<Option<String>, SshError> {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    // The login that follows reports the error of the command.
    let Ok(mut child) = command.spawn() else { return Ok(None) };
    let output = child.stdout.take();
    let mut ssh = SshChild::new(child);
    let deadline = Instant::now() + QUESTION_LIMIT;
    let mut said = Vec::new();
    let mut piece = [0; 4096];
    if let Some(output) = output {
        while said.len() < CONFIGURATION_BYTES_MAX && wait_for(&output, PollFlags::IN, deadline)? {
            match rustix::io::read(&output, &mut piece) {
                Ok(0) => break,
                Ok(count) => said.extend_from_slice(piece.get(..count).unwrap_or_default()),
                Err(rustix::io::Errno::INTR) => {}
                Err(_) => break,
            }
        }
    }
    let left = deadline.saturating_duration_since(Instant::now());
    let worked = ssh.wait(left)?.is_some_and(|status| status.success());
    if !worked {
        let _ = ssh.kill();
    }
    Ok(worked.then(|| String::from_utf8_lossy(&said).into_owned()))
}

/// The socket of a login that others can use. It has a name only until the login is complete: then this process holds
/// it open, and nothing is left behind however the process ends.
#[derive(Debug)]
pub(super) struct LoginSocket {
    directory: PathBuf,
    /// The mark that this process lives: the next process removes what a killed one has left.
    lock: Option<File>,
    held: Option<OwnedFd>,
}

impl LoginSocket {
    /// Creates a private directory for the socket. Returns `None` if none can be created.
    pub(super) fn create() -> Option<Self> {
        let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
        let places = runtime.into_iter().chain([std::env::temp_dir(), PathBuf::from("/tmp")]);
        places.filter(|place| place.is_absolute()).find_map(|place| {
            stale_sockets::remove(&place);
            // Another run that cleans up may have been faster than the lock.
            (0..TRIES).find_map(|_| Self::create_in(&place))
        })
    }

    fn create_in(place: &Path) -> Option<Self> {
        let name =
            format!("{}{:016x}", stale_sockets::PREFIX, RandomState::new().hash_one(std::process::id()));
        let mut shared = Self { directory: place.join(name), lock: None, held: None };
        is_plain(&shared.path()).then_some(())?;
        // This fails if the name exists.
        DirBuilder::new().mode(0o700).create(&shared.directory).ok()?;
        shared.lock = Some(stale_sockets::lock(&shared.directory)?);
        shared.takes_sockets().then_some(shared)
    }

    /// Returns true if sockets can be created in the directory. It is tried first because ssh ends if it cannot create
    /// its socket.
    fn takes_sockets(&self) -> bool {
        let (first, second) = (self.directory.join("1"), self.directory.join("2"));
        let made = UnixListener::bind(&first).is_ok() && std::fs::hard_link(&first, &second).is_ok();
        let _ = (std::fs::remove_file(first), std::fs::remove_file(second));
        made
    }

    /// Returns the path of the socket.
    fn path(&self) -> PathBuf {
        self.directory.join("s")
    }

    /// Returns the arguments for the ssh that logs in.
    pub(super) fn for_the_first(&self) -> Vec<String> {
        // With ControlPersist, a process would remain.
        let path = format!("ControlPath={}", self.path().display());
        words(&["ControlMaster=yes", "ControlPersist=no", &path])
    }

    /// Returns the arguments for an ssh that uses the login.
    pub(super) fn for_further(&self) -> Vec<String> {
        let path = match &self.held {
            Some(socket) => format!("/proc/{}/fd/{}", std::process::id(), socket.as_raw_fd()),
            None => self.path().display().to_string(),
        };
        words(&["ControlMaster=no", &format!("ControlPath={path}"), "BatchMode=yes"])
    }

    /// Returns the arguments for an ssh that uses the login and must not log in itself if its session is refused, as
    /// OpenSSH does: a server may consider that an attack.
    pub(super) fn for_no_login(&self, settings: &SshSettings) -> Vec<String> {
        let mut words = self.for_further();
        // ssh refuses -J together with it.
        if !settings.ssh_command.iter().any(|word| word.to_string_lossy().contains("-J")) {
            words.extend(self::words(&["ProxyCommand=false"]));
        }
        words
    }

    /// Removes the name, once the login is complete.
    pub(super) fn hold(&mut self) {
        if self.held.is_some() {
            return;
        }
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let Ok(socket) = openat(CWD, self.path(), flags, Mode::empty()) else { return };
        // If this does not work, it would not work for ssh either.
        let through = format!("/proc/self/fd/{}", socket.as_raw_fd());
        if UnixStream::connect(through).is_ok() {
            self.held = Some(socket);
            self.remove();
            // ssh creates it under another name, links it to this one, and only then removes the other.
            let deadline = Instant::now() + RENAMING;
            while self.directory.exists() && Instant::now() < deadline {
                std::thread::sleep(Duration::from_millis(1));
                self.remove();
            }
        }
    }

    /// Returns true if the login is complete and its socket is held.
    pub(super) fn is_held(&self) -> bool {
        self.held.is_some()
    }

    /// Returns true if a name is left on disk.
    #[cfg(test)]
    pub(super) fn is_on_disk(&self) -> bool {
        self.directory.exists()
    }

    fn remove(&self) {
        // ssh may have removed its socket already, and then the directory is empty.
        let _ = std::fs::remove_file(self.path());
        let _ = std::fs::remove_dir(&self.directory);
    }
}

impl Drop for LoginSocket {
    fn drop(&mut self) {
        self.remove();
    }
}

/// Returns true if ssh takes the path literally: it expands `%` and `~`, and parses quotes and blanks.
fn is_plain(path: &Path) -> bool {
    let bytes = path.as_os_str().as_encoded_bytes();
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"/._-+,:@=".contains(byte);
    bytes.len() <= SOCKET_PATH_BYTES_MAX && bytes.iter().all(plain)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;

    #[test]
    fn a_fast_cipher_comes_first_unless_somebody_chose() {
        let own = "chacha20-poly1305@openssh.com,aes128-ctr,aes128-gcm@openssh.com,aes256-gcm@openssh.com";
        let fast = "aes128-gcm@openssh.com,aes256-gcm@openssh.com,chacha20-poly1305@openssh.com,aes128-ctr";
        assert_eq!(preferred(own).as_deref(), Some(fast));
        assert_eq!((preferred(fast), preferred("aes128-ctr")), (None, None));
        let found = |ssh: &str| {
            let mut settings = SshSettings::new(b"far".to_vec());
            settings.ssh_command = hakobu_core::shell::split(ssh).unwrap();
            find(&settings).unwrap().login.iter().any(|word| word.starts_with("Ciphers="))
        };
        assert_eq!(found("ssh -F none"), has_aes());
        assert!(!found("ssh -F none -c aes128-ctr") && !found("ssh -F none -o Ciphers=-aes128-ctr"));
    }

    #[test]
    fn a_held_socket_has_no_name_and_is_still_reached() {
        let mut shared = LoginSocket::create().unwrap();
        let directory = shared.directory.clone();
        assert_eq!(std::fs::metadata(&directory).unwrap().mode() & 0o7777, 0o700);
        let listener = UnixListener::bind(shared.path()).unwrap();
        shared.hold();
        assert!(!directory.exists());
        listener.accept().unwrap();
        let words = shared.for_further();
        let path = words.iter().find_map(|word| word.strip_prefix("ControlPath=")).unwrap();
        UnixStream::connect(path).unwrap();
        listener.accept().unwrap();
    }

    #[test]
    fn a_login_that_was_never_done_leaves_no_directory() {
        let mut shared = LoginSocket::create().unwrap();
        shared.hold();
        let directory = shared.directory.clone();
        assert!(directory.exists());
        drop(shared);
        assert!(!directory.exists());
    }

    #[test]
    fn paths_that_ssh_would_read_are_not_used() {
        assert!(is_plain(Path::new("/run/user/0/hakobu-ssh-00/s")));
        for path in ["/tmp/a b", "/tmp/%h", "/tmp/ä", "/tmp/\"x", "/tmp/${A}"] {
            assert!(!is_plain(Path::new(path)), "{path}");
        }
        assert!(!is_plain(Path::new(&format!("/{}", "x".repeat(SOCKET_PATH_BYTES_MAX)))));
    }
}
