//! The request of `digest`.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;

use hakobu_agent::stream::named_source;
use hakobu_core::digest::Algorithm;
use hakobu_core::error::Error;
use hakobu_core::location::Location;
use hakobu_core::request::CopyRequest;

use super::findings::Findings;
use crate::arguments::digest::DigestArguments;
use crate::settings_file::name_places;

/// The answer to `-` where nothing is written to it.
const NO_INPUT: &str = "hakobu digest does not read standard input in this version; b3sum and sha256sum do. A file named - is ./-";

/// The request that the arguments of `digest` stand for.
///
/// # Errors
/// As [`super::request`].
pub fn digest_request(
    typed: &DigestArguments,
    environment_ssh: Option<OsString>,
) -> Result<CopyRequest, Vec<Error>> {
    let mut found = Findings::default();
    let location = found.keep(Location::parse(typed.location.as_bytes()));
    let location = location.map(named_source).unwrap_or_default();
    let algorithm = Algorithm::from_name(&typed.algorithm).unwrap_or_default();
    if location.is_stream() {
        found.usage("-", NO_INPUT);
    }
    let mut request = hakobu_transfer::digest::request(location, algorithm);
    request.live = typed.live;
    request.skip_unreadable = typed.on_read_error == "skip";
    found.login(&typed.login, environment_ssh, &mut request);
    name_places(&mut found.errors, &typed.login.from_files);
    found.or(request)
}
