//! The URL of a ledger in PostgreSQL, as `psql` takes it, and the files that it refers to.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use hakobu_core::error::{Error, ErrorKind, Result};
use rustls::ClientConfig;
use tokio_postgres::Config;
use tokio_postgres::config::Host;

use super::tls::{TlsFiles, client_config};
use crate::private_file::is_open_to_others;

const DURING: &str = "reading the URL of the ledger";
/// The parameters that the library knows and a ledger may have.
const PASSED_ON: [&str; 11] = [
    "user",
    "password",
    "dbname",
    "options",
    "host",
    "hostaddr",
    "port",
    "connect_timeout",
    "target_session_attrs",
    "load_balance_hosts",
    "channel_binding",
];
/// The folder of the server's socket, where Debian and most others have it.
const SOCKETS: &str = "/var/run/postgresql";
const CONNECT_LIMIT: Duration = Duration::from_secs(3);
/// The time after which both ends give a silent connection up: so a leader that is cut off does not keep its locks.
const USER_TIMEOUT: Duration = Duration::from_secs(5);
/// Settings of each session, so that no file of the server needs a change. They limit how long a stopped control plane keeps locks.
const SESSION: &str = "-c tcp_keepalives_idle=2 -c tcp_keepalives_interval=1 -c tcp_keepalives_count=3 \
     -c tcp_user_timeout=5000 -c idle_in_transaction_session_timeout=5000 -c lock_timeout=8000 \
     -c client_min_messages=warning";

/// The server and the database of a ledger. Neither its `Debug` form nor errors have the password.
#[derive(Clone, Debug)]
pub struct PostgresSettings {
    pub(super) config: Config,
    pub(super) tls: Option<Arc<ClientConfig>>,
    place: String,
}

/// The parts of the URL that the library does not know.
#[derive(Debug, Default)]
struct OwnParameters {
    mode: Option<String>,
    roots: Option<String>,
    certificate: Option<String>,
    key: Option<String>,
    password_file: Option<String>,
}

impl PostgresSettings {
    /// Returns true if a value of `--ledger` is the URL of a database, not a directory.
    pub fn is_url(value: &[u8]) -> bool {
        value.starts_with(b"postgres://") || value.starts_with(b"postgresql://")
    }

    /// Reads a URL without a password, which is from `PGPASSWORD`, or from the file that `passfile` or `PGPASSFILE` names, or
    /// from `~/.pgpass`.
    ///
    /// # Errors
    /// `Usage` if it is malformed, has a password, or asks for something that is not possible, and those of reading the files.
    pub fn parse(url: &str) -> Result<Self> {
        Self::parse_with(url, &|name| std::env::var_os(name))
    }

    fn parse_with(url: &str, variable: &dyn Fn(&str) -> Option<OsString>) -> Result<Self> {
        let (own, rest) = split(url)?;
        // The words of the library may repeat a part of the URL, and so of a password.
        let mut config: Config = rest.parse().map_err(|_| {
            refused("it is malformed").hint(
                "postgres://USER@HOST:PORT/DATABASE is its form; \
                 \"@\", \":\", \"/\" and \"?\" in names are written %40, %3A, %2F and %3F",
            )
        })?;
        if config.get_password().is_some() {
            return Err(refused("the URL holds a password").hint(
                "others on this machine see the arguments of programs: write the password into ~/.pgpass, into a file that \
                 PGPASSFILE or passfile= names, or into PGPASSWORD",
            ));
        }
        if config.get_hosts().is_empty() && config.get_hostaddrs().is_empty() {
            config.host_path(SOCKETS);
        }
        let home = variable("HOME").map(PathBuf::from);
        if let Some(password) = password(&config, &own, home.as_deref(), variable)? {
            config.password(password);
        }
        let tls = if wants_tls(&own, is_local(&config))? {
            config.ssl_mode(tokio_postgres::config::SslMode::Require);
            Some(client_config(&files(&own, home.as_deref())?)?)
        } else {
            config.ssl_mode(tokio_postgres::config::SslMode::Disable);
            None
        };
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(CONNECT_LIMIT);
        }
        config
            .keepalives_idle(Duration::from_secs(2))
            .keepalives_interval(Duration::from_secs(1))
            .keepalives_retries(3)
            .tcp_user_timeout(USER_TIMEOUT);
        let options = match config.get_options() {
            Some(options) => format!("{SESSION} {options}"),
            None => SESSION.to_owned(),
        };
        config.options(options);
        let place = place(&config);
        Ok(Self { config, tls, place })
    }

    /// Returns the place for errors and logs: the URL without password and parameters.
    pub fn place(&self) -> &str {
        &self.place
    }
}

fn refused(detail: impl Into<String>) -> Error {
    Error::new(ErrorKind::Usage, DURING, detail)
}

