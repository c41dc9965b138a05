//! `cargo xtask ground`: what the harness starts itself, and a way to try parts of the ground by hand.

#![allow(clippy::print_stdout, reason = "a program for people: its results go to standard output")]

use std::path::PathBuf;

use anyhow::bail;
use clap::{Args, Subcommand};

use super::file_system::{FileSystemKind, mount, mount_read_only_of};
use super::hosts::{Host, Hosts};
use super::{fuse, holds, leftovers};

/// The ground under the torture harness, by hand
#[derive(Debug, Args)]
pub struct GroundArgs {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
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
    Clean,
}

/// Does what was asked for.
///
/// # Errors
/// Where it fails.
pub fn run(args: GroundArgs) -> anyhow::Result<()> {
    match args.what {
        What::LyingFs { root, mount_point, lies } => {
            fuse::serve(&root, &mount_point, serde_json::from_str(&lies)?)
        }
        What::Holds { kinds, scratch } => {
            let mut wrong = 0;
            for name in kinds {
                let mut mounted = mount(&FileSystemKind::parse(&name)?, &scratch)?;
                for line in holds::differences(&mut mounted)? {
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
        What::Mount { kind, command, from, scratch, power_cut } => {
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
        What::Hosts { program, command, scratch } => {
            let hosts = Hosts::start(&scratch, &program)?;
            let ssh = hosts.ssh_arguments();
            println!(
                "{}",
                std::process::Command::new("sh").args(["-c", &command]).env("SSH", &ssh[1]).status()?
            );
            for host in Host::ALL {
                println!("{host:?}: {:?}", hosts.processes(host)?);
            }
            Ok(())
        }
        What::Clean => {
            println!("{} leftovers removed", leftovers::clean()?);
            Ok(())
        }
    }
}
