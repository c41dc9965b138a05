//! Options from the environment.

use std::ffi::OsString;

use super::keywords::Keyword;

/// The variable that has the ssh to log in with.
pub(crate) const SSH_VARIABLE: &str = "HAKOBU_SSH";

/// What the environment says.
pub(crate) fn environment(keyword: &Keyword) -> Option<OsString> {
    if keyword.name == "ssh" { ssh_variable() } else { None }
}

/// What [`SSH_VARIABLE`] says.
pub(crate) fn ssh_variable() -> Option<OsString> {
    std::env::var_os(SSH_VARIABLE).filter(|value| !value.is_empty())
}
