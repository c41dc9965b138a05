//! A client of the interface, for `hakobu fleet`. Its calls block.

use std::time::Duration;

use hakobu_core::error::{Error, ErrorKind, Result};
use reqwest::{Certificate, Method, Url};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::api::errands::{ErrandInput, ErrandNumber};
use crate::api::listing::ListPage;
use crate::api::problem::Problem;
use crate::errand::{ErrandState, ErrandView};
use crate::failure::kind_of_name;
use crate::http_client;
use crate::secret_bytes::SecretBytes;

/// The operation that errors name.
const ASKING: &str = "asking the control plane";
/// The time for which a connection is kept for the next call. Between calls nobody notices that the other side has closed it.
const KEPT_MAX: Duration = Duration::from_secs(2);
/// The time in which a call is answered.
const ANSWER_MAX: Duration = Duration::from_secs(60);
/// The time in which a connection is made.
const CONNECT_MAX: Duration = Duration::from_secs(10);
/// The time between two looks at an errand.
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// The maximum length of an answer in bytes.
const ANSWER_BYTES_MAX: usize = 64 << 20;

/// A client of one control plane.
pub struct FleetClient {
    runtime: tokio::runtime::Runtime,
    http: reqwest::Client,
    server: Url,
    token: SecretBytes,
}

