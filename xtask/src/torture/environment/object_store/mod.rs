//! An object store for histories: versitygw, which keeps objects as files, behind a proxy that spoils requests.
//!
//! `proxy.rs`: the proxy; `trouble.rs`: what it does to requests; `client.rs`: another program that stores objects.
//! The server is installed by `need_stores` of `scripts/lib.sh`.

mod client;
mod proxy;
mod trouble;

use std::fs::{self, File};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};

pub use client::StoreClient;
pub use proxy::StoreProxy;
pub use trouble::StoreTrouble;

/// As `need_stores` installs it.
const PROGRAM: &str = "versitygw-1.8.0/versitygw";
const ACCESS_KEY: &str = "torture";
const SECRET_KEY: &str = "torture-secret";
const BUCKET: &str = "torture";
const START_LIMIT: Duration = Duration::from_secs(30);
/// Runs the server until standard input ends, which it does with the process that started it.
const WATCHER: &str = "\"$@\" & server=$!; read -r end; kill -9 $server; wait $server";

/// The server and its proxy. Dropping it ends both.
#[derive(Debug)]
pub struct TortureStore {
    process: Child,
    folder: PathBuf,
    port: u16,
    /// The proxy that hakobu reaches instead of the server.
    pub proxy: StoreProxy,
}

impl TortureStore {
    /// Starts the server with its data below a scratch directory.
    ///
    /// # Errors
    /// Returns an error if it is not installed or does not answer.
    pub fn start(scratch: &Path) -> anyhow::Result<Self> {
        let program = installed()?;
        let folder = scratch.join("store");
        let data = folder.join("data");
        fs::create_dir_all(data.join(BUCKET))?;
        let mut said = String::new();
        // Another process may take a free port before the server does.
        for _ in 0..5 {
            let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port();
            let log = File::create(folder.join("log"))?;
            let process = Command::new("sh")
                .args(["-c", WATCHER, "sh"])
                .arg(&program)
                .args(["--port", &format!("127.0.0.1:{port}"), "--region", "us-east-1", "--quiet", "posix"])
                .arg(&data)
                .env("ROOT_ACCESS_KEY", ACCESS_KEY)
                .env("ROOT_SECRET_KEY", SECRET_KEY)
                .env("HOME", &folder)
                .current_dir(&folder)
                .stdin(Stdio::piped())
                .stdout(log.try_clone()?)
                .stderr(log)
                .spawn()?;
            let proxy = StoreProxy::start(port)?;
            let mut store = Self { process, folder: folder.clone(), port, proxy };
            if store.answers()? {
                return Ok(store);
            }
            said = fs::read_to_string(folder.join("log")).unwrap_or_default();
        }
        bail!("versitygw does not answer: {said}")
    }

    fn answers(&mut self) -> anyhow::Result<bool> {
        let deadline = Instant::now() + START_LIMIT;
        while TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).is_err() {
            if self.process.try_wait()?.is_some() || Instant::now() > deadline {
                return Ok(false);
            }
            thread::sleep(Duration::from_millis(5));
        }
        Ok(true)
    }

    /// Returns the URL of a prefix, and the directory in which the server keeps its objects.
    #[must_use]
    pub fn prefix(&self, name: &str) -> [PathBuf; 2] {
        [PathBuf::from(format!("s3://{BUCKET}/{name}")), self.folder.join("data").join(BUCKET).join(name)]
    }

    /// Returns the directory in which the server keeps uploads that were not completed.
    #[must_use]
    pub fn uploads(&self) -> PathBuf {
        self.folder.join("data").join(BUCKET).join(".sgwtmp/multipart")
    }

    /// Writes the settings with which `aws` and hakobu find the store into a home directory.
    ///
    /// # Errors
    /// Returns an error if they cannot be written.
    pub fn settle_in(&self, home: &Path) -> anyhow::Result<()> {
        let folder = home.join(".aws");
        fs::create_dir_all(&folder)?;
        let endpoint = format!("http://127.0.0.1:{}", self.proxy.port());
        fs::write(
            folder.join("config"),
            format!("[default]\nregion = us-east-1\nendpoint_url = {endpoint}\n"),
        )?;
        fs::write(
            folder.join("credentials"),
            format!("[default]\naws_access_key_id = {ACCESS_KEY}\naws_secret_access_key = {SECRET_KEY}\n"),
        )?;
        Ok(())
    }

    /// Returns another program that uses the store.
    #[must_use]
    pub fn client(&self) -> StoreClient {
        StoreClient { port: self.port, bucket: BUCKET, access_key: ACCESS_KEY, secret_key: SECRET_KEY }
    }
}

impl Drop for TortureStore {
    fn drop(&mut self) {
        // Its end makes the watcher end the server.
        drop(self.process.stdin.take());
        let _ = self.process.wait();
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn installed() -> anyhow::Result<PathBuf> {
    let folder = match (std::env::var_os("HAKOBU_STORES"), std::env::var_os("HOME")) {
        (Some(folder), _) => PathBuf::from(folder),
        (None, home) => PathBuf::from(home.context("HOME is not set")?).join(".cache/hakobu-test-stores"),
    };
    let program = folder.join(PROGRAM);
    if !program.exists() {
        bail!("{} is missing: bash -c '. scripts/lib.sh; need_stores'", program.display());
    }
    Ok(program)
}
