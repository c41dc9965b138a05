//! A real mail server for one test, on loopback: aiosmtpd, which `./test` installs (`need_stores` in `scripts/lib.sh`).
//!
//! It keeps each mail as it arrived, below four lines about its envelope. The user `hakobu` has the password `open sesame`.
//! There is no `nobody@`, and mail to `busy@` is refused once for the time being.

use std::fs;
use std::io::{self, BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

use crate::stores::program::installed;

/// As `need_stores` installs it.
const PYTHON: &str = "aiosmtpd-1.4.6/bin/python";
const PROGRAM: &str = include_str!("smtp/server.py");

/// The encryption of a server, with the files of its certificate and key.
#[derive(Clone, Copy, Debug)]
pub enum SmtpEncryption<'a> {
    /// None.
    Plain,
    /// After a request, and required.
    StartTls(&'a Path, &'a Path),
    /// From the beginning.
    Tls(&'a Path, &'a Path),
}

/// A mail server. It ends when the value is dropped, and when this process ends.
#[derive(Debug)]
pub struct SmtpServer {
    process: Child,
    folder: TempDir,
    /// The port.
    pub port: u16,
}

impl SmtpServer {
    /// Starts a server.
    ///
    /// # Errors
    /// If it is not installed or does not start.
    pub fn start(encryption: SmtpEncryption<'_>) -> io::Result<Self> {
        let folder = TempDir::with_prefix("smtp.")?;
        let (mode, files) = match encryption {
            SmtpEncryption::Plain => ("plain", Vec::new()),
            SmtpEncryption::StartTls(certificate, key) => ("starttls", vec![certificate, key]),
            SmtpEncryption::Tls(certificate, key) => ("tls", vec![certificate, key]),
        };
        let log = fs::File::create(folder.path().join("log"))?;
        let mut process = Command::new(installed(PYTHON)?)
            .args(["-c", PROGRAM])
            .arg(folder.path())
            .arg(mode)
            .args(files)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()?;
        let mut line = String::new();
        if let Some(output) = process.stdout.take() {
            BufReader::new(output).read_line(&mut line)?;
        }
        let mut server = Self { process, folder, port: 0 };
        server.port = line.trim().parse().map_err(|_| {
            let log = fs::read_to_string(server.folder.path().join("log")).unwrap_or_default();
            io::Error::other(format!("the mail server does not start: {log}"))
        })?;
        Ok(server)
    }

    /// Returns the mails so far, in their order.
    ///
    /// # Errors
    /// If they cannot be read.
    pub fn mails(&self) -> io::Result<Vec<String>> {
        let entries = fs::read_dir(self.folder.path())?.collect::<io::Result<Vec<_>>>()?;
        let mut paths: Vec<_> = entries.into_iter().map(|entry| entry.path()).collect();
        paths.retain(|path| path.extension().is_some_and(|extension| extension == "eml"));
        paths.sort();
        paths.iter().map(fs::read_to_string).collect()
    }
}

impl Drop for SmtpServer {
    fn drop(&mut self) {
        drop(self.process.stdin.take());
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