impl FleetClient {
    /// Creates a client. `authorities` are certificates to trust beside those of the system, as PEM.
    ///
    /// # Errors
    /// `Usage` for an address that is none, or to which a token must not be sent.
    pub fn new(server: &str, token: SecretBytes, authorities: Option<&[u8]>) -> Result<Self> {
        let wrong =
            |words: String| Error::new(ErrorKind::Usage, "reading the address of the control plane", words);
        let text = if server.contains("://") { server.to_owned() } else { format!("https://{server}") };
        let server = Url::parse(&text).map_err(|error| wrong(error.to_string()).at(server))?;
        let is_loopback = is_loopback(&server);
        match server.scheme() {
            "https" => {}
            "http" if is_loopback => {}
            "http" => {
                let words = "without TLS, everybody on the way could read the token";
                return Err(wrong(words.to_owned()).at(text).hint("use https://"));
            }
            _ => return Err(wrong("it is neither https:// nor http://".to_owned()).at(text)),
        }
        let certificates = authorities.map(Certificate::from_pem_bundle).transpose();
        let certificates = certificates
            .map_err(|error| Error::new(ErrorKind::Usage, "reading certificates", error.to_string()))?
            .unwrap_or_default();
        let builder = || {
            let builder = reqwest::Client::builder()
                .user_agent(concat!("hakobu/", env!("CARGO_PKG_VERSION")))
                .redirect(reqwest::redirect::Policy::none())
                .pool_idle_timeout(KEPT_MAX)
                .connect_timeout(CONNECT_MAX)
                .timeout(ANSWER_MAX)
                .tls_certs_merge(certificates.clone());
            if is_loopback { builder.no_proxy() } else { builder }
        };
        let http = http_client::build(builder).map_err(|error| wrong(error.to_string()))?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| Error::io(ASKING, &error))?;
        Ok(Self { runtime, http, server, token })
    }

    /// Returns the address of the control plane.
    pub fn server(&self) -> &str {
        self.server.as_str().trim_end_matches('/')
    }

    /// Reads something. The query is part of the path.
    ///
    /// # Errors
    /// Those of the control plane, and of the way to it.
    pub fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T> {
        read(&self.bytes(Method::GET, path, None)?)
    }

    /// Reads something as it is sent.
    ///
    /// # Errors
    /// As for [`FleetClient::get`].
    pub fn get_bytes(&self, path: &str) -> Result<Vec<u8>> {
        self.bytes(Method::GET, path, None)
    }

    /// Reads the items of a list, at most so many.
    ///
    /// # Errors
    /// As for [`FleetClient::get`].
    pub fn list<T: DeserializeOwned>(
        &self,
        path: &str,
        query: &[(&str, &str)],
        most: usize,
    ) -> Result<Vec<T>> {
        let (mut items, mut after) = (Vec::new(), None::<String>);
        while items.len() < most {
            let limit = (most - items.len()).min(1000).to_string();
            let mut query = query.to_vec();
            query.push(("limit", &limit));
            query.extend(after.as_deref().map(|after| ("after", after)));
            let page: ListPage<T> = self.get(&with_query(path, &query))?;
            items.extend(page.items);
            match page.next {
                Some(next) => after = Some(next),
                None => break,
            }
        }
        items.truncate(most);
        Ok(items)
    }

    /// Asks for a change, and reads the answer.
    ///
    /// # Errors
    /// As for [`FleetClient::get`].
    pub fn send<T: DeserializeOwned>(&self, method: &str, path: &str, body: &impl Serialize) -> Result<T> {
        read(&self.bytes(method_of(method), path, Some(json(body)?))?)
    }

    /// Asks for a change that has no answer.
    ///
    /// # Errors
    /// As for [`FleetClient::get`].
    pub fn order(&self, method: &str, path: &str, body: Option<&impl Serialize>) -> Result<()> {
        self.bytes(method_of(method), path, body.map(json).transpose()?).map(drop)
    }

    /// Asks a broker of a group, and waits until the errand is done or has failed. The control plane ends each in time.
    ///
    /// # Errors
    /// As for [`FleetClient::get`]. An errand that has failed is no error of this call.
    pub fn ask_broker(&self, group: &str, input: &ErrandInput) -> Result<ErrandView> {
        let path = format!("/api/v1/groups/{}/errands", escaped(group.as_bytes()));
        let ErrandNumber { id } = self.send("POST", &path, input)?;
        loop {
            let view: ErrandView = self.get(&format!("/api/v1/errands/{id}"))?;
            if matches!(view.state, ErrandState::Done | ErrandState::Failed) {
                return Ok(view);
            }
            std::thread::sleep(LOOK_EVERY);
        }
    }

    fn bytes(&self, method: Method, path: &str, body: Option<Vec<u8>>) -> Result<Vec<u8>> {
        let url = format!("{}{path}", self.server());
        let at = self.server().to_owned();
        let lost = move |error: reqwest::Error| {
            let kind = if error.is_timeout() { ErrorKind::TimedOut } else { ErrorKind::ConnectionLost };
            Error::new(kind, ASKING, cause(&error).to_string()).at(at.clone()).hint(remedy(&error))
        };
        self.runtime.block_on(async {
            let mut request = self.http.request(method, url);
            if !self.token.expose().is_empty() {
                request = request.bearer_auth(String::from_utf8_lossy(self.token.expose()));
            }
            if let Some(body) = body {
                request = request.header("Content-Type", "application/json").body(body);
            }
            let mut answer = request.send().await.map_err(&lost)?;
            let status = answer.status().as_u16();
            let mut bytes = Vec::new();
            while let Some(chunk) = answer.chunk().await.map_err(&lost)? {
                bytes.extend_from_slice(&chunk);
                if bytes.len() > ANSWER_BYTES_MAX {
                    return Err(Error::new(ErrorKind::Protocol, ASKING, "the answer has no end"));
                }
            }
            if (200..300).contains(&status) { Ok(bytes) } else { Err(refusal(status, &bytes)) }
        })
    }
}

/// Returns a path with a query.
pub fn with_query(path: &str, query: &[(&str, &str)]) -> String {
    let pairs = query.iter().map(|(name, value)| format!("{name}={}", escaped(value.as_bytes())));
    match pairs.collect::<Vec<_>>().join("&") {
        query if query.is_empty() => path.to_owned(),
        query => format!("{path}?{query}"),
    }
}

/// Returns text as part of an address.
pub fn escaped(bytes: &[u8]) -> String {
    let escaped = bytes.iter().map(|byte| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => char::from(*byte).to_string(),
        byte => format!("%{byte:02X}"),
    });
    escaped.collect()
}

fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || bare.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

fn method_of(name: &str) -> Method {
    match name {
        "PUT" => Method::PUT,
        "DELETE" => Method::DELETE,
        _ => Method::POST,
    }
}

fn json(body: &impl Serialize) -> Result<Vec<u8>> {
    serde_json::to_vec(body).map_err(|error| Error::new(ErrorKind::Usage, ASKING, error.to_string()))
}

