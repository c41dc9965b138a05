//! What the user wants measured, and what is found of the two machines before anything is.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use super::far::FarShell;
use super::keeper::Keeper;
use super::login::{Back, Login};
use super::plan::{Ground, LeftOut};
use super::result::MachineFacts;
use super::scratch::{NearDirectory, Place};

/// What is wanted.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The other machine, if there is one.
    pub login: Option<Login>,
    /// Every one, and not a subset.
    pub full: bool,
    /// The whole bench takes about so long.
    pub budget: Duration,
    /// A directory on a disk here.
    pub scratch: Option<PathBuf>,
    /// The same over there.
    pub far_scratch: Option<String>,
    /// How the host reaches this machine, where that is not the address that it sees.
    pub back: Option<Back>,
    /// The port over there that ways with a connection of their own use.
    pub port: Option<u16>,
    /// This program.
    pub program: PathBuf,
    /// Where it is over there, if it is not on the PATH; without control characters.
    pub far_program: Option<String>,
    /// The settings file of hakobu's rows, which read no other one.
    pub of_hakobu: String,
}

/// The machines, and what of the plan they can do.
pub(super) struct Site {
    pub memory: Place,
    pub disk: Option<Place>,
    pub far: Option<FarShell>,
    pub ground: Ground,
    pub left_out: Vec<LeftOut>,
    pub machines: Vec<MachineFacts>,
    pub same_machine: bool,
    pub same_network: bool,
    /// The address of the host at which it was logged in to.
    pub address: Option<IpAddr>,
    pub port: u16,
    /// The address at which the host reaches this machine, and a free port here.
    pub near_port: Option<(String, u16)>,
    pub back: Option<Back>,
    /// This program by a plain path, as the host may start it.
    pub near_program: String,
    /// What it is to read for settings.
    pub settings_of_hakobu: String,
    /// That over there; empty where there is none yet.
    pub far_program: String,
    /// Its own path, where it stays when the bench is over.
    pub far_program_typed: Option<String>,
    pub ssh: Option<PathBuf>,
    /// Where its wrapper lies if nothing can be run from memory.
    pub _beside: Option<NearDirectory>,
    /// How long a login takes with a command that does nothing.
    pub login_seconds: f64,
    /// Clears away where this process cannot. It ends after all else.
    pub keeper: Keeper,
}

/// What is left out, and why.
pub(super) fn out(what: &str, why: String) -> LeftOut {
    LeftOut { what: what.to_owned(), why }
}
