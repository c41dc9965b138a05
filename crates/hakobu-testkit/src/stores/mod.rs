//! Real object stores for one test, on loopback.
//!
//! The servers are installed by `./test` (`need_stores` in `scripts/lib.sh`). All files of a server are in its own
//! directory. It ends when the value is dropped, and also when this process is killed.

mod azurite;
mod fake_gcs;
mod moto;
pub(crate) mod program;
mod versitygw;

use std::fs;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use program::StoreCommand;
pub(crate) use program::installed;
use tempfile::TempDir;

use crate::free_port::free_port;

/// The time limit until it answers.
const START_LIMIT: Duration = Duration::from_secs(60);
/// The number of attempts. Another process may take a free port before the server does; then another port is tried.
const START_TRIES: u32 = 5;
const LOOK_EVERY: Duration = Duration::from_millis(10);
/// Runs the server until standard input ends, which it does with the process that started it.
const WATCHER: &str = "\"$@\" & server=$!; read -r end; kill -9 $server; wait $server";

/// A server of an object store.
#[derive(Debug)]
pub struct StoreServer {
    process: Child,
    folder: TempDir,
    /// The URL of the server, of Azurite with the account.
    pub endpoint: String,
    /// The access key or account that may do everything.
    pub access_key: &'static str,
    /// The secret that belongs to it.
    pub secret_key: &'static str,
    buckets: BucketMaker,
}

/// A way to make a bucket.
#[derive(Clone, Copy, Debug)]
enum BucketMaker {
    /// A folder among the server's data.
    Folder,
    /// A request without credentials.
    Request,
    /// A request with a shared access signature.
    SignedRequest,
    /// A request with its name in JSON.
    JsonRequest,
}

impl StoreServer {
    /// Starts versitygw, which keeps objects as files. It checks CRC-64/NVME, conditions and signatures; it has no key
    /// `a` beside a key `a/b`.
    ///
    /// # Errors
    /// If it is not installed or does not answer in time.
    pub fn versitygw() -> io::Result<Self> {
        Self::versitygw_with(versitygw::ACCESS_KEY, versitygw::SECRET_KEY)
    }

    /// Starts versitygw with these keys.
    ///
    /// # Errors
    /// As for [`StoreServer::versitygw`].
    pub fn versitygw_with(access_key: &'static str, secret_key: &'static str) -> io::Result<Self> {
        let keys = (access_key, secret_key);
        Self::start(|data, port| versitygw::command(data, port, keys), BucketMaker::Folder, keys)
    }

    /// Starts moto, which keeps objects in memory. It takes any key and any credentials, and checks nothing.
    ///
    /// # Errors
    /// If it is not installed or does not answer in time.
    pub fn moto() -> io::Result<Self> {
        Self::start(moto::command, BucketMaker::Request, ("any", "any"))
    }

    /// Starts Azurite, with Azure's interface. It checks CRC-64/NVME, conditions and signatures.
    ///
    /// # Errors
    /// If it is not installed or does not answer in time.
    pub fn azurite() -> io::Result<Self> {
        let account = (azurite::ACCOUNT, azurite::KEY);
        let mut server = Self::start(azurite::command, BucketMaker::SignedRequest, account)?;
        server.endpoint.extend(["/", azurite::ACCOUNT]);
        Ok(server)
    }

    /// Starts fake-gcs-server, which keeps objects in memory. It has the interface of Google Cloud Storage without uploads
    /// in parts, ignores credentials and checks no checksums.
    ///
    /// # Errors
    /// If it is not installed or does not answer in time.
    pub fn fake_gcs() -> io::Result<Self> {
        Self::start(fake_gcs::command, BucketMaker::JsonRequest, ("any", "any"))
    }

    /// A shared access signature for Azurite with all rights.
    pub const AZURITE_SAS: &str = azurite::ALL_RIGHTS;
    /// One for reading and listing.
    pub const AZURITE_READING_SAS: &str = azurite::READING;
    /// One that has expired.
    pub const AZURITE_EXPIRED_SAS: &str = azurite::EXPIRED;