/// Takes the parameters out of a URL that the library does not know.
fn split(url: &str) -> Result<(OwnParameters, String)> {
    let mut own = OwnParameters::default();
    let Some((before, query)) = url.split_once('?') else { return Ok((own, url.to_owned())) };
    let mut rest = Vec::new();
    for parameter in query.split('&').filter(|parameter| !parameter.is_empty()) {
        let (key, value) = parameter.split_once('=').unwrap_or((parameter, ""));
        let slot = match key {
            "sslmode" => &mut own.mode,
            "sslrootcert" => &mut own.roots,
            "sslcert" => &mut own.certificate,
            "sslkey" => &mut own.key,
            "passfile" => &mut own.password_file,
            key if PASSED_ON.contains(&key) => {
                rest.push(parameter);
                continue;
            }
            // Anything else may be the rest of a password with a "?".
            key if key.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_') && value.is_empty() => {
                return Err(refused("it is malformed behind \"?\""));
            }
            key if key.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_') => {
                return Err(refused(format!("the parameter \"{key}\" is not known")));
            }
            _ => return Err(refused("it is malformed behind \"?\"")),
        };
        *slot = Some(decoded(value)?);
    }
    let rest = if rest.is_empty() { before.to_owned() } else { format!("{before}?{}", rest.join("&")) };
    Ok((own, rest))
}

/// Decodes percent signs.
fn decoded(value: &str) -> Result<String> {
    let mut bytes = Vec::with_capacity(value.len());
    let mut rest = value.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let mut digit = || rest.next().and_then(|digit| char::from(digit).to_digit(16));
        match (digit(), digit()) {
            (Some(high), Some(low)) => bytes.push(u8::try_from(high * 16 + low).unwrap_or_default()),
            _ => return Err(refused("a \"%\" is not followed by two digits")),
        }
    }
    String::from_utf8(bytes).map_err(|_| refused("a parameter is not UTF-8"))
}

/// Returns true if all hosts are this machine.
fn is_local(config: &Config) -> bool {
    let is_loopback = |name: &str| {
        name == "localhost" || name.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
    };
    let addresses = config.get_hostaddrs();
    if !addresses.is_empty() {
        return addresses.iter().all(std::net::IpAddr::is_loopback);
    }
    config.get_hosts().iter().all(|host| match host {
        Host::Tcp(name) => is_loopback(name),
        Host::Unix(_) => true,
    })
}

fn wants_tls(own: &OwnParameters, is_local: bool) -> Result<bool> {
    match own.mode.as_deref() {
        None => Ok(!is_local),
        Some("disable") => Ok(false),
        // Stricter than the word: encryption to whoever answers would protect nothing.
        Some("require" | "verify-full") => Ok(true),
        Some(other @ ("allow" | "prefer" | "verify-ca")) => {
            Err(refused(format!("sslmode={other} leaves open whom it connects to"))
                .hint("use sslmode=verify-full, with sslrootcert=FILE for an authority of your own"))
        }
        Some(_) => Err(refused("sslmode is none of disable, require and verify-full")),
    }
}

fn files(own: &OwnParameters, home: Option<&Path>) -> Result<TlsFiles> {
    let roots = match own.roots.as_deref() {
        Some("system") => None,
        Some(file) => Some(PathBuf::from(file)),
        None => home.map(|home| home.join(".postgresql/root.crt")).filter(|file| file.exists()),
    };
    let own = match (&own.certificate, &own.key) {
        (Some(certificate), Some(key)) => Some((certificate.into(), key.into())),
        (None, None) => None,
        _ => return Err(refused("sslcert and sslkey belong together")),
    };
    Ok(TlsFiles { roots, own })
}

/// Returns the password.
fn password(
    config: &Config,
    own: &OwnParameters,
    home: Option<&Path>,
    variable: &dyn Fn(&str) -> Option<OsString>,
) -> Result<Option<String>> {
    if let Some(password) = variable("PGPASSWORD").filter(|_| own.password_file.is_none()) {
        let password = password.into_string();
        return password.map(Some).map_err(|_| refused("PGPASSWORD is not UTF-8"));
    }
    let named =
        own.password_file.as_ref().map(PathBuf::from).or_else(|| variable("PGPASSFILE").map(PathBuf::from));
    let is_named = named.is_some();
    let Some(file) = named.or_else(|| home.map(|home| home.join(".pgpass"))) else { return Ok(None) };
    let failed = |error: std::io::Error| {
        Error::io("reading the password file of the ledger", &error).at(file.as_os_str().as_encoded_bytes())
    };
    let text = match fs::read_to_string(&file) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound && !is_named => return Ok(None),
        Err(error) => return Err(failed(error)),
    };
    let mode = fs::metadata(&file).map_err(failed)?.permissions().mode();
    if is_open_to_others(&file, mode) {
        let error = Error::new(ErrorKind::Usage, DURING, "others may read the password file");
        return Err(error.at(file.as_os_str().as_encoded_bytes()).hint("chmod 600 makes it yours alone"));
    }
    let (host, port) = first_host(config);
    let user = config.get_user().unwrap_or_default();
    let wanted = [&host[..], &port, config.get_dbname().unwrap_or(user), user];
    Ok(text.lines().find_map(|line| password_of(line, wanted)))
}

