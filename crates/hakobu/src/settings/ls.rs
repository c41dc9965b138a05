//! The request of `ls`.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;

use hakobu_core::error::Error;
use hakobu_core::location::Location;
use hakobu_transfer::list::ListRequest;

use super::findings::Findings;
use crate::arguments::ls::LsArguments;
use crate::settings_file::name_places;

/// The request that the arguments of `ls` stand for.
///
/// # Errors
/// `Usage` for each value that is wrong.
pub fn ls_request(typed: &LsArguments, environment_ssh: Option<OsString>) -> Result<ListRequest, Vec<Error>> {
    let mut found = Findings::default();
    let location = found.keep(Location::parse(typed.location.as_bytes())).unwrap_or_default();
    let name = location.to_string();
    if location.is_stream() {
        found.usage(&name, "a stream has no entries; a file named - is ./-");
    }
    if location.rsync_host().is_some() {
        found.usage(
            &name,
            "hakobu ls does not list rsync daemons in this version; rsync without a target does",
        );
    }
    let mut request = ListRequest::new(location);
    (request.recursive, request.names) = (typed.recursive, typed.long || typed.json);
    found.login(&typed.login, environment_ssh, &mut request.copy);
    name_places(&mut found.errors, &typed.login.from_files);
    found.or(request)
}
