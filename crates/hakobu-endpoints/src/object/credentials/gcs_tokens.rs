//! Access tokens of Google: how they are asked for.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::KeyPair;
use aws_lc_rs::signature::RSA_PKCS1_SHA256;
use base64::Engine;
use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD};
use hakobu_core::{Error, ErrorKind, Result};
use http::HeaderValue;
use serde::Deserialize;

/// The step of errors. The location follows it.
pub(super) const LOADING: &str = "reading the credentials for";
const LOGIN: &str = "log in with gcloud auth application-default login";
pub(super) const HINT: &str = "log in with gcloud auth application-default login, or name the key file of a service \
    account in GOOGLE_APPLICATION_CREDENTIALS";
/// The address of the server that knows the service account of a machine of Google's.
pub(super) const METADATA_HOST: &str = "169.254.169.254";
const TOKEN_URI: &str = "https://oauth2.googleapis.com/token";
/// The right to read, write and set access lists.
const SCOPE: &str = "https://www.googleapis.com/auth/devstorage.full_control";
/// The time for which a signed request for a token is valid.
const ASSERTION_SECONDS: u64 = 3600;
/// The longest time to connect to a server that is in the machine's own network or does not exist.
const METADATA_CONNECT: Duration = Duration::from_millis(1500);
const CONNECT: Duration = Duration::from_secs(10);
const ANSWER: Duration = Duration::from_secs(30);
const ATTEMPTS: u32 = 4;
const FIRST_DELAY: Duration = Duration::from_millis(300);
const ANSWER_BYTES_MAX: usize = 64 << 10;

/// A token that requests carry.
pub(crate) struct AccessToken {
    /// The value of the header `Authorization`.
    pub(crate) authorization: HeaderValue,
    pub(super) expires: Option<SystemTime>,
}

/// Credentials that tokens are made from.
pub(super) enum GoogleTokenSource {
    /// The token itself.
    Fixed(String),
    /// The key of a service account.
    ServiceAccount(Box<ServiceAccount>),
    /// The login of a person.
    User(UserAccount),
    /// The service account of the machine, by the host of the server that knows it.
    MetadataServer(String),
}

/// The key of a service account.
pub(super) struct ServiceAccount {
    email: String,
    key_id: String,
    key: KeyPair,
    token_uri: String,
}

/// The login of a person.
pub(super) struct UserAccount {
    pub(super) client_id: String,
    pub(super) client_secret: String,
    pub(super) refresh_token: String,
    pub(super) token_uri: Option<String>,
}

/// A request for a token that failed.
enum TokenFailure {
    /// Another attempt may succeed.
    Passing(String),
    /// The server said no.
    Refused {
        error: String,
        description: String,
    },
    Final(Error),
}

#[derive(Deserialize)]
struct TokenAnswer {
    access_token: String,
    expires_in: Option<u64>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct RefusedToken {
    error: String,
    error_description: String,
}

/// Returns the error for a machine that has no credentials at all.
pub(super) fn none() -> Error {
    unauthenticated("there are none, and this machine has no service account").hint(HINT)
}

fn unauthenticated(words: impl Into<String>) -> Error {
    Error::new(ErrorKind::Unauthenticated, LOADING, words.into())
}

impl ServiceAccount {
    /// Reads the key of a service account.
    ///
    /// # Errors
    /// `Unauthenticated` if it is no key, or tokens would come from an address that others can read.
    pub(super) fn new(email: String, key_id: String, pem: &str, token_uri: Option<String>) -> Result<Self> {
        let wrong = || {
            unauthenticated("the private key in it cannot be read")
                .hint("download the key file of the service account again")
        };
        let der: String = pem.lines().map(str::trim).filter(|line| !line.starts_with("-----")).collect();
        let der = BASE64_STANDARD.decode(der).map_err(|_| wrong())?;
        let key = KeyPair::from_pkcs8(&der).map_err(|_| wrong())?;
        Ok(Self { email, key_id, key, token_uri: checked_uri(token_uri)? })
    }

    /// Returns a signed request for a token.
    fn assertion(&self, now: SystemTime) -> Result<String> {
        let issued = now.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        let head = serde_json::json!({ "alg": "RS256", "typ": "JWT", "kid": self.key_id });
        let claims = serde_json::json!({
            "iss": self.email,
            "scope": SCOPE,
            "aud": self.token_uri,
            "iat": issued,
            "exp": issued + ASSERTION_SECONDS,
        });
        let encode = |text: String| BASE64_URL_SAFE_NO_PAD.encode(text);
        let text = format!("{}.{}", encode(head.to_string()), encode(claims.to_string()));
        let mut signature = vec![0; self.key.public_modulus_len()];
        let signed = self.key.sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), text.as_bytes(), &mut signature);
        signed.map_err(|_| unauthenticated("the private key of the service account cannot sign"))?;
        Ok(format!("{text}.{}", BASE64_URL_SAFE_NO_PAD.encode(signature)))
    }
}

/// Returns the address that tokens come from.
fn checked_uri(uri: Option<String>) -> Result<String> {
    let uri = uri.unwrap_or_else(|| TOKEN_URI.to_owned());
    let is_private = reqwest::Url::parse(&uri).is_ok_and(|url| {
        url.scheme() == "https" || url.scheme() == "http" && url.host_str().is_some_and(is_loopback)
    });
    match is_private {
        true => Ok(uri),
        false => Err(unauthenticated("the token_uri in it is no https URL")),
    }
}

