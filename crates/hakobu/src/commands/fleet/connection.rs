//! The control plane that a command asks: from options, the environment, or the last login.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use hakobu_agent::machine;
use hakobu_core::error::{Error, ErrorKind, Result};
use hakobu_fleet::client::FleetClient;
use hakobu_fleet::secret_bytes::SecretBytes;
use serde::{Deserialize, Serialize};

use super::arguments::FleetConnection;

/// The maximum length of a file with a token or certificates in bytes.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// The variables of the environment.
const URL_VARIABLE: &str = "HAKOBU_FLEET_URL";
const TOKEN_VARIABLE: &str = "HAKOBU_FLEET_TOKEN";

/// The last login.
#[derive(Serialize, Deserialize)]
pub(super) struct FleetLogin {
    pub server: String,
    pub token: String,
    #[serde(default)]
    pub tls_ca: Option<PathBuf>,
}

impl FleetConnection {
    /// Returns a client of the control plane.
    ///
    /// # Errors
    /// `Usage` if nothing names it, or there is no token for it, and those of files.
    pub fn client(&self) -> Result<FleetClient> {
        let kept = FleetLogin::load()?;
        let variable = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
        let named = self.server.clone().or_else(|| variable(URL_VARIABLE));
        let server = named.clone().or_else(|| kept.as_ref().map(|kept| kept.server.clone()));
        let Some(server) = server else {
            let error = Error::new(ErrorKind::Usage, "looking for the control plane", "nothing names it");
            return Err(error.hint("use hakobu fleet login URL, --server URL, or HAKOBU_FLEET_URL"));
        };
        // The token of a login is for its server alone.
        let kept = kept.filter(|kept| kept.server == server.trim_end_matches('/'));
        let token = match (&self.token_file, variable(TOKEN_VARIABLE)) {
            (Some(file), _) => token_in(&read_file(file)?),
            (None, Some(token)) => SecretBytes::new(token.into_bytes()),
            (None, None) => {
                SecretBytes::new(kept.as_ref().map(|kept| kept.token.clone()).unwrap_or_default().into())
            }
        };
        let authorities = self.tls_ca.as_ref().or(kept.as_ref().and_then(|kept| kept.tls_ca.as_ref()));
        let authorities = authorities.map(|file| read_file(file)).transpose()?;
        let has_token = !token.expose().is_empty();
        let client = FleetClient::new(&server, token, authorities.as_deref())?;
        if !has_token {
            let error = Error::new(ErrorKind::Usage, "asking the control plane", "there is no token for it");
            let hint = format!("use hakobu fleet login {server}, --token-file FILE, or HAKOBU_FLEET_TOKEN");
            return Err(error.at(server).hint(hint));
        }
        Ok(client)
    }
}

/// Returns the token that a file contains, without the end of its line.
pub(super) fn token_in(bytes: &[u8]) -> SecretBytes {
    SecretBytes::new(bytes.trim_ascii().to_vec())
}

/// Reads a short file.
///
/// # Errors
/// Those of the file.
pub(super) fn read_file(path: &Path) -> Result<Vec<u8>> {
    let io = |error: std::io::Error| Error::io("reading the file", &error).at(path.as_os_str().as_bytes());
    let length = std::fs::metadata(path).map_err(io)?.len();
    if length > FILE_BYTES_MAX {
        let error = Error::new(ErrorKind::Usage, "reading the file", "it is too long");
        return Err(error.at(path.as_os_str().as_bytes()));
    }
    std::fs::read(path).map_err(io)
}

impl FleetLogin {
    fn path() -> Option<PathBuf> {
        machine::state_directory().map(|state| state.path().join("fleet-login.json"))
    }

    /// Returns the last login; none if there was none.
    fn load() -> Result<Option<Self>> {
        let Some(path) = Self::path().filter(|path| path.exists()) else { return Ok(None) };
        serde_json::from_slice(&read_file(&path)?).map(Some).map_err(|error| {
            Error::new(ErrorKind::Usage, "reading the login", error.to_string())
                .at(path.as_os_str().as_bytes())
                .hint("use hakobu fleet login URL again")
        })
    }

    /// Keeps a login, for its owner alone.
    ///
    /// # Errors
    /// Those of the file.
    pub fn save(&self) -> Result<PathBuf> {
        use std::io::Write;
        use std::os::unix::fs::OpenOptionsExt;
        let none = || Error::new(ErrorKind::Usage, "keeping the login", "there is no home directory");
        let path = Self::path().ok_or_else(none)?;
        let io =
            |error: std::io::Error| Error::io("keeping the login", &error).at(path.as_os_str().as_bytes());
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder).map_err(io)?;
        }
        let json = serde_json::to_vec(self).map_err(|error| io(error.into()))?;
        let new = path.with_extension("new");
        let _was_left = std::fs::remove_file(&new);
        let file = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new);
        let written = file.and_then(|mut file| file.write_all(&json).and_then(|()| file.sync_all()));
        written.and_then(|()| std::fs::rename(&new, &path)).map_err(io)?;
        Ok(path)
    }
}
