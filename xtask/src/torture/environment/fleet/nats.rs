//! The NATS server of a fleet. It keeps its port and its files when it is killed and started again.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use serde_json::Value;

use super::super::free_port::free_port;
use super::super::object_store::installed;
use super::super::watched_process::WatchedProcess;

/// As `need_stores` of `scripts/lib.sh` installs it.
const PROGRAM: &str = "nats-server-2.15.1/bin/nats-server";
const START_LIMIT: Duration = Duration::from_secs(30);
const ANSWER_LIMIT: Duration = Duration::from_secs(20);
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// The server. Dropping it ends it.
#[derive(Debug)]
pub(super) struct TortureNats {
    process: Option<WatchedProcess>,
    folder: PathBuf,
    port: u16,
}

impl TortureNats {
    /// Starts the server with its files in a folder.
    pub(super) fn start(folder: &Path) -> anyhow::Result<Self> {
        fs::create_dir_all(folder)?;
        let port = free_port()?;
        let text = format!(
            "server_name: torture\nlisten: \"127.0.0.1:{port}\"\n\
             jetstream {{ store_dir: \"{}\", sync_interval: always, max_file_store: 1GB, max_memory_store: 0 }}\n",
            folder.join("data").display()
        );
        fs::write(folder.join("server.conf"), text)?;
        let mut server = Self { process: None, folder: folder.to_owned(), port };
        server.restart()?;
        Ok(server)
    }

    /// Returns its URL.
    pub(super) fn url(&self) -> String {
        format!("nats://127.0.0.1:{}", self.port)
    }

    /// Kills it. Its files stay.
    pub(super) fn kill(&mut self) {
        self.process = None;
    }

    /// Starts it, again if it was killed, and waits until it answers.
    pub(super) fn restart(&mut self) -> anyhow::Result<()> {
        self.kill();
        let words = ["-c".into(), self.folder.join("server.conf").into_os_string()];
        let process = WatchedProcess::start(&installed(PROGRAM)?, &words, &[], &self.folder.join("log"))?;
        let deadline = Instant::now() + START_LIMIT;
        while self.connection().is_err() {
            let is_over = process.has_ended() || Instant::now() > deadline;
            ensure!(!is_over, "nats-server does not answer: {}", process.log());
            std::thread::sleep(LOOK_EVERY);
        }
        self.process = Some(process);
        Ok(())
    }

    /// Deletes all streams.
    pub(super) fn delete_streams(&self) -> anyhow::Result<()> {
        let mut connection = self.connection()?;
        let names = ask(&mut connection, "$JS.API.STREAM.NAMES")?;
        let names = names["streams"].as_array().cloned().unwrap_or_default();
        for name in names.iter().filter_map(Value::as_str) {
            // The control plane may have made it again under another name.
            ask(&mut connection, &format!("$JS.API.STREAM.DELETE.{name}"))?;
        }
        Ok(())
    }

    /// Connects, and reads the greeting.
    fn connection(&self) -> anyhow::Result<BufReader<TcpStream>> {
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port))?;
        stream.set_read_timeout(Some(ANSWER_LIMIT))?;
        let mut connection = BufReader::new(stream);
        let mut greeting = String::new();
        connection.read_line(&mut greeting)?;
        ensure!(greeting.starts_with("INFO "), "no greeting");
        let connect =
            "CONNECT {\"verbose\":false,\"headers\":true,\"no_responders\":true}\r\nSUB inbox.torture 1\r\n";
        connection.get_mut().write_all(connect.as_bytes())?;
        Ok(connection)
    }
}

/// Sends a request without content, and returns the answer.
fn ask(connection: &mut BufReader<TcpStream>, subject: &str) -> anyhow::Result<Value> {
    write!(connection.get_mut(), "PUB {subject} inbox.torture 0\r\n\r\n")?;
    loop {
        let mut line = String::new();
        connection.read_line(&mut line)?;
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            ["MSG", .., length] => {
                let mut body = vec![0; length.parse::<usize>()? + 2];
                connection.read_exact(&mut body)?;
                return serde_json::from_slice(&body).context("an answer of nats-server");
            }
            ["PING"] => connection.get_mut().write_all(b"PONG\r\n")?,
            ["INFO", ..] => {}
            _ => bail!("nats-server says {line}"),
        }
    }
}
