//! Where settings files are, and whose word is taken.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use crate::settings_file::host_settings::{FILE_BYTES_MAX, HostSettings, RunHosts};
use hakobu_core::error::{Error, ErrorKind};
use rustix::fs::OFlags;

use super::checker::Checker;
use super::from_file::FromFile;
use super::keywords::{KEYWORDS, Keyword};

/// The file of the administrator.
const OF_SYSTEM: &str = "/etc/hakobu/config.toml";
/// The settings file of a user, below the configuration directory of the user.
const OF_USER: &str = "hakobu/config.toml";
/// The variable that names another file.
const VARIABLE: &str = "HAKOBU_SETTINGS";
/// Takes no file.
const NONE: [&str; 2] = ["none", "/dev/null"];
/// The mode bits that let others than the owner write.
const OTHERS_WRITE: u32 = 0o022;
const READING: &str = "reading the settings in";

/// The settings files that there are, in the order in which they count.
pub(crate) struct SettingsFiles {
    pub read: Vec<(PathBuf, HostSettings)>,
    /// Where there could be one.
    pub missing: Vec<PathBuf>,
}

impl SettingsFiles {
    /// Reads the file that was `named`, or that the environment names, or those in the usual places.
    ///
    /// # Errors
    /// As [`super::settle`].
    pub fn read(named: Option<&Path>) -> Result<Self, Vec<Error>> {
        let variable = std::env::var_os(VARIABLE).filter(|value| !value.is_empty()).map(PathBuf::from);
        let mut files = Self { read: Vec::new(), missing: Vec::new() };
        match named.map(Path::to_owned).or(variable) {
            Some(file) if NONE.iter().any(|none| file == Path::new(none)) => {}
            Some(file) => files.read.extend(read(&file, true)?.map(|settings| (file, settings))),
            None => {
                for file in usual_places() {
                    match read(&file, false)? {
                        Some(settings) => files.read.push((file, settings)),
                        None => {
                            refuse_former(&file)?;
                            files.missing.push(file);
                        }
                    }
                }
            }
        }
        Ok(files)
    }

    /// The value of a keyword for a run: the first one.
    pub fn first(&self, keyword: &Keyword, run: &RunHosts) -> Option<FromFile> {
        self.read.iter().find_map(|(file, settings)| {
            let found = settings.of(run).find(|setting| setting.keyword == keyword.name)?;
            let place = format!("{}:{}", file.display(), found.line);
            Some(FromFile { keyword: found.keyword, value: found.value.clone(), place })
        })
    }
}

/// The user's file, which counts more, and the administrator's.
fn usual_places() -> Vec<PathBuf> {
    let absolute = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let of_user = absolute("XDG_CONFIG_HOME").or_else(|| Some(absolute("HOME")?.join(".config")));
    of_user.map(|place| place.join(OF_USER)).into_iter().chain([PathBuf::from(OF_SYSTEM)]).collect()
}

/// Refuses to run without the settings of a file in the format of versions before 0.2.
fn refuse_former(file: &Path) -> Result<(), Vec<Error>> {
    let former = file.with_extension("");
    if std::fs::symlink_metadata(&former).is_err() {
        return Ok(());
    }
    let words = format!("settings are TOML now: rewrite it as {} and remove it", file.display());
    let error = Error::new(ErrorKind::Usage, READING, words).at(former.as_os_str().as_encoded_bytes());
    Err(vec![error.hint("hakobu settings --help shows the format")])
}

/// Reads one file. `None`: there is none, and nobody said there was.
fn read(file: &Path, is_named: bool) -> Result<Option<HostSettings>, Vec<Error>> {
    let place = || file.as_os_str().as_encoded_bytes();
    let failed = |error: &std::io::Error| vec![Error::io(READING, error).at(place())];
    // Something else in its place is not waited for.
    let flags = i32::try_from(OFlags::NONBLOCK.bits()).unwrap_or_default();
    let opened = match File::options().read(true).custom_flags(flags).open(file) {
        Ok(opened) => opened,
        // Where its directory is closed to us there is none for us.
        Err(_) if !is_named && std::fs::metadata(file).is_err() => return Ok(None),
        Err(error) => return Err(failed(&error)),
    };
    check_owner(&opened).map_err(|error| vec![error.at(place())])?;
    let mut bytes = Vec::new();
    opened.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(|error| failed(&error))?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        let words = format!("it is longer than {FILE_BYTES_MAX} bytes");
        return Err(vec![Error::new(ErrorKind::Usage, READING, words).at(place())]);
    }
    parse(file, &bytes).map(Some)
}

/// Settings name commands that are run, so everyone who can write them can run anything.
fn check_owner(file: &File) -> Result<(), Error> {
    let found = file.metadata().map_err(|error| Error::io(READING, &error))?;
    let refused = |words: &str| Err(Error::new(ErrorKind::Refused, READING, words));
    if !found.is_file() {
        return Err(Error::new(ErrorKind::Usage, READING, "it is no regular file"));
    }
    if found.uid() != 0 && found.uid() != rustix::process::geteuid().as_raw() {
        return refused(
            "it belongs to another user, who could have any command run; it has to be yours or root's",
        );
    }
    if found.mode() & OTHERS_WRITE != 0 {
        return refused("others may write to it, and could have any command run; chmod go-w");
    }
    Ok(())
}

/// Reads the settings in a file, and checks each value, also those for other hosts.
fn parse(file: &Path, bytes: &[u8]) -> Result<HostSettings, Vec<Error>> {
    let wrong = |line: usize, column: usize, words: String| {
        let at = format!("{}:{line}:{column}", file.display());
        Error::new(ErrorKind::Usage, READING, words).at(at)
    };
    let known = KEYWORDS.each_ref().map(|keyword| keyword.name);
    let settings = HostSettings::parse(bytes, &known)
        .map_err(|error| vec![wrong(error.line, error.column, error.words)])?;
    let (mut checker, mut errors) = (None, Vec::new());
    for setting in settings.all() {
        let Some(keyword) = KEYWORDS.iter().find(|keyword| keyword.name == setting.keyword) else { continue };
        let checked = checker.get_or_insert_with(Checker::new).check(keyword, &setting.value);
        if let Err((at, words)) = checked {
            // A timetable's faults are quoted already.
            let words = match words.contains('"') {
                true => words,
                false => format!("{words}; this is {:?}", setting.value),
            };
            errors.push(wrong(setting.line, setting.column + at, format!("{}: {words}", keyword.name)));
        }
    }
    if errors.is_empty() { Ok(settings) } else { Err(errors) }
}
