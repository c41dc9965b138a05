//! A real PostgreSQL server for tests, on loopback or in a network namespace.
//!
//! Its files are in a folder of its own. It ends, and its folder goes, when the value is dropped, and also when this process is
//! killed.

use std::fs;
use std::io::{self, Write};
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::free_port::free_port;

/// The folder with Debian's versions.
const VERSIONS: &str = "/usr/lib/postgresql";
/// The time limit until it answers.
const START_LIMIT: Duration = Duration::from_secs(60);
/// The number of attempts. Another process may take a free port before the server does; then another port is tried.
const START_TRIES: u32 = 5;
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// The user of the databases, who may do everything.
const USER: &str = "hakobu";
/// Runs the server until standard input has a line, or ends, which it does with the process that started it: then the folder goes
/// as well. SIGQUIT ends the server and all of its sessions at once.
const WATCHER: &str = "\"$@\" & server=$!; echo $server >pid; read -r keep || gone=yes; kill -QUIT $server; \
                       kill -CONT $server; wait $server; [ -z \"$gone\" ] || rm -rf \"$HAKOBU_POSTGRES\"";

/// A server.
#[derive(Debug)]
pub struct PostgresServer {
    folder: TempDir,
    programs: PathBuf,
    netns: Option<String>,
    address: Ipv4Addr,
    port: u16,
    process: Mutex<Option<Child>>,
    databases: AtomicU32,
}

/// Settings of a server.
#[derive(Clone, Debug, Default)]
pub struct PostgresOptions<'a> {
    /// The network namespace to run in, and its address there.
    pub at: Option<(&'a str, Ipv4Addr)>,
    /// The folder in which its folder is made; by default that of temporary files.
    pub within: Option<&'a Path>,
    /// Lines for postgresql.conf.
    pub lines: &'a str,
    /// Lines for pg_hba.conf in place of those that let everybody in.
    pub access: Option<&'a str>,
    /// A certificate and its key in PEM, with which it offers TLS.
    pub certificate: Option<(&'a str, &'a str)>,
}

impl PostgresServer {
    /// Starts a server on loopback that forgets what a crash of the machine finds unwritten, which is much faster.
    ///
    /// # Errors
    /// If PostgreSQL is not installed or does not answer in time.
    pub fn start() -> io::Result<Self> {
        Self::start_with(&PostgresOptions { lines: "fsync = off\n", ..PostgresOptions::default() })
    }

