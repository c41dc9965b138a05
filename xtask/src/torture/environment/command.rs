//! `cargo xtask environment`: starts the helper processes of the harness, and runs parts of the test environment by
//! hand.

#![allow(clippy::print_stdout, reason = "a program for people: its results go to standard output")]

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::bail;
use clap::{Args, Subcommand};

use super::faults::Fault;
use super::file_system::{FileSystemKind, mount, mount_read_only_of};
use super::hosts::{TestHost, TestHosts};
use super::run::{Surroundings, run_with};
use super::{capabilities, fuse, leftovers};

/// The test environment of the torture harness, by hand
#[derive(Debug, Args)]
pub struct EnvironmentArgs {
    #[command(subcommand)]
    command: EnvironmentCommand,
}

#[derive(Debug, Subcommand)]
enum EnvironmentCommand {
    /// Serve the file system that lies until standard input ends
    LyingFs {
        /// The tree that it shows
        root: PathBuf,
        /// Where to mount it
        mount_point: PathBuf,
        /// The lies, in JSON
        lies: String,
    },
    /// Mount file systems and tell where they do not hold what is known of them
    Holds {
        /// Their names, as `ext4` or `fuse:{"size_zero":true}`
        kinds: Vec<String>,
        /// Where to make them
        #[arg(long, default_value = "/tmp")]
        scratch: PathBuf,
    },
    /// Mount one and run a shell command there
    Mount {
        /// Its name
        kind: String,
        /// Run by `sh -c` in the mounted directory
        command: String,
        /// The tree that a read-only one is made of
        #[arg(long)]
        from: Option<PathBuf>,
        /// Where to make it
        #[arg(long, default_value = "/tmp")]
        scratch: PathBuf,
        /// Cut the power, and run it again
        #[arg(long)]
        power_cut: bool,
    },
    /// Run a command with a fault and tell what came of it
    Run {
        /// In JSON, as `{"KillAll":{"when":{"AfterMs":50}}}`; nothing goes wrong with `null`
        fault: String,
        /// The program and its arguments; `--ssh` is put behind them where there are hosts
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        words: Vec<OsString>,
        /// Start hosts for it
        #[arg(long)]
        hosts: bool,
        /// The source's tree
        #[arg(long)]
        source: Option<PathBuf>,
        /// The target's tree, below the mount where there is one
        #[arg(long)]
        target: Option<PathBuf>,
        /// A file system to mount; the words then hold `@` for its path
        #[arg(long)]
        on: Option<String>,
        /// In seconds
        #[arg(long, default_value_t = 60)]
        deadline: u64,
        /// Where to work
        #[arg(long, default_value = "/tmp")]
        scratch: PathBuf,
    },
    /// Start the hosts and run a shell command; `$SSH` finds them, as in `--ssh "$SSH"`, and `a:`, `b:`, `a-sftp:` are they
    Hosts {
        /// The hakobu that is on their PATH
        program: PathBuf,
        /// Run by `sh -c`
        command: String,
        /// Where to make them
        #[arg(long, default_value = "/tmp")]
        scratch: PathBuf,
    },
    /// Remove what killed harnesses left
    Clean {
        /// Where they worked
        #[arg(long, default_value = "/tmp")]
        scratch: PathBuf,
    },
}

/// Runs the subcommand.
///
/// # Errors
/// Returns an error if it fails.
pub fn run(args: EnvironmentArgs) -> anyhow::Result<()> {
    match args.command {
        EnvironmentCommand::LyingFs { root, mount_point, lies } => {
            fuse::serve(&root, &mount_point, serde_json::from_str(&lies)?)
        }
        EnvironmentCommand::Holds { kinds, scratch } => {
            let mut wrong = 0;
            for name in kinds {
                let mut mounted = mount(&FileSystemKind::parse(&name)?, &scratch)?;
                for line in capabilities::differences(&mut mounted)? {
                    println!("{name}: {line}");
                    wrong += 1;
                }
                println!("{name}: tried");
            }
            if wrong > 0 {
                bail!("{wrong} differences");
            }
            Ok(())
        }
        EnvironmentCommand::Mount { kind, command, from, scratch, power_cut } => {
            let kind = FileSystemKind::parse(&kind)?;
            let mut mounted = match &from {
                Some(from) => mount_read_only_of(&kind, from, &scratch)?,
                None => mount(&kind, &scratch)?,
            };
            let shell = |at: &std::path::Path| {
                std::process::Command::new("sh").args(["-c", &command]).current_dir(at).status()
            };
            println!("{}", shell(mounted.path())?);
            if power_cut {
                mounted.power_cut()?;
                println!("{}", shell(mounted.path())?);
            }
            Ok(())
        }
        EnvironmentCommand::Run { fault, words, hosts, source, target, on, deadline, scratch } => {
            let fault: Option<Fault> = serde_json::from_str(&fault)?;
            let mut mounted = match on {
                Some(kind) => Some(mount(&FileSystemKind::parse(&kind)?, &scratch)?),
                None => None,
            };
            let at = mounted.as_ref().map(|mounted| mounted.path().to_owned());
            let placed = |word: &OsString| match (&at, word.to_str()) {
                (Some(at), Some(word)) => word.replace('@', &at.to_string_lossy()).into(),
                _ => word.clone(),
            };
            let words: Vec<OsString> = words.iter().map(placed).collect();
            let target =
                target.map(|target| at.as_deref().map_or_else(|| target.clone(), |at| at.join(&target)));
            let Some((program, arguments)) = words.split_first() else { bail!("nothing to run") };
            let program = PathBuf::from(program);
            let hosts = if hosts { Some(TestHosts::start(&scratch, &program)?) } else { None };
            let mut command = std::process::Command::new(&program);
            command.args(arguments).args(hosts.iter().flat_map(TestHosts::ssh_arguments));
            let mut around = Surroundings {
                scratch: &scratch,
                hosts: hosts.as_ref(),
                source: source.as_deref(),
                target: target.as_deref(),
                mounted: mounted.as_mut(),
                input: None,
                deadline: Duration::from_secs(deadline),
            };
            let ran = run_with(fault.as_ref(), command, &mut around)?;
            println!("{}{}", String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
            println!(
                "code {:?}, signal {:?}, took place {}, injected {}, after {:?}, left behind {:?}, changed {:?}, outside {:?}",
                ran.code,
                ran.signal,
                ran.took_place,
                ran.injected,
                ran.took,
                ran.left_behind,
                ran.changed,
                ran.outside
            );
            println!("{}", ran.hung.unwrap_or_default());
            Ok(())
        }
        EnvironmentCommand::Hosts { program, command, scratch } => {
            let hosts = TestHosts::start(&scratch, &program)?;
            let ssh = hosts.ssh_arguments();
            println!(
                "{}",
                std::process::Command::new("sh").args(["-c", &command]).env("SSH", &ssh[1]).status()?
            );
            for host in TestHost::ALL {
                println!("{host:?}: {:?}", hosts.processes(host)?);
            }
            Ok(())
        }
        EnvironmentCommand::Clean { scratch } => {
            println!("{} leftovers removed", leftovers::clean(&scratch)?);
            Ok(())
        }
    }
}