fn first_host(config: &Config) -> (String, String) {
    let host = match config.get_hosts().first() {
        Some(Host::Tcp(name)) => name.clone(),
        Some(Host::Unix(_)) => "localhost".to_owned(),
        None => config.get_hostaddrs().first().map(ToString::to_string).unwrap_or_default(),
    };
    (host, config.get_ports().first().unwrap_or(&5432).to_string())
}

/// Returns the password of a line `host:port:database:user:password` if it is for this connection.
fn password_of(line: &str, wanted: [&str; 4]) -> Option<String> {
    if line.starts_with('#') {
        return None;
    }
    let (mut fields, mut field) = (Vec::new(), String::new());
    let mut letters = line.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '\\' => field.extend(letters.next()),
            ':' if fields.len() < 4 => fields.push(std::mem::take(&mut field)),
            letter => field.push(letter),
        }
    }
    let is_for =
        fields.len() == 4 && fields.iter().zip(wanted).all(|(field, wanted)| field == "*" || field == wanted);
    is_for.then_some(field)
}

fn place(config: &Config) -> String {
    let mut place = "postgres://".to_owned();
    if let Some(user) = config.get_user() {
        place.extend([user, "@"]);
    }
    let hosts: Vec<String> = match config.get_hosts() {
        [] => config.get_hostaddrs().iter().map(ToString::to_string).collect(),
        hosts => hosts
            .iter()
            .map(|host| match host {
                Host::Tcp(name) => name.clone(),
                Host::Unix(folder) => folder.display().to_string(),
            })
            .collect(),
    };
    place.push_str(&hosts.join(","));
    if let [port] = config.get_ports() {
        place.push_str(&format!(":{port}"));
    }
    if let Some(database) = config.get_dbname() {
        place.extend(["/", database]);
    }
    place
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(url: &str) -> Result<PostgresSettings> {
        PostgresSettings::parse_with(url, &|_| None)
    }

    #[test]
    fn tls_is_the_rule_but_on_this_machine() {
        for local in [
            "postgres://u@localhost/d",
            "postgres://u@127.0.0.1:5432/d",
            "postgres://u@[::1]/d",
            "postgres:///d",
        ] {
            assert!(parse(local).unwrap().tls.is_none(), "{local}");
        }
        for away in [
            "postgresql://u@db.example/d",
            "postgres://u@localhost,db.example/d",
            "postgres://u@db/d?sslmode=require",
        ] {
            assert!(parse(away).unwrap().tls.is_some(), "{away}");
        }
        assert!(parse("postgres://u@db/d?sslmode=disable").unwrap().tls.is_none());
        for open in ["prefer", "allow", "verify-ca", "x"] {
            assert_eq!(
                parse(&format!("postgres://u@db/d?sslmode={open}")).unwrap_err().kind,
                ErrorKind::Usage
            );
        }
    }

    #[test]
    fn no_form_shows_a_password() {
        let url = "postgres://joe@h:77/d?options=-csearch_path%3Dx";
        let variable = |name: &str| (name == "PGPASSWORD").then(|| "sesame".into());
        let settings = PostgresSettings::parse_with(url, &variable).unwrap();
        assert_eq!(settings.place(), "postgres://joe@h:77/d");
        assert!(!format!("{settings:?}").contains("same"), "{settings:?}");
        assert_eq!(settings.config.get_password(), Some(&b"sesame"[..]));
        assert!(settings.config.get_options().unwrap().ends_with(" -csearch_path=x"));
        for wrong in [
            "postgres://joe:sesame@h:77/d",
            "postgres://joe@h/d?password=sesame",
            "postgres://joe:sesame@h:x/d",
            "postgres://joe:se?same@h/d",
            "postgres://joe:se?same",
            "postgres://joe:sesame@h/d?sesame=1",
            "postgres://joe:sesame@h/d?port=same",
        ] {
            let error = parse(wrong).map(|_| ()).unwrap_err().to_string();
            assert!(!error.contains("same") || wrong.contains("sesame=1"), "{error}");
        }
        let error = parse("postgres://joe:sesame@h/d").unwrap_err();
        assert!(error.kind == ErrorKind::Usage && error.to_string().contains("PGPASSFILE"), "{error}");
    }

    #[test]
    fn passwords_come_from_files() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("pass");
        fs::write(&file, "# h:77:d:joe:no\nother:*:*:*:no\nh:77:d:joe:a\\:b:c\n*:*:*:*:rest\n").unwrap();
        let url = format!("postgres://joe@h:77/d?passfile={}", file.display());
        fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
        let error = parse(&url).unwrap_err();
        assert!(error.kind == ErrorKind::Usage && error.to_string().contains("chmod 600"), "{error}");
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
        assert_eq!(parse(&url).unwrap().config.get_password(), Some(&b"a:b:c"[..]));
        let named = |name: &str| (name == "PGPASSFILE").then(|| file.clone().into_os_string());
        let other = PostgresSettings::parse_with("postgres://joe@h/d", &named).unwrap();
        assert_eq!(other.config.get_password(), Some(&b"rest"[..]));
        let missing = parse("postgres://joe@h/d?passfile=/nowhere/pass").unwrap_err();
        assert_eq!(missing.kind, ErrorKind::NotFound);
    }
}
