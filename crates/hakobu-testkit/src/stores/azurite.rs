//! How Azurite is started, and its containers are made.

use std::io;
use std::path::Path;

use super::program::{StoreCommand, installed};

/// As `need_stores` installs it.
const NODE: &str = "azurite-3.37.0/node";
const MAIN: &str = "azurite-3.37.0/node_modules/azurite/dist/src/blob/main.js";
/// The account that every emulator has, and its key.
pub(super) const ACCOUNT: &str = "devstoreaccount1";
pub(super) const KEY: &str =
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";

pub(super) fn command(data: &Path, port: u16) -> io::Result<StoreCommand> {
    let port = port.to_string();
    let mut arguments = vec![installed(MAIN)?.into_os_string()];
    let words = ["--blobHost", "127.0.0.1", "--blobPort", &port, "--skipApiVersionCheck", "--silent", "-l"];
    arguments.extend(words.map(Into::into));
    arguments.push(data.as_os_str().to_owned());
    Ok(StoreCommand { program: installed(NODE)?, arguments, environment: Vec::new() })
}

/// A shared access signature of that account with all rights, valid until the year 2099.
pub(super) const ALL_RIGHTS: &str = "sv=2021-12-02&ss=b&srt=sco&sp=rwdlac&se=2099-01-01T00%3A00%3A00Z&spr=https%2Chttp\
    &sig=jlSI%2B5DohmjtlB2oCr2Vhd9u7l%2F%2FvB9E8D7vhfmKGX4%3D";
/// One for reading and listing.
pub(super) const READING: &str = "sv=2021-12-02&ss=b&srt=sco&sp=rl&se=2099-01-01T00%3A00%3A00Z&spr=https%2Chttp\
    &sig=o8256hF4M%2F9fWSdJ3Nkh3S7OjikYg5Vm2iCbYIZWBJg%3D";
/// One with all rights that ended in the year 2020.
pub(super) const EXPIRED: &str = "sv=2021-12-02&ss=b&srt=sco&sp=rwdlac&se=2020-01-01T00%3A00%3A00Z&spr=https%2Chttp\
    &sig=co3goPa1b4z5UhprfvnaLAJDbxHIpvhP8TP5As4kSs0%3D";
