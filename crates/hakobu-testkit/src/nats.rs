//! Real servers of NATS for one test, on loopback: one, or a cluster. They are killed and started again at will, and keep
//! their ports and files. They end when the value is dropped, and also when this process is killed.

use std::fs;
use std::io::{self, Read as _};
use std::net::{Ipv4Addr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::free_port::free_port;
use crate::stores::installed;

/// As `need_stores` installs it.
const PROGRAM: &str = "nats-server-2.15.1/bin/nats-server";
const START_LIMIT: Duration = Duration::from_secs(60);
const LOOK_EVERY: Duration = Duration::from_millis(10);
/// Runs the server until standard input ends, which it does with the process that started it.
const WATCHER: &str = "\"$@\" & server=$!; read -r end; kill -9 $server; wait $server";

/// A server, or one of a cluster.
#[derive(Debug)]
pub struct NatsServer {
    /// None: killed.
    process: Option<Child>,
    folder: TempDir,
    port: u16,
    environment: Vec<(String, String)>,
}

/// The configuration of servers.
#[derive(Clone, Debug, Default)]
pub struct NatsConfiguration {
    /// The text that follows the address and the directories: accounts and users.
    pub text: String,
    /// Variables of this text.
    pub environment: Vec<(String, String)>,
}

impl NatsServer {
    /// Starts a server.
    ///
    /// # Errors
    /// If it is not installed or does not answer in time.
    pub fn start(configuration: &NatsConfiguration) -> io::Result<Self> {
        let mut server = Self::prepare("one", configuration, "")?;
        server.restart()?;
        Ok(server)
    }

    /// Starts a cluster of three servers.
    ///
    /// # Errors
    /// As for [`NatsServer::start`].
    pub fn cluster(configuration: &NatsConfiguration) -> io::Result<Vec<Self>> {
        let ports = [free_port()?, free_port()?, free_port()?];
        let routes = ports.map(|port| format!("nats://127.0.0.1:{port}")).join(", ");
        let mut servers = Vec::new();
        for (number, port) in ports.into_iter().enumerate() {
            let cluster =
                format!("cluster {{ name: test, listen: \"127.0.0.1:{port}\", routes: [ {routes} ] }}\n");
            servers.push(Self::prepare(&format!("node{number}"), configuration, &cluster)?);
        }
        servers.iter_mut().try_for_each(Self::spawn)?;
        servers.iter_mut().try_for_each(Self::wait_for_answer)?;
        Ok(servers)
    }

    fn prepare(name: &str, configuration: &NatsConfiguration, more: &str) -> io::Result<Self> {
        let folder = TempDir::with_prefix("nats.")?;
        let port = free_port()?;
        let data = folder.path().join("data");
        let text = format!(
            "server_name: {name}\nlisten: \"127.0.0.1:{port}\"\n\
             jetstream {{ store_dir: \"{}\", sync_interval: always, max_file_store: 2GB, max_memory_store: 0 }}\n{more}{}",
            data.display(),
            configuration.text
        );
        fs::write(folder.path().join("server.conf"), text)?;
        Ok(Self { process: None, folder, port, environment: configuration.environment.clone() })
    }

    /// Returns a server that is not started, with a whole configuration as `server.conf` in its folder. It listens on this port of
    /// loopback.
    #[must_use]
    pub fn of_folder(folder: TempDir, port: u16, environment: &[(String, String)]) -> Self {
        Self { process: None, folder, port, environment: environment.to_vec() }
    }

    /// Returns its URL.
    #[must_use]
    pub fn url(&self) -> String {
        format!("nats://127.0.0.1:{}", self.port)
    }

    /// Returns its port.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Returns the folder with its configuration, its log and its data.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Kills it. Its files stay.
    pub fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            // Its end makes the watcher end the server.
            drop(process.stdin.take());
            let _ = process.wait();
        }
    }

    /// Starts it, again if it was killed, and waits until it answers.
    ///
    /// # Errors
    /// If it does not answer in time.
    pub fn restart(&mut self) -> io::Result<()> {
        self.spawn()?;
        self.wait_for_answer()
    }

    /// Starts it, without waiting for an answer.
    ///
    /// # Errors
    /// If it cannot be started.
    pub fn spawn(&mut self) -> io::Result<()> {
        self.kill();
        let log = fs::OpenOptions::new().create(true).append(true).open(self.log_path())?;
        let process = Command::new("sh")
            .args(["-c", WATCHER, "sh"])
            .arg(installed(PROGRAM)?)
            .arg("-c")
            .arg(self.folder.path().join("server.conf"))
            .envs(self.environment.iter().cloned())
            .stdin(Stdio::piped())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()?;
        self.process = Some(process);
        Ok(())
    }

    fn wait_for_answer(&mut self) -> io::Result<()> {
        let deadline = Instant::now() + START_LIMIT;
        loop {
            if self.answers() {
                return Ok(());
            }
            let is_over = self.process.as_mut().map(Child::try_wait).transpose()?.flatten().is_some();
            if is_over || Instant::now() > deadline {
                let log = fs::read(self.log_path()).unwrap_or_default();
                let log = String::from_utf8_lossy(&log).into_owned();
                return Err(io::Error::other(format!("nats-server does not answer: {log}")));
            }
            thread::sleep(LOOK_EVERY);
        }
    }

    fn answers(&self) -> bool {
        let Ok(mut stream) = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)) else { return false };
        let mut greeting = [0; 4];
        stream.set_read_timeout(Some(START_LIMIT)).is_ok()
            && stream.read_exact(&mut greeting).is_ok()
            && &greeting == b"INFO"
    }

    fn log_path(&self) -> PathBuf {
        self.folder.path().join("log")
    }
}

impl Drop for NatsServer {
    fn drop(&mut self) {
        self.kill();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_killed_and_started_again() {
        let mut server = NatsServer::start(&NatsConfiguration::default()).unwrap();
        assert!(server.answers());
        server.kill();
        assert!(!server.answers());
        server.restart().unwrap();
        assert!(server.answers());
    }

    #[test]
    fn three_servers_are_a_cluster() {
        let servers = NatsServer::cluster(&NatsConfiguration::default()).unwrap();
        assert!(servers.iter().all(NatsServer::answers));
    }
}