fn read<T: DeserializeOwned>(bytes: &[u8]) -> Result<T> {
    serde_json::from_slice(bytes).map_err(|error| {
        let hint = "use the version of hakobu that the control plane has";
        Error::new(ErrorKind::Protocol, "reading the answer of the control plane", error.to_string())
            .hint(hint)
    })
}

/// Returns the innermost cause of an error of the connection.
fn cause(error: &reqwest::Error) -> &(dyn std::error::Error + 'static) {
    let mut cause: &(dyn std::error::Error + 'static) = error;
    while let Some(inner) = inner_error(cause) {
        cause = inner;
    }
    cause
}

/// Returns the error within another one.
fn inner_error<'e>(
    error: &'e (dyn std::error::Error + 'static),
) -> Option<&'e (dyn std::error::Error + 'static)> {
    // Its source is the source of what it holds.
    let held = error.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref);
    held.map(|held| held as &(dyn std::error::Error + 'static)).or_else(|| error.source())
}

/// Returns what to do about an error of the connection.
fn remedy(error: &reqwest::Error) -> &'static str {
    match cause(error).downcast_ref::<rustls::Error>() {
        Some(rustls::Error::InvalidCertificate(_)) => {
            "if an authority of your own has signed its certificate, name that with --tls-ca FILE; the host in the URL must be \
             one of the certificate"
        }
        Some(rustls::Error::InvalidMessage(_)) => {
            "if it serves without TLS, as it may on this machine, use http://"
        }
        _ => "see whether it runs there: hakobu serve",
    }
}

/// Returns the error of an answer.
fn refusal(status: u16, bytes: &[u8]) -> Error {
    let problem: Problem = serde_json::from_slice(bytes).unwrap_or_else(|_| Problem {
        message: format!("it answered with status {status}, and not as a control plane does"),
        ..Problem::default()
    });
    let kind = kind_of_name(&problem.kind).unwrap_or(match status {
        400 | 404 | 405 | 413 | 415 => ErrorKind::Usage,
        401 => ErrorKind::Unauthenticated,
        403 => ErrorKind::PermissionDenied,
        409 => ErrorKind::Refused,
        429 | 503 => ErrorKind::TimedOut,
        _ => ErrorKind::Io,
    });
    let error = Error::new(kind, ASKING, problem.message);
    match problem.hint {
        Some(hint) => error.hint(hint),
        None if error.may_retry() => {
            error.hint("run the same command again; hakobu fleet status tells what is wrong")
        }
        None => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(server: &str) -> Result<FleetClient> {
        FleetClient::new(server, SecretBytes::new(b"hkb_x".to_vec()), None)
    }

    #[test]
    fn a_token_is_sent_over_tls_or_not_beyond_this_machine() {
        for good in
            ["http://127.0.0.1:8420/", "http://[::1]:8420", "http://localhost", "https://fleet.example"]
        {
            assert_eq!(client(good).unwrap().server(), good.trim_end_matches('/'));
        }
        assert_eq!(client("fleet.example:8420").unwrap().server(), "https://fleet.example:8420");
        for bad in ["http://fleet.example", "http://127.0.0.1.example", "ftp://localhost", "http://"] {
            assert_eq!(client(bad).err().unwrap().kind, ErrorKind::Usage, "{bad}");
        }
    }

    #[test]
    fn queries_are_escaped() {
        assert_eq!(with_query("/a", &[]), "/a");
        assert_eq!(with_query("/a", &[("x", "a b&c=\u{e9}"), ("y", "")]), "/a?x=a%20b%26c%3D%C3%A9&y=");
    }

    #[test]
    fn problems_keep_their_kind_and_hint() {
        let body = br#"{"kind":"other_revision","message":"changed","hint":"read it again"}"#;
        let error = refusal(409, body);
        assert_eq!((error.kind, error.hint.as_deref()), (ErrorKind::Refused, Some("read it again")));
        assert_eq!(refusal(404, br#"{"kind":"not_found","message":"x"}"#).kind, ErrorKind::NotFound);
        assert_eq!(refusal(502, b"<html>").kind, ErrorKind::Io);
    }
}
