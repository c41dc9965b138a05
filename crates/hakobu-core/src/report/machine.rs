//! The machines that take part in a run, as evidence of where it ran.

use serde::{Deserialize, Serialize};

/// The machines of a run. A role is null if nothing is known of its machine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ReportMachines {
    /// The machine on which the command was started.
    pub controller: Option<ReportMachine>,
    /// The machine that has the source.
    pub source: Option<ReportMachine>,
    /// The machine that has the target.
    pub target: Option<ReportMachine>,
}

/// One machine. Everything but `name` is what the machine itself reported; an SFTP server or a store reports nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ReportMachine {
    /// The name by which the user reached it; null for the machine on which the command was started.
    pub name: Option<String>,
    /// Its own name (`uname -n`).
    pub host: Option<String>,
    /// Its address towards the other machine.
    pub address: Option<String>,
    /// Its kernel and architecture.
    pub system: Option<String>,
    /// The version of hakobu that ran on it.
    pub hakobu: Option<String>,
}
