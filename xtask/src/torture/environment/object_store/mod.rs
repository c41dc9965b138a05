//! Object stores for histories, each behind a proxy that spoils requests.
//!
//! `kind.rs`: which stores there are; `proxy.rs`: the proxy; `trouble.rs`: what it does to requests; `rewriting.rs`: what
//! it changes in them; `client.rs`: another program that stores objects; `exchange.rs`: one request of it.
//! The servers are installed by `need_stores` of `scripts/lib.sh`.

mod client;
pub(super) mod exchange;
mod kind;
mod proxy;
mod rewriting;
mod trouble;

use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::net::{Ipv4Addr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{bail, ensure};

pub use client::StoreClient;
pub use kind::TortureStoreKind;
pub(super) use kind::installed;
use kind::{ACCESS_KEY, BUCKET, SECRET_KEY};
pub use proxy::StoreProxy;
pub use trouble::StoreTrouble;

use super::free_port::free_port;

const START_LIMIT: Duration = Duration::from_secs(30);
/// Runs the server until standard input ends, which it does with the process that started it.
const WATCHER: &str = "\"$@\" & server=$!; read -r end; kill -9 $server; wait $server";
/// The file in a home directory with the variables of stores, one `NAME=VALUE` a line.
const VARIABLES: &str = "store-variables";

/// The server and its proxy. Dropping it ends both.
#[derive(Debug)]
pub struct TortureStore {
    kind: TortureStoreKind,
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
    pub fn start(kind: TortureStoreKind, scratch: &Path) -> anyhow::Result<Self> {
        let folder = scratch.join(format!("store-{}", kind.name()));
        fs::create_dir_all(folder.join("data").join(BUCKET))?;
        // Another process may take a free port before the server does.
        for _ in 0..5 {
            let port = free_port()?;
            let proxy = StoreProxy::start(port)?;
            let process = spawn(kind, &folder, port, proxy.port())?;
            let mut store = Self { kind, process, folder: folder.clone(), port, proxy };
            if store.answers()? {
                store.client().make_bucket()?;
                return Ok(store);
            }
        }
        let said = fs::read_to_string(folder.join("log")).unwrap_or_default();
        bail!("{} does not answer: {said}", kind.name())
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

    /// Kills the server, and starts it again after a time. Only versitygw has its objects afterwards.
    ///
    /// # Errors
    /// Returns an error if it does not start again.
    pub fn kill_and_start(&mut self, down: Duration) -> anyhow::Result<()> {
        drop(self.process.stdin.take());
        let _ = self.process.wait();
        thread::sleep(down);
        self.process = spawn(self.kind, &self.folder, self.port, self.proxy.port())?;
        ensure!(self.answers()?, "{} does not start again", self.kind.name());
        Ok(())
    }

    /// Returns what the server said last, if it has ended by itself.
    #[must_use]
    pub fn last_words(&self) -> Option<String> {
        if TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).is_ok() {
            return None;
        }
        let log = fs::read(self.folder.join("log")).unwrap_or_default();
        let log = String::from_utf8_lossy(&log);
        let is_cause = |line: &&str| line.starts_with("fatal error") || line.starts_with("panic");
        let cause = log.lines().find(is_cause).or(log.lines().last()).unwrap_or_default();
        Some(format!("{} has ended: {cause}", self.kind.name()))
    }

    /// Returns the URL of a prefix.
    #[must_use]
    pub fn url(&self, name: &str) -> PathBuf {
        PathBuf::from(format!("{}/{name}", self.kind.location()))
    }

    /// Returns the directory in which the server keeps the objects of a prefix, if it keeps them as files.
    #[must_use]
    pub fn files(&self, name: &str) -> Option<PathBuf> {
        let files = || self.folder.join("data").join(BUCKET).join(name);
        (self.kind == TortureStoreKind::Versitygw).then(files)
    }

    /// Removes all objects of a prefix.
    ///
    /// # Errors
    /// Returns an error if the server fails.
    pub fn clear(&self, name: &str) -> anyhow::Result<()> {
        self.proxy.wait_until_quiet();
        if let Some(files) = self.files(name) {
            if files.exists() {
                fs::remove_dir_all(files)?;
            }
            return Ok(());
        }
        let client = self.client();
        for object in client.list(&format!("{name}/"))? {
            client.delete(object.key.as_bytes())?;
        }
        Ok(())
    }

    /// Writes the settings with which hakobu and other programs find the store into a home directory. See
    /// [`variables`].
    ///
    /// # Errors
    /// Returns an error if they cannot be written.
    pub fn settle_in(&self, home: &Path, signature: bool) -> anyhow::Result<()> {
        fs::create_dir_all(home)?;
        let mut file = OpenOptions::new().create(true).append(true).open(home.join(VARIABLES))?;
        for (name, value) in self.kind.environment(self.proxy.port(), signature) {
            writeln!(file, "{name}={value}")?;
        }
        Ok(())
    }

    /// Returns another program that uses the store.
    #[must_use]
    pub fn client(&self) -> StoreClient {
        StoreClient { kind: self.kind, port: self.port, shown_port: self.proxy.port() }
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

/// Returns the variables that [`TortureStore::settle_in`] wrote into a home directory.
#[must_use]
pub fn variables(home: &Path) -> Vec<(String, String)> {
    let text = fs::read_to_string(home.join(VARIABLES)).unwrap_or_default();
    let pairs = text.lines().filter_map(|line| line.split_once('='));
    pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

fn spawn(kind: TortureStoreKind, folder: &Path, port: u16, shown_port: u16) -> anyhow::Result<Child> {
    let (program, arguments) = kind.command(&folder.join("data"), port, shown_port)?;
    let log = File::create(folder.join("log"))?;
    let mut command = Command::new("sh");
    command.args(["-c", WATCHER, "sh"]).arg(program).args(arguments);
    command.env("ROOT_ACCESS_KEY", ACCESS_KEY).env("ROOT_SECRET_KEY", SECRET_KEY).env("HOME", folder);
    command.current_dir(folder).stdin(Stdio::piped()).stdout(log.try_clone()?).stderr(log);
    Ok(command.spawn()?)
}
