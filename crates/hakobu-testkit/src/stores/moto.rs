//! How moto is started.

use std::io;
use std::path::Path;

use super::program::{StoreCommand, installed};

/// As `need_stores` installs it.
const PROGRAM: &str = "moto-5.2.5/bin/moto_server";

pub(super) fn command(_: &Path, port: u16) -> io::Result<StoreCommand> {
    let port = port.to_string();
    let arguments = ["-H", "127.0.0.1", "-p", &port].map(Into::into).to_vec();
    Ok(StoreCommand { program: installed(PROGRAM)?, arguments, environment: Vec::new() })
}
