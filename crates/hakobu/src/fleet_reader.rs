//! Reads the request of a fleet's run as the command line is read.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use hakobu_core::error::{Error, ErrorKind, Result};
use hakobu_core::request::CopyRequest;
use hakobu_fleet::run_request::{FleetRequest, RequestReader};

use crate::cli::{self, Cli};
use crate::commands::copy::request::request;

/// Reads requests with the parser of the command line.
pub struct FleetReader;

impl RequestReader for FleetReader {
    fn read(&self, wanted: &FleetRequest) -> Result<CopyRequest> {
        let wrong = |words: String| Error::new(ErrorKind::Usage, "reading the request of a run", words);
        let mut line: Vec<OsString> = vec!["hakobu".into(), wanted.verb.name().into()];
        line.extend(wanted.arguments.iter().map(OsString::from));
        line.push("--".into());
        line.extend(
            wanted.sources.iter().chain([&wanted.target]).map(|text| OsStr::from_bytes(&text.0).to_owned()),
        );
        let parsed =
            <Cli as clap::Parser>::try_parse_from(&line).map_err(|error| wrong(error.to_string()))?;
        let (typed, mode) = cli::moved_by(parsed.verb).ok_or_else(|| wrong("it is no copy".to_owned()))?;
        let mut request = request(&typed, mode, None)
            .map_err(|errors| errors.into_iter().next().unwrap_or_else(|| wrong("it is wrong".to_owned())))?;
        request.unattended = true;
        Ok(request)
    }
}