    /// Starts a server.
    ///
    /// # Errors
    /// The errors of [`start`](Self::start).
    pub fn start_with(options: &PostgresOptions<'_>) -> io::Result<Self> {
        let programs = programs()?;
        let within = options.within.map_or_else(std::env::temp_dir, Path::to_owned);
        let folder = TempDir::with_prefix_in("postgres.", within)?;
        give(folder.path())?;
        let data = folder.path().join("data");
        let mut command = as_user(&programs.join("initdb"), folder.path());
        command.arg("-D").arg(&data).args(["-U", USER, "-A", "trust", "--no-sync", "--locale=C.UTF-8"]);
        run(command.stdin(Stdio::null()))?;
        let mut settings = fs::OpenOptions::new().append(true).open(data.join("postgresql.conf"))?;
        writeln!(settings, "max_connections = 200\nshared_buffers = 32MB\n{}", options.lines)?;
        if let Some((certificate, key)) = options.certificate {
            for (name, text) in [("server.crt", certificate), ("server.key", key)] {
                let file = data.join(name);
                fs::write(&file, text)?;
                run(Command::new("chmod").arg("600").arg(&file))?;
                give(&file)?;
            }
            writeln!(settings, "ssl = on")?;
        }
        let access = options.access.unwrap_or("local all all trust\nhost all all all trust\n");
        fs::write(data.join("pg_hba.conf"), access)?;
        let (netns, address) = match options.at {
            Some((netns, address)) => (Some(netns.to_owned()), address),
            None => (None, Ipv4Addr::LOCALHOST),
        };
        let (process, databases) = (Mutex::default(), AtomicU32::default());
        let mut server = Self { folder, programs, netns, address, port: 0, process, databases };
        let mut last = io::Error::other("not tried");
        for _ in 0..START_TRIES {
            server.port = free_port()?;
            match server.resume() {
                Ok(()) => return Ok(server),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    /// Starts it again after [`stop`](Self::stop) or [`crash`](Self::crash), on the same port.
    ///
    /// # Errors
    /// If it does not answer in time.
    pub fn resume(&self) -> io::Result<()> {
        let folder = self.folder.path();
        let log = fs::File::options().create(true).append(true).open(folder.join("log"))?;
        let address = self.address.to_string();
        let mut server = vec![];
        if let Some(netns) = &self.netns {
            server.extend(["ip", "netns", "exec", netns].map(Into::into));
        }
        let command = as_user(&self.programs.join("postgres"), folder);
        server.push(command.get_program().to_owned());
        server.extend(command.get_args().map(ToOwned::to_owned));
        let (port, sockets) = (self.port.to_string(), folder.to_string_lossy().into_owned());
        server.extend(["-D", "data", "-h", &address, "-p", &port, "-k", &sockets].map(Into::into));
        let child = Command::new("sh")
            .args(["-c", WATCHER, "sh"])
            .args(server)
            .env("HAKOBU_POSTGRES", folder)
            .current_dir(folder)
            .stdin(Stdio::piped())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()?;
        *lock(&self.process) = Some(child);
        let deadline = Instant::now() + START_LIMIT;
        while self.sql("SELECT 1").is_err() {
            if self.has_ended() || Instant::now() > deadline {
                let log = fs::read(folder.join("log")).unwrap_or_default();
                self.end(true);
                let log = String::from_utf8_lossy(&log).into_owned();
                return Err(io::Error::other(format!("PostgreSQL does not answer: {log}")));
            }
            thread::sleep(LOOK_EVERY);
        }
        Ok(())
    }

    /// Ends it as an administrator would: sessions are told, and what they had not committed is undone.
    pub fn stop(&self) {
        self.signal(Signal::INT);
        self.wait_for_end();
        self.end(true);
    }

    /// Ends it at once, so that it has to recover when it is started again.
    pub fn crash(&self) {
        self.signal(Signal::QUIT);
        self.wait_for_end();
        self.end(true);
    }

    fn wait_for_end(&self) {
        let deadline = Instant::now() + START_LIMIT;
        while !self.has_ended() && Instant::now() < deadline {
            thread::sleep(LOOK_EVERY);
        }
    }

    fn pid(&self) -> Option<i32> {
        fs::read_to_string(self.folder.path().join("pid")).ok()?.trim().parse().ok()
    }

    /// Returns true if the server was there and is not any more. The watcher has not waited for it yet.
    fn has_ended(&self) -> bool {
        let Some(pid) = self.pid() else { return false };
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.rsplit(')').next().is_none_or(|rest| rest.trim().is_empty() || rest.starts_with(" Z"))
    }

    fn signal(&self, signal: Signal) {
        if let Some(pid) = self.pid().and_then(Pid::from_raw) {
            let _ = kill_process(pid, signal);
        }
    }

    /// Ends the watcher, which ends the server.
    fn end(&self, keep: bool) {
        if let Some(mut process) = lock(&self.process).take() {
            if let Some(mut input) = process.stdin.take().filter(|_| keep) {
                let _ = input.write_all(b"keep\n");
            }
            let _ = process.wait();
        }
        let _ = fs::remove_file(self.folder.path().join("pid"));
    }

    /// Executes SQL in the database of the administrator, and returns what `psql` prints.
    ///
    /// # Errors
    /// If the server does not answer, or refuses it.
    pub fn sql(&self, sql: &str) -> io::Result<String> {
        let mut command = Command::new(self.programs.join("psql"));
        let (port, folder) = (self.port.to_string(), self.folder.path());
        command.args([
            "-X",
            "-q",
            "-t",
            "-A",
            "-v",
            "ON_ERROR_STOP=1",
            "-U",
            USER,
            "-d",
            "postgres",
            "-p",
            &port,
        ]);
        command.arg("-h").arg(folder).args(["-c", sql]).current_dir("/");
        run(command.stdin(Stdio::null()))
    }

    /// Returns the URL of an empty place for tables that no other test uses.
    ///
    /// # Errors
    /// The errors of [`sql`](Self::sql).
    pub fn empty_place(&self) -> io::Result<String> {
        let name = format!("place{}", self.databases.fetch_add(1, Ordering::Relaxed));
        self.sql(&format!("CREATE SCHEMA {name}"))?;
        Ok(format!("{}?options=-csearch_path%3D{name}", self.url()))
    }

    /// Returns the URL of the administrator's database.
    #[must_use]
    pub fn url(&self) -> String {
        format!("postgres://{USER}@{}:{}/postgres", self.address, self.port)
    }

    /// Returns the port.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }
}

impl Drop for PostgresServer {
    fn drop(&mut self) {
        self.end(false);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the folder with the programs of the newest version that is installed.
fn programs() -> io::Result<PathBuf> {
    let versions = fs::read_dir(VERSIONS).into_iter().flatten().flatten();
    let number = |path: &Path| path.file_name()?.to_str()?.parse::<u32>().ok();
    let newest = versions
        .map(|entry| entry.path())
        .filter(|path| path.join("bin/postgres").exists())
        .max_by_key(|path| number(path));
    let missing = "PostgreSQL is missing: run ./test once, or: bash -c '. scripts/lib.sh; need_postgres'";
    Ok(newest.ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, missing))?.join("bin"))
}

/// Returns a command that runs a program of the server in a folder. The server refuses to be run by root.
fn as_user(program: &Path, folder: &Path) -> Command {
    let mut command = if rustix::process::geteuid().is_root() {
        let mut command = Command::new("setpriv");
        command.args(["--reuid=nobody", "--regid=nogroup", "--clear-groups"]).arg(program);
        command
    } else {
        Command::new(program)
    };
    command.current_dir(folder);
    command
}

/// Gives a file or folder to the user that runs the server.
fn give(path: &Path) -> io::Result<()> {
    if rustix::process::geteuid().is_root() {
        run(Command::new("chown").arg("nobody:nogroup").arg(path))?;
    }
    Ok(())
}

fn run(command: &mut Command) -> io::Result<String> {
    let output = command.output()?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    Err(io::Error::other(String::from_utf8_lossy(&output.stderr).into_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_starts_restarts_and_goes() {
        let server = PostgresServer::start().unwrap();
        server.sql("CREATE TABLE a (x int); INSERT INTO a VALUES (7)").unwrap();
        server.stop();
        assert!(server.sql("SELECT 1").is_err());
        server.resume().unwrap();
        assert_eq!(server.sql("SELECT x FROM a").unwrap(), "7\n");
        server.crash();
        server.resume().unwrap();
        assert_ne!(server.empty_place().unwrap(), server.empty_place().unwrap());
        let folder = server.folder.path().to_owned();
        drop(server);
        assert!(!folder.exists());
    }
}
