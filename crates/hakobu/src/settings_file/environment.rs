//! Options from the environment.

use std::ffi::OsString;

use super::keywords::Keyword;

/// The variable that has the ssh to log in with.
pub(crate) const SSH_VARIABLE: &str = "HAKOBU_SSH";

/// Returns the value from the environment.
pub(crate) fn environment(keyword: &Keyword) -> Option<OsString> {
    if keyword.name == "ssh" { ssh_variable() } else { None }
}

/// Returns the value of [`SSH_VARIABLE`].
pub(crate) fn ssh_variable() -> Option<OsString> {
    std::env::var_os(SSH_VARIABLE).filter(|value| !value.is_empty())
}
