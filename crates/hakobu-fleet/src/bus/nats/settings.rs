//! The servers of NATS, and the credentials for them.

use std::fs::File;
use std::net::IpAddr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use async_nats::{Auth, ConnectOptions, ServerAddr};
use hakobu_core::error::{Error, ErrorKind, Result};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// The operation that errors name.
const READING: &str = "reading the settings of NATS";
/// The maximum length of a password in bytes.
const PASSWORD_BYTES_MAX: usize = 4096;

/// The servers and credentials, as the user names them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NatsOptions {
    /// The URLs of the servers of one cluster, with commas between them.
    pub servers: String,
    /// The user.
    pub user: Option<String>,
    /// The file with the password. It is read at each connection.
    pub password_file: Option<PathBuf>,
    /// The file with the certificates of the authorities that sign those of the servers. Without it, those of the system.
    pub authorities: Option<PathBuf>,
    /// The file with the client's certificate. It is read at each connection.
    pub certificate: Option<PathBuf>,
    /// The file with its key.
    pub key: Option<PathBuf>,
}

/// Checked servers and credentials.
#[derive(Clone, Debug)]
pub struct NatsSettings {
    servers: Vec<ServerAddr>,
    login: Option<NatsLogin>,
    authorities: Option<PathBuf>,
    identity: Option<(PathBuf, PathBuf)>,
    encrypts: bool,
}

#[derive(Clone, Debug)]
struct NatsLogin {
    user: String,
    password_file: PathBuf,
}

impl NatsOptions {
    /// Checks the options, and that all files can be read.
    ///
    /// # Errors
    /// `Usage`, also for a connection that would not be encrypted; `NotFound` and others for files.
    pub fn check(&self) -> Result<NatsSettings> {
        let servers = self.servers.split(',').map(|url| server(url.trim())).collect::<Result<Vec<_>>>()?;
        let identity = match (self.certificate.clone(), self.key.clone()) {
            (Some(certificate), Some(key)) => Some((certificate, key)),
            (None, None) => None,
            _ => return Err(usage("a client's certificate and its key belong together: name both")),
        };
        let login = match (self.user.clone(), self.password_file.clone()) {
            (Some(user), Some(password_file)) => Some(NatsLogin { user, password_file }),
            (None, None) => None,
            (Some(_), None) => return Err(usage("a user needs a file with the password")),
            (None, Some(_)) => return Err(usage("a password needs a user")),
        };
        let encrypts = self.authorities.is_some() || identity.is_some() || servers.iter().any(is_tls);
        if let Some(server) = servers.iter().find(|server| !encrypts && !is_loopback(server)) {
            let words = format!("the connection to {server} would not be encrypted", server = shown(server));
            let hint = "write tls:// instead of nats://, and name the certificate authority unless the system \
                        trusts it; without encryption only servers on this machine are possible";
            return Err(usage(words).hint(hint));
        }
        if let Some(login) = &login {
            login.password()?;
        }
        if let Some(file) = &self.authorities {
            certificates(file)?;
        }
        if let Some((certificate, key)) = &identity {
            certificates(certificate)?;
            PrivateKeyDer::from_pem_reader(open(key)?)
                .map_err(|error| unreadable(key, "private key", &error))?;
        }
        Ok(NatsSettings { servers, login, authorities: self.authorities.clone(), identity, encrypts })
    }
}

impl NatsSettings {
    /// Returns the servers.
    pub(super) fn servers(&self) -> Vec<ServerAddr> {
        self.servers.clone()
    }

    /// Returns the servers for people.
    pub fn shown(&self) -> String {
        self.servers.iter().map(shown).collect::<Vec<_>>().join(", ")
    }

    /// Returns the options of a connection.
    ///
    /// # Errors
    /// Those of reading the password.
    pub(super) fn connect_options(&self) -> Result<ConnectOptions> {
        let mut options = match &self.login {
            None => ConnectOptions::new(),
            Some(login) => {
                login.password()?;
                let login = login.clone();
                ConnectOptions::with_auth_callback(move |_nonce| {
                    let login = login.clone();
                    async move {
                        let password = login
                            .password()
                            .map_err(|error| async_nats::AuthError::new(error.to_string()))?;
                        let mut auth = Auth::new();
                        auth.username = Some(login.user.clone());
                        auth.password = Some(password);
                        Ok(auth)
                    }
                })
            }
        };
        if let Some(file) = &self.authorities {
            options = options.add_root_certificates(file.clone());
        }
        if let Some((certificate, key)) = &self.identity {
            options = options.add_client_certificate(certificate.clone(), key.clone());
        }
        // Servers that a server names are not used: credentials go where the user said.
        Ok(options.require_tls(self.encrypts).ignore_discovered_servers())
    }
}

impl NatsLogin {
    fn password(&self) -> Result<String> {
        let at = |error: Error| error.at(self.password_file.as_os_str().as_bytes());
        let text = std::fs::read_to_string(&self.password_file);
        let text = text.map_err(|error| at(Error::io("reading the password for NATS", &error)))?;
        let password = text.strip_suffix('\n').unwrap_or(&text);
        let password = password.strip_suffix('\r').unwrap_or(password);
        if password.is_empty() || password.len() > PASSWORD_BYTES_MAX || password.contains('\n') {
            let words = format!("one line with 1 to {PASSWORD_BYTES_MAX} bytes is possible");
            return Err(at(Error::new(ErrorKind::Usage, "reading the password for NATS", words)));
        }
        Ok(password.to_owned())
    }
}

