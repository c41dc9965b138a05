//! How fake-gcs-server is started.

use std::io;
use std::path::Path;

use super::program::{StoreCommand, installed};

/// As `need_stores` installs it.
const PROGRAM: &str = "fake-gcs-server-0.1.1/fake-gcs-server";

pub(super) fn command(_: &Path, port: u16) -> io::Result<StoreCommand> {
    let (address, port) = (format!("127.0.0.1:{port}"), port.to_string());
    let url = format!("http://{address}");
    let words = [
        "-scheme",
        "http",
        "-host",
        "127.0.0.1",
        "-port",
        &port,
        "-backend",
        "memory",
        "-public-host",
        &address,
        "-external-url",
        &url,
    ];
    let arguments = words.map(Into::into).to_vec();
    // It changes the metadata of an object while it writes them into another answer, which ends a Go program ("concurrent
    // map iteration and map write") if the two run on different processors.
    let environment = vec![("GOMAXPROCS", "1")];
    Ok(StoreCommand { program: installed(PROGRAM)?, arguments, environment })
}
