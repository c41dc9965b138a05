//! An agent for one directory: what a key in `authorized_keys` may be held to.
//!
//! The directory is opened once, and all that is done for a peer is done beneath that descriptor, resolved by the kernel
//! without links ([`resolve`]). [`guard`] checks the words of every request, and [`lock`] has the kernel lock the process
//! in before the first of them is read. Where the kernel can do neither, there is no agent.

mod guard;
mod lock;
mod look;
mod original;
mod resolve;

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use hakobu_core::error::{Error, ErrorKind, Result};
use hakobu_core::path::lossy;
use hakobu_endpoints::local::Confinement;

pub(crate) use guard::is_nowhere;
pub use lock::lock_out_of_everything;
use original::FOR_HAKOBU_ALONE;
pub use original::{Asked, asked};
use resolve::Beneath;

/// What a login is held to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Terms {
    /// The directory that it may use, with all that is beneath.
    pub path: PathBuf,
    /// Whether nothing may be written.
    pub read_only: bool,
    /// Whether the agent may connect to other machines.
    pub may_connect: bool,
}

/// What every refusal of a restricted agent begins with, so that the other side knows it for one.
const THIS_LOGIN: &str = "this login ";

/// Whether the words of an error are those of a restricted agent: no other user and no sudo helps, only another key.
#[must_use]
pub fn is_refusal(words: &str) -> bool {
    words.starts_with(THIS_LOGIN)
}

/// Whether a line of a far program's is the refusal of anything but hakobu.
#[must_use]
pub fn is_for_hakobu_alone(line: &str) -> bool {
    // Lines of others may hold names of files, which may say anything.
    line.starts_with("hakobu: ") && line.contains(FOR_HAKOBU_ALONE)
}

/// Terms that hold for this process.
#[derive(Debug)]
pub struct Restriction {
    beneath: Beneath,
    read_only: bool,
    may_connect: bool,
    /// What the rules of the lock stand for. The kernel may forget what a rule of `/proc` was about once nobody has it
    /// open.
    _kept: Vec<OwnedFd>,
}

impl Restriction {
    /// Locks this process in, for good. Paths that do not begin with a slash count from the directory from now on.
    ///
    /// # Errors
    /// `NotFound` and the like when there is no such directory, `Refused` when it holds what the restriction hangs on,
    /// `Unsupported` when this kernel cannot lock. What was asked for must not be served then.
    pub fn enter(terms: &Terms) -> Result<Self> {
        let fail = |error: std::io::Error| {
            Error::io("opening the directory of --restrict", &error)
                .at(terms.path.as_os_str().as_encoded_bytes())
        };
        let beneath = Beneath::new(&terms.path)
            .map_err(|error| Error { during: "opening the directory of --restrict".into(), ..error })?;
        if !terms.read_only {
            refuse_keys_to_it(&beneath)?;
        }
        rustix::process::fchdir(beneath.confinement().fd()).map_err(|errno| fail(errno.into()))?;
        let kept = lock::lock_process(beneath.confinement().fd(), terms)?;
        Ok(Self { beneath, read_only: terms.read_only, may_connect: terms.may_connect, _kept: kept })
    }
}

impl Restriction {
    /// The directory that everything is opened beneath.
    pub(crate) fn confinement(&self) -> &Confinement {
        self.beneath.confinement()
    }
}

/// Refuses a directory to which writing means that the restriction can be lifted: with the account's keys and start-up
/// files in it, or with this program.
fn refuse_keys_to_it(beneath: &Beneath) -> Result<()> {
    let home = std::env::var_os("HOME").map(PathBuf::from);
    let home = home.and_then(|home| std::fs::canonicalize(home).ok());
    let keys = home.as_ref().map(|home| home.join(".ssh")).filter(|keys| beneath.path().starts_with(keys));
    let home = home.filter(|home| beneath.holds(home));
    let program = std::fs::read_link("/proc/self/exe").ok().filter(|program| beneath.holds(program));
    for (found, what) in [
        (home, "the account's home directory"),
        (keys, "what decides who may log in"),
        (program, "this program"),
    ] {
        if let Some(found) = found {
            let words = format!(
                "it holds {what} ({}), and who may write there can lift the restriction; name a directory below, or add \
                 --read-only",
                shown(&found)
            );
            let error = Error::new(ErrorKind::Refused, "restricting the agent to", words);
            return Err(error.at(beneath.path().as_os_str().as_encoded_bytes()));
        }
    }
    Ok(())
}

fn shown(path: &Path) -> String {
    lossy(path.as_os_str().as_encoded_bytes())
}
