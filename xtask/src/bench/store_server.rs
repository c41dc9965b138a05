//! The server of an object store for a group of methods, with its data in memory.

use std::fs;
use std::net::Ipv4Addr;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use hakobu_measure::process::{CommandGroup, listens};

use super::rows::StoreKind;
use super::scratch_space::{INSTALLED_BIN, STORE_FOLDER, ScratchSpace, bucket_folder};

const PORT: u16 = 7070;
const ACCESS_KEY: &str = "bench";
const SECRET_KEY: &str = "benchbench";
/// The time that it has to start.
const START_LIMIT: Duration = Duration::from_secs(20);
const LOOK_EVERY: Duration = Duration::from_millis(20);

impl StoreKind {
    /// Returns the name of the tool that is its server.
    pub fn tool(self) -> &'static str {
        match self {
            Self::Versitygw => "versitygw",
        }
    }

    /// Returns the command of the server, without its network namespace.
    fn command(self, address: Ipv4Addr, scratch: &ScratchSpace) -> Vec<String> {
        let program = scratch.installed().join(INSTALLED_BIN).join(self.tool()).display().to_string();
        let folder = scratch.memory().join(STORE_FOLDER).display().to_string();
        match self {
            Self::Versitygw => [
                &program,
                "--port",
                &format!("{address}:{PORT}"),
                "--access",
                ACCESS_KEY,
                "--secret",
                SECRET_KEY,
                "--region",
                "us-east-1",
                // As in other stores. By default each request takes a connection of its own.
                "--keep-alive",
                "--quiet",
                "posix",
                &folder,
            ]
            .map(str::to_owned)
            .to_vec(),
        }
    }
}

/// A server. Dropping it ends it; the objects stay.
#[derive(Debug)]
pub struct StoreProcess {
    address: Ipv4Addr,
    _process: CommandGroup,
}

impl StoreProcess {
    /// Starts a server at this address, in this network namespace.
    ///
    /// # Errors
    /// Returns an error if it does not listen in time.
    pub fn start(kind: StoreKind, scratch: &ScratchSpace, address: Ipv4Addr, netns: &str) -> Result<Self> {
        fs::create_dir_all(bucket_folder(scratch.memory())).context("making a bucket")?;
        let mut command = Command::new("ip");
        command.args(["netns", "exec", netns]).args(kind.command(address, scratch)).stdin(Stdio::null());
        command.env("HOME", scratch.tools()).current_dir(scratch.tools());
        let process = CommandGroup::start(command, &scratch.tools().join("store.log"))?;
        let deadline = Instant::now() + START_LIMIT;
        while !listens(process.pid(), PORT) {
            if process.ended_within(LOOK_EVERY)? {
                bail!("{} has ended: {}", kind.tool(), process.last_words());
            }
            ensure!(Instant::now() < deadline, "{} does not listen: {}", kind.tool(), process.last_words());
            sleep(LOOK_EVERY);
        }
        Ok(Self { address, _process: process })
    }

    /// Sets the environment in which the tools find the server, and nothing of the user's own.
    pub fn set_environment(&self, command: &mut Command) {
        let server = format!("{}:{PORT}", self.address);
        let endpoint = format!("http://{server}");
        command.env("STORE", server).env("AWS_ENDPOINT_URL", &endpoint).env("S3_ENDPOINT_URL", &endpoint);
        command.env("AWS_ACCESS_KEY_ID", ACCESS_KEY).env("AWS_SECRET_ACCESS_KEY", SECRET_KEY);
        command.env("AWS_REGION", "us-east-1").env("AWS_EC2_METADATA_DISABLED", "true");
        command.env("AWS_CONFIG_FILE", "/dev/null").env("AWS_SHARED_CREDENTIALS_FILE", "/dev/null");
        command.env("RCLONE_CONFIG", "/dev/null").env("RCLONE_CONFIG_STORE_TYPE", "s3");
        command.env("RCLONE_CONFIG_STORE_PROVIDER", "Other").env("RCLONE_CONFIG_STORE_ENV_AUTH", "true");
        // The bucket was made as a folder, without what the server would answer to another attempt.
        command
            .env("RCLONE_CONFIG_STORE_ENDPOINT", &endpoint)
            .env("RCLONE_CONFIG_STORE_NO_CHECK_BUCKET", "true");
    }
}
