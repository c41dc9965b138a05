//! The user's settings for a bench, and the facts about the two machines that are found before the first run.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use super::cleanup_shell::CleanupShell;
use super::login::{BenchLogin, ReverseLogin};
use super::plan::{LeftOut, PlanFacts};
use super::remote_processes::FarShell;
use super::result::MachineFacts;
use super::scratch::{NearDirectory, ScratchPair};

/// The settings of a bench.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The login on the host, if there is one.
    pub login: Option<BenchLogin>,
    /// True for the full set of rows, false for a subset.
    pub full: bool,
    /// The approximate duration of the whole bench.
    pub budget: Duration,
    /// A directory on a disk of this machine.
    pub scratch: Option<PathBuf>,
    /// A directory on a disk of the host.
    pub far_scratch: Option<String>,
    /// The login from the host to this machine, if it differs from the address that the host sees.
    pub back: Option<ReverseLogin>,
    /// The port on the host for methods with their own connection.
    pub port: Option<u16>,
    /// The path of this program.
    pub program: PathBuf,
    /// The path of the program on the host, if it is not in PATH; without control characters.
    pub far_program: Option<String>,
    /// The content of the settings file for hakobu's rows. They read no other settings.
    pub of_hakobu: String,
}

/// The machines, and the facts that the plan depends on.
pub(super) struct BenchMachines {
    pub memory: ScratchPair,
    pub disk: Option<ScratchPair>,
    pub far: Option<FarShell>,
    pub ground: PlanFacts,
    pub left_out: Vec<LeftOut>,
    pub machines: Vec<MachineFacts>,
    pub same_machine: bool,
    pub same_network: bool,
    /// The address of the host that the login used.
    pub address: Option<IpAddr>,
    pub port: u16,
    /// The address at which the host reaches this machine, and a free port here.
    pub near_port: Option<(String, u16)>,
    pub back: Option<ReverseLogin>,
    /// A plain path to this program, as the host may start it.
    pub near_program: String,
    /// The path of the settings file for hakobu's rows, or `none`.
    pub settings_of_hakobu: String,
    /// The plain path of the program on the host; empty if it is not there yet.
    pub far_program: String,
    /// The original path of the program on the host, if it remains after the bench.
    pub far_program_typed: Option<String>,
    pub ssh: Option<PathBuf>,
    /// The directory of the ssh wrapper, if the memory file system does not allow execution.
    pub _beside: Option<NearDirectory>,
    /// The duration of a login with a command that does nothing, in seconds.
    pub login_seconds: f64,
    /// Cleans up if this process cannot. It is dropped last.
    pub keeper: CleanupShell,
}

/// Creates a record of something left out, with the reason.
pub(super) fn out(what: &str, why: String) -> LeftOut {
    LeftOut { what: what.to_owned(), why }
}