/// Returns true if a host is this machine.
pub(crate) fn is_loopback(host: &str) -> bool {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || bare.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

impl GoogleTokenSource {
    /// Gets a token.
    ///
    /// # Errors
    /// `Unauthenticated` with the reason and a remedy.
    pub(super) async fn token(&self) -> Result<AccessToken> {
        if let Self::Fixed(token) = self {
            return token_of(token, None);
        }
        let mut delay = FIRST_DELAY;
        for attempt in 1.. {
            let cause = match self.ask().await {
                Ok(token) => return Ok(token),
                Err(TokenFailure::Final(error)) => return Err(error),
                Err(TokenFailure::Refused { error, description }) => {
                    return Err(self.refused(&error, &description));
                }
                Err(TokenFailure::Passing(cause)) => cause,
            };
            if matches!(self, Self::MetadataServer(host) if host == METADATA_HOST) {
                return Err(none());
            }
            if attempt >= ATTEMPTS {
                return Err(unauthenticated(format!("Google's server for tokens does not answer: {cause}")));
            }
            tokio::time::sleep(delay).await;
            delay *= 3;
        }
        Err(none())
    }

    async fn ask(&self) -> Result<AccessToken, TokenFailure> {
        let is_machine = matches!(self, Self::MetadataServer(_));
        let builder = reqwest::Client::builder().redirect(reqwest::redirect::Policy::none()).timeout(ANSWER);
        let builder = match is_machine {
            true => builder.no_proxy().connect_timeout(METADATA_CONNECT),
            false => builder.connect_timeout(CONNECT),
        };
        let client =
            builder.build().map_err(|error| TokenFailure::Final(unauthenticated(error.to_string())))?;
        let request = match self {
            Self::Fixed(token) => return token_of(token, None).map_err(TokenFailure::Final),
            Self::MetadataServer(host) => client
                .get(format!("http://{host}/computeMetadata/v1/instance/service-accounts/default/token"))
                .header("Metadata-Flavor", "Google"),
            Self::ServiceAccount(account) => {
                let assertion = account.assertion(SystemTime::now()).map_err(TokenFailure::Final)?;
                form(
                    &client,
                    &account.token_uri,
                    &[
                        ("grant_type", "urn:ietf:params:oauth:grant-type:jwt-bearer"),
                        ("assertion", &assertion),
                    ],
                )
            }
            Self::User(user) => {
                let uri = checked_uri(user.token_uri.clone()).map_err(TokenFailure::Final)?;
                form(
                    &client,
                    &uri,
                    &[
                        ("grant_type", "refresh_token"),
                        ("client_id", &user.client_id),
                        ("client_secret", &user.client_secret),
                        ("refresh_token", &user.refresh_token),
                    ],
                )
            }
        };
        let passing = |error: reqwest::Error| {
            let mut cause: &dyn std::error::Error = &error;
            while let Some(source) = cause.source() {
                cause = source;
            }
            TokenFailure::Passing(cause.to_string())
        };
        let asked = SystemTime::now();
        let mut answer = request.send().await.map_err(passing)?;
        let status = answer.status();
        let mut body = Vec::new();
        while let Some(chunk) = answer.chunk().await.map_err(passing)? {
            body.extend_from_slice(&chunk);
            if body.len() > ANSWER_BYTES_MAX {
                return Err(TokenFailure::Final(unauthenticated(
                    "the answer of the server for tokens is too long",
                )));
            }
        }
        if status.is_success() {
            let wrong = || TokenFailure::Final(unauthenticated("the server for tokens answers without one"));
            let answer: TokenAnswer = serde_json::from_slice(&body).map_err(|_| wrong())?;
            let expires = answer.expires_in.map(|seconds| asked + Duration::from_secs(seconds.min(86_400)));
            return token_of(&answer.access_token, expires).map_err(TokenFailure::Final);
        }
        if status.is_server_error() || matches!(status.as_u16(), 408 | 429) {
            return Err(TokenFailure::Passing(format!("status {}", status.as_u16())));
        }
        let refused: RefusedToken = serde_json::from_slice(&body).unwrap_or_default();
        let error =
            if refused.error.is_empty() { format!("status {}", status.as_u16()) } else { refused.error };
        Err(TokenFailure::Refused { error, description: refused.error_description })
    }

    /// Returns the error for credentials that the server for tokens refuses.
    fn refused(&self, error: &str, description: &str) -> Error {
        let words = match description.trim_end_matches('.') {
            "" => error.to_owned(),
            description => format!("{description} ({error})"),
        };
        match self {
            Self::ServiceAccount(_) if description.contains("iat") || description.contains("timeframe") => {
                unauthenticated("this machine's clock differs too much from Google's").hint("set the clock")
            }
            Self::ServiceAccount(account) => {
                let words = format!("Google does not accept the key of {}: {words}", account.email);
                unauthenticated(words).hint("create a new key for the service account and download its file")
            }
            Self::User(_) => {
                unauthenticated(format!("Google does not accept the login any more: {words}")).hint(LOGIN)
            }
            Self::Fixed(_) | Self::MetadataServer(_) => {
                unauthenticated(format!("there are none, and this machine has no service account: {words}"))
                    .hint(HINT)
            }
        }
    }
}

fn token_of(token: &str, expires: Option<SystemTime>) -> Result<AccessToken> {
    let wrong = || unauthenticated("the token is none");
    let mut authorization =
        HeaderValue::from_str(&format!("Bearer {}", token.trim())).map_err(|_| wrong())?;
    authorization.set_sensitive(true);
    Ok(AccessToken { authorization, expires })
}

/// Returns a request that sends a form.
fn form(client: &reqwest::Client, uri: &str, fields: &[(&str, &str)]) -> reqwest::RequestBuilder {
    let body = reqwest::Url::parse_with_params("form:", fields);
    let body = body.ok().and_then(|url| url.query().map(str::to_owned)).unwrap_or_default();
    client.post(uri).header(http::header::CONTENT_TYPE, "application/x-www-form-urlencoded").body(body)
}