fn server(url: &str) -> Result<ServerAddr> {
    let refused = |words: &str| usage(words).at(without_login(url));
    let with_scheme = match url.split_once("://") {
        None => format!("nats://{url}"),
        Some(("nats" | "tls", _)) => url.to_owned(),
        Some(_) => return Err(refused("the URL of a server of NATS begins with nats:// or tls://")),
    };
    if url.is_empty() {
        return Err(refused("the URL of a server of NATS is missing"));
    }
    let server = with_scheme.parse::<ServerAddr>().map_err(|error| refused(&error.to_string()))?;
    if server.username().is_some() || server.password().is_some() {
        let hint = "others on this machine see the arguments of programs: name the user, and a file with the password";
        return Err(refused("the URL holds credentials").hint(hint));
    }
    Ok(server)
}

/// Returns a URL without what may be credentials.
fn without_login(url: &str) -> String {
    match (url.split_once("://"), url.rsplit_once('@')) {
        (Some((scheme, _)), Some((_, place))) => format!("{scheme}://…@{place}"),
        (None, Some((_, place))) => format!("…@{place}"),
        _ => url.to_owned(),
    }
}

fn is_tls(server: &ServerAddr) -> bool {
    server.scheme() == "tls"
}

fn is_loopback(server: &ServerAddr) -> bool {
    let host = server.host();
    let host = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

fn shown(server: &ServerAddr) -> String {
    format!("{}://{}:{}", server.scheme(), server.host(), server.port())
}

fn certificates(path: &Path) -> Result<()> {
    let mut count = 0;
    for certificate in CertificateDer::pem_reader_iter(open(path)?) {
        certificate.map_err(|error| unreadable(path, "certificate", &error))?;
        count += 1;
    }
    match count {
        0 => Err(usage("no certificate in PEM format is in the file").at(path.as_os_str().as_bytes())),
        _ => Ok(()),
    }
}

fn open(path: &Path) -> Result<std::io::BufReader<File>> {
    let file = File::open(path);
    let file = file.map_err(|error| Error::io(READING, &error).at(path.as_os_str().as_bytes()))?;
    Ok(std::io::BufReader::new(file))
}

fn unreadable(path: &Path, what: &str, error: &dyn std::fmt::Display) -> Error {
    usage(format!("no {what} in PEM format can be read: {error}")).at(path.as_os_str().as_bytes())
}

fn usage(words: impl Into<String>) -> Error {
    Error::new(ErrorKind::Usage, READING, words)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(servers: &str) -> NatsOptions {
        NatsOptions { servers: servers.to_owned(), ..NatsOptions::default() }
    }

    #[test]
    fn only_loopback_goes_without_encryption() {
        for near in [
            "nats://127.0.0.1:4222",
            "localhost",
            "nats://[::1]:4222",
            "nats://127.0.0.1,nats://localhost:4223",
        ] {
            let settings = options(near).check().unwrap();
            assert!(!settings.encrypts, "{near}");
        }
        for far in
            ["nats://10.0.0.1", "nats.example", "nats://localhost,nats://web1", "nats://127.0.0.1.example"]
        {
            let error = options(far).check().unwrap_err();
            assert!(error.detail.contains("encrypted") && error.hint.is_some(), "{far}: {error}");
        }
        for tls in ["tls://nats.example", "tls://a,nats://b"] {
            let settings = options(tls).check().unwrap();
            assert!(settings.encrypts, "{tls}");
        }
        assert_eq!(options("tls://a,b:1").check().unwrap().shown(), "tls://a:4222, nats://b:1");
    }

    #[test]
    fn urls_with_credentials_are_refused_and_not_shown() {
        for url in [
            "nats://user:secret@localhost",
            "user:secret@localhost",
            "http://user:secret@localhost",
            "nats://secret@localhost",
        ] {
            let error = options(url).check().unwrap_err().to_string();
            assert!(!error.contains("secret") && error.contains("localhost"), "{error}");
        }
        assert!(options("").check().is_err() && options("ws://localhost").check().is_err());
    }

    #[test]
    fn files_are_read_when_options_are_checked() {
        let folder = tempfile::tempdir().unwrap();
        let file = |text: &str| {
            let path = folder.path().join("file");
            std::fs::write(&path, text).unwrap();
            path
        };
        let with = |password: &str| {
            let user = Some("control".to_owned());
            NatsOptions { user, password_file: Some(file(password)), ..options("localhost") }.check()
        };
        assert_eq!(with("secret\r\n").unwrap().login.unwrap().password().unwrap(), "secret");
        for wrong in ["", "\n", "a\nb\n"] {
            assert!(with(wrong).is_err(), "{wrong:?}");
        }
        assert!(NatsOptions { user: Some("a".to_owned()), ..options("localhost") }.check().is_err());
        let error =
            NatsOptions { authorities: Some(file("text")), ..options("tls://a") }.check().unwrap_err();
        assert!(error.detail.contains("no certificate"), "{error}");
        assert!(NatsOptions { certificate: Some(file("text")), ..options("tls://a") }.check().is_err());
        let missing = Some(folder.path().join("missing"));
        assert!(NatsOptions { authorities: missing, ..options("tls://a") }.check().is_err());
    }
}
