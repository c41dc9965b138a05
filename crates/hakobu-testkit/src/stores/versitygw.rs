//! How versitygw is started.

use std::ffi::OsString;
use std::io;
use std::path::Path;

use super::program::{StoreCommand, installed};

/// As `need_stores` installs it.
const PROGRAM: &str = "versitygw-1.8.0/versitygw";
pub(super) const ACCESS_KEY: &str = "test";
pub(super) const SECRET_KEY: &str = "testtest";

pub(super) fn command(
    data: &Path,
    port: u16,
    (access_key, secret_key): (&'static str, &'static str),
) -> io::Result<StoreCommand> {
    let port = format!("127.0.0.1:{port}");
    let words = ["--port", &port, "--region", "us-east-1", "posix"];
    let arguments = words.into_iter().map(OsString::from).chain([data.as_os_str().to_owned()]);
    Ok(StoreCommand {
        program: installed(PROGRAM)?,
        arguments: arguments.collect(),
        environment: vec![("ROOT_ACCESS_KEY", access_key), ("ROOT_SECRET_KEY", secret_key)],
    })
}
