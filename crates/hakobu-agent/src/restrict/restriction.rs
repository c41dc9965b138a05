//! The restriction of this process, which is permanent.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use hakobu_core::error::{Error, ErrorKind, Result};
use hakobu_core::path::lossy;
use hakobu_endpoints::local::Confinement;

use super::landlock_rules;
use super::login_restrictions::LoginRestrictions;
use super::resolve::ConfinedDirectory;

/// A restriction of this process.
#[derive(Debug)]
pub struct Restriction {
    pub(super) beneath: ConfinedDirectory,
    pub(super) read_only: bool,
    pub(super) may_connect: bool,
    /// The open paths of the rules. The kernel may drop a rule for a file in `/proc` once nobody has the file open.
    _kept: Vec<OwnedFd>,
}

impl Restriction {
    /// Restricts this process permanently. Relative paths are relative to the directory from now on.
    ///
    /// # Errors
    /// `NotFound` and other I/O errors if the directory cannot be opened, `Refused` if it contains files that would let
    /// a peer lift the restriction, `Unsupported` if this kernel cannot restrict the process. The request must then not
    /// be served.
    pub fn enter(terms: &LoginRestrictions) -> Result<Self> {
        let fail = |error: std::io::Error| {
            Error::io("opening the directory of --restrict", &error)
                .at(terms.path.as_os_str().as_encoded_bytes())
        };
        let beneath = ConfinedDirectory::new(&terms.path)
            .map_err(|error| Error { during: "opening the directory of --restrict".into(), ..error })?;
        if !terms.read_only {
            refuse_keys_to_it(&beneath)?;
        }
        rustix::process::fchdir(beneath.confinement().fd()).map_err(|errno| fail(errno.into()))?;
        let kept = landlock_rules::lock_process(beneath.confinement().fd(), terms)?;
        Ok(Self { beneath, read_only: terms.read_only, may_connect: terms.may_connect, _kept: kept })
    }
}

impl Restriction {
    /// Returns the directory beneath which everything is opened.
    pub(crate) fn confinement(&self) -> &Confinement {
        self.beneath.confinement()
    }
}

/// Refuses a directory in which writing would let a peer lift the restriction: one that contains the account's keys and
/// start-up files, or this program.
fn refuse_keys_to_it(beneath: &ConfinedDirectory) -> Result<()> {
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

/// Returns a path as it is shown to people.
pub(super) fn shown(path: &Path) -> String {
    lossy(path.as_os_str().as_encoded_bytes())
}