    fn start(
        command: impl Fn(&Path, u16) -> io::Result<StoreCommand>,
        buckets: BucketMaker,
        (access_key, secret_key): (&'static str, &'static str),
    ) -> io::Result<Self> {
        let mut last = io::Error::other("not tried");
        for _ in 0..START_TRIES {
            let folder = TempDir::with_prefix("store.")?;
            fs::create_dir(folder.path().join("data"))?;
            let port = free_port()?;
            let process = spawn(&command(&folder.path().join("data"), port)?, folder.path())?;
            let endpoint = format!("http://127.0.0.1:{port}");
            let mut server = Self { process, folder, endpoint, access_key, secret_key, buckets };
            match server.wait_for_answer(port) {
                Ok(()) => return Ok(server),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    fn wait_for_answer(&mut self, port: u16) -> io::Result<()> {
        let deadline = Instant::now() + START_LIMIT;
        while request(port, "GET", "/", "").is_err() {
            let is_over = self.process.try_wait()?.is_some();
            if is_over || Instant::now() > deadline {
                let log = fs::read(self.folder.path().join("log")).unwrap_or_default();
                let log = String::from_utf8_lossy(&log).into_owned();
                return Err(io::Error::other(format!("the server does not answer: {log}")));
            }
            thread::sleep(LOOK_EVERY);
        }
        Ok(())
    }

    /// Creates a bucket.
    ///
    /// # Errors
    /// If the server refuses.
    pub fn make_bucket(&self, name: &str) -> io::Result<()> {
        let (method, path, body) = match self.buckets {
            BucketMaker::Folder => return fs::create_dir(self.data().join(name)),
            BucketMaker::Request => ("PUT", format!("/{name}"), String::new()),
            BucketMaker::SignedRequest => {
                let path = format!("/{}/{name}?restype=container&{}", self.access_key, azurite::ALL_RIGHTS);
                ("PUT", path, String::new())
            }
            BucketMaker::JsonRequest => {
                ("POST", "/storage/v1/b?project=test".to_owned(), format!("{{\"name\":\"{name}\"}}"))
            }
        };
        let answer = request(self.port(), method, &path, &body)?;
        if answer.starts_with("HTTP/1.1 20") { Ok(()) } else { Err(io::Error::other(answer)) }
    }

    /// Returns the directory with the server's data. What is in it depends on the server.
    #[must_use]
    pub fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// Returns the port that it listens on.
    #[must_use]
    pub fn port(&self) -> u16 {
        let authority = self.endpoint.split('/').nth(2).unwrap_or_default();
        authority.rsplit(':').next().and_then(|port| port.parse().ok()).unwrap_or_default()
    }
}

impl Drop for StoreServer {
    fn drop(&mut self) {
        // Its end makes the watcher end the server.
        drop(self.process.stdin.take());
        let _ = self.process.wait();
    }
}

/// Returns the path of another program that reads and writes buckets: `rclone`, `s5cmd` or `aws`.
///
/// # Errors
/// If it is not installed.
pub fn store_client(name: &str) -> io::Result<PathBuf> {
    program::installed(&format!("clients-1/bin/{name}"))
}

fn spawn(command: &StoreCommand, folder: &Path) -> io::Result<Child> {
    let log = fs::File::create(folder.join("log"))?;
    Command::new("sh")
        .args(["-c", WATCHER, "sh"])
        .arg(&command.program)
        .args(&command.arguments)
        .envs(command.environment.iter().copied())
        .env("HOME", folder)
        .current_dir(folder)
        .stdin(Stdio::piped())
        .stdout(log.try_clone()?)
        .stderr(log)
        .spawn()
}

/// Sends a request without credentials, and returns the answer.
fn request(port: u16, method: &str, path: &str, body: &str) -> io::Result<String> {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
    stream.set_read_timeout(Some(START_LIMIT))?;
    write!(
        stream,
        "{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    )?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    if answer.is_empty() {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_start_answer_and_end() {
        for start in [StoreServer::versitygw, StoreServer::moto, StoreServer::azurite, StoreServer::fake_gcs]
        {
            let server = start().unwrap();
            server.make_bucket("one").unwrap();
            let port = server.port();
            assert!(request(port, "GET", "/one", "").unwrap().starts_with("HTTP/1.1 "));
            drop(server);
            assert!(TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err());
        }
    }

    #[test]
    fn fake_gcs_survives_reads_of_an_object_that_changes() {
        let server = StoreServer::fake_gcs().unwrap();
        server.make_bucket("one").unwrap();
        let port = server.port();
        request(port, "POST", "/upload/storage/v1/b/one/o?uploadType=media&name=a", "content").unwrap();
        let metadata: Vec<_> = (0..100).map(|number| format!("\"key-{number}\":\"\"")).collect();
        let change = format!("{{\"metadata\":{{{}}}}}", metadata.join(","));
        let ask = |method, body| {
            for _ in 0..300 {
                let answer = request(port, method, "/storage/v1/b/one/o/a", body).unwrap();
                assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
            }
        };
        thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| ask("PATCH", &change));
                scope.spawn(|| ask("GET", ""));
            }
        });
    }
}
