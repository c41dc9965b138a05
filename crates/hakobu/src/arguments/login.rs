//! How to get to another machine: options that most verbs share.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;

use crate::settings_file::{FileLogin, FromFile};

/// The login on another machine.
#[derive(Debug, Args)]
pub struct LoginArguments {
    /// The ssh to log in with, its options included: 'ssh -p 2222 -i key' [env: HAKOBU_SSH]
    #[arg(short = 'e', long, value_name = "COMMAND", help_heading = "The way there")]
    pub ssh: Option<OsString>,

    /// The hakobu on the other machine [default: found on its PATH, else uploaded for this run]
    #[arg(long, value_name = "PATH", help_heading = "The way there")]
    pub agent: Option<PathBuf>,

    /// Run the other side under sudo
    #[arg(long, help_heading = "The way there")]
    pub sudo: bool,

    /// Settings of hosts from here; or none (see hakobu settings) [env: HAKOBU_SETTINGS]
    #[arg(long, value_name = "FILE", help_heading = "The way there")]
    pub settings: Option<PathBuf>,

    /// Which of the options were not typed, and come from settings files.
    #[arg(skip)]
    pub from_files: Vec<FromFile>,

    /// The logins, where the settings files have another one for each of several machines.
    #[arg(skip)]
    pub logins: Vec<FileLogin>,
}
