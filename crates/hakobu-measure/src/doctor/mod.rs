//! Reads the settings of a machine and judges which of them slow transfers down.
//!
//! [`read`] gathers the facts on each machine. [`advise`] judges them where the user is, without I/O. Nothing is
//! changed anywhere.

mod advice;
mod device;
mod disks;
mod limits;
mod mounts;
mod netlink;
mod network;
mod queues;
mod sshd;
mod system_root;
mod tool;

use std::net::IpAddr;
use std::path::Path;

pub use advice::{
    Capacity, ExpectedGain, ExpectedRates, Finding, FindingHost, NetworkPath, SHAPED, Severity, advise,
};
pub use device::{Hardware, NetworkKernel};
use hakobu_core::host::HostFacts;
pub use sshd::SshLogin;
use system_root::SystemRoot;

/// Reads the settings of this machine. `root` is `/`, or a recorded tree in its place. `toward` is the other machine,
/// if there is one, and `login` is the login through ssh that started this process.
///
/// Facts that cannot be read are omitted, and recorded if a login with more rights could read them.
pub fn read(
    root: &Path,
    hardware: &dyn Hardware,
    toward: Option<IpAddr>,
    login: Option<&SshLogin>,
) -> HostFacts {
    let root = SystemRoot::new(root);
    let mut facts = HostFacts::default();
    network::read(&root, hardware, toward, &mut facts);
    device::read(&root, hardware, &mut facts);
    disks::read(&root, &mut facts);
    limits::read(&root, &mut facts);
    sshd::read(&root, login, &mut facts);
    mounts::read(&root, &mut facts);
    facts
}
