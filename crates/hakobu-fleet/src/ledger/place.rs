//! The place of a ledger: a directory of this machine, or a database.

use std::ffi::OsStr;
use std::fmt;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use hakobu_core::error::{Error, ErrorKind, Result};

use super::Ledger;
use super::leadership::Leadership;
use super::postgres::{PostgresLedger, PostgresSettings, mark_restored};
use super::sqlite::{SqliteLedger, backup};
use crate::ids::Moment;

/// The name of the ledger's file in its directory.
pub const LEDGER_FILE: &str = "ledger.sqlite";
/// The permissions of a directory that is made.
const DIRECTORY_MODE: u32 = 0o700;

/// The place of a ledger. None of its forms has a password.
#[derive(Clone, Debug)]
pub enum LedgerPlace {
    /// A directory, for one control plane.
    Directory(PathBuf),
    /// A database of PostgreSQL, for two or more.
    Database(Box<PostgresSettings>),
}

impl LedgerPlace {
    /// Reads the value of `--ledger`: the URL of a database.
    ///
    /// # Errors
    /// Those of [`PostgresSettings::parse`], and `Usage` for anything else. A typing error must not make a ledger of its own.
    pub fn parse(value: &OsStr) -> Result<Self> {
        if !PostgresSettings::is_url(value.as_encoded_bytes()) {
            // It may have a password, so it is not repeated.
            let error = refused("the value of --ledger is no URL that begins with postgres://");
            return Err(error.hint(
                "write --ledger postgres://USER@HOST/DATABASE; a ledger in a folder needs --data FOLDER alone",
            ));
        }
        let url = value.to_str().ok_or_else(|| refused("the URL is not UTF-8"))?;
        PostgresSettings::parse(url).map(|settings| Self::Database(Box::new(settings)))
    }

    /// Opens the ledger, which is made if there is none, and asks for the leadership under the name of this control plane. The
    /// one with a directory has it at once.
    ///
    /// # Errors
    /// Those of [`SqliteLedger::open`] and [`PostgresLedger::open`].
    pub fn open(&self, name: &str) -> Result<(Box<dyn Ledger>, Leadership)> {
        match self {
            Self::Directory(directory) => {
                let made = std::fs::DirBuilder::new().recursive(true).mode(DIRECTORY_MODE).create(directory);
                made.map_err(|error| {
                    Error::io("making the directory of the ledger", &error)
                        .at(directory.as_os_str().as_encoded_bytes())
                })?;
                let ledger = SqliteLedger::open(&directory.join(LEDGER_FILE))?;
                Ok((Box::new(ledger), Leadership::sole()))
            }
            Self::Database(settings) => {
                let mut ledger = PostgresLedger::open(settings)?;
                let leadership = ledger.campaign(name)?;
                Ok((Box::new(ledger), leadership))
            }
        }
    }

    /// Opens the ledger for reading alone.
    ///
    /// # Errors
    /// As for [`LedgerPlace::open`].
    pub fn reader(&self) -> Result<Box<dyn Ledger>> {
        match self {
            Self::Directory(directory) => Ok(Box::new(SqliteLedger::open(&directory.join(LEDGER_FILE))?)),
            Self::Database(settings) => Ok(Box::new(PostgresLedger::open(settings)?)),
        }
    }

    /// Writes a backup of the ledger, which may be in use, to a file that does not exist.
    ///
    /// # Errors
    /// Those of [`backup::back_up_file`], and `Unsupported` for a database, which has tools of its own.
    pub fn back_up(&self, to: &Path) -> Result<()> {
        match self {
            Self::Directory(directory) => backup::back_up_file(&directory.join(LEDGER_FILE), to),
            Self::Database(settings) => {
                let error = Error::new(
                    ErrorKind::Unsupported,
                    "writing the backup of the ledger",
                    "PostgreSQL does that",
                );
                Err(error.at(settings.place()).hint(format!(
                    "use pg_dump --format=custom --file={} \"{}\", or the backups of your server",
                    to.display(),
                    settings.place()
                )))
            }
        }
    }

    /// Makes the ledger from a backup. Leases of the time after the backup have no say in it. Into a database, `pg_restore` has
    /// put the backup before, and there is no file to name.
    ///
    /// # Errors
    /// Those of [`backup::restore`] and of the database, `Usage` if the file is missing or too much.
    pub fn restore(&self, from: Option<&Path>, now: Moment) -> Result<()> {
        match (self, from) {
            (Self::Directory(directory), Some(from)) => {
                backup::restore(from, &directory.join(LEDGER_FILE), now)
            }
            (Self::Directory(_), None) => Err(refused("the file with the backup is not named")),
            (Self::Database(settings), None) => mark_restored(settings, now),
            (Self::Database(settings), Some(_)) => {
                let error =
                    Error::new(ErrorKind::Usage, "restoring the ledger", "PostgreSQL restores its backups");
                Err(error.at(settings.place()).hint("use pg_restore first, and then --restore -"))
            }
        }
    }
}

impl fmt::Display for LedgerPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Directory(directory) => directory.display().fmt(f),
            Self::Database(settings) => f.write_str(settings.place()),
        }
    }
}

fn refused(detail: &'static str) -> Error {
    Error::new(ErrorKind::Usage, "reading the place of the ledger", detail)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_url_of_a_database_can_be_named() {
        let parse = |value: &str| LedgerPlace::parse(OsStr::new(value));
        let database = parse("postgresql://joe@h/d").unwrap();
        assert_eq!(database.to_string(), "postgres://joe@h:5432/d");
        for wrong in ["mysql://joe:sesame@h/d", "postgres:/joe:sesame@h/d", "Postgres://h/d", "/srv/x", ""] {
            let error = parse(wrong).unwrap_err();
            assert_eq!(error.kind, ErrorKind::Usage, "{wrong}");
            let words = error.to_string();
            assert!(words.contains("postgres://USER@HOST/DATABASE") && !words.contains("sesame"), "{words}");
        }
        let error = database.back_up(Path::new("/b")).unwrap_err().to_string();
        assert!(error.contains("pg_dump") && !error.contains("sesame"), "{error}");
    }

    #[test]
    fn a_directory_is_made_and_its_ledger_leads() {
        let folder = tempfile::tempdir().unwrap();
        let place = LedgerPlace::Directory(folder.path().join("a/b"));
        let (mut ledger, leadership) = place.open("one").unwrap();
        assert!(leadership.view().is_leading() && ledger.open_runs().unwrap().is_empty());
        place.back_up(&folder.path().join("copy")).unwrap();
        let other = LedgerPlace::Directory(folder.path().to_owned());
        other.restore(Some(&folder.path().join("copy")), Moment::new(9).unwrap()).unwrap();
        assert!(folder.path().join(LEDGER_FILE).exists());
    }
}
