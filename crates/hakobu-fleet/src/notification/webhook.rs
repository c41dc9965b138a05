//! Webhooks: a POST of JSON, signed as the specification "Standard Webhooks" says, so that receivers have libraries for it.
//!
//! The signature is HMAC-SHA256 over `ID.TIMESTAMP.BODY`, as `v1,BASE64` in the header `webhook-signature`. The ID is equal in
//! all attempts, so that a receiver can leave out what it has.

use aws_lc_rs::hmac;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use hakobu_core::error::{Error, ErrorKind, Result};
use reqwest::Url;
use reqwest::header::{CONTENT_TYPE, HeaderValue, USER_AGENT};

use super::Notification;
use super::delivery::{DeliveryFailure, DeliveryLimits, deliver};
use crate::http_client;
use crate::secret_bytes::SecretBytes;

/// The maximum length of a URL in bytes.
pub const WEBHOOK_URL_BYTES_MAX: usize = 2048;
/// The maximum length of a body in bytes.
pub const WEBHOOK_BODY_BYTES_MAX: usize = 64 << 10;
/// The prefix of secrets that are base64.
const BASE64_SECRET: &str = "whsec_";

/// Checks a URL: https, or http to this machine.
///
/// # Errors
/// A description of the fault, which quotes nothing: the URL may have a secret.
pub fn check_url(text: &str) -> Result<(), String> {
    url(text).map(drop)
}

fn url(text: &str) -> Result<Url, String> {
    if text.len() > WEBHOOK_URL_BYTES_MAX {
        return Err(format!("it has more than {WEBHOOK_URL_BYTES_MAX} bytes"));
    }
    let url = Url::parse(text).map_err(|error| format!("this is no URL: {error}"))?;
    if !url.username().is_empty() || url.password().is_some() {
        return Err("a user in the URL is not sent; sign with a secret instead".to_owned());
    }
    match url.scheme() {
        "https" => Ok(url),
        "http" if is_loopback(&url) => Ok(url),
        "http" => Err("http is for this machine only: use https".to_owned()),
        _ => Err("it must begin with https://".to_owned()),
    }
}

fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || bare.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// Sends notifications to webhooks.
#[derive(Clone, Debug)]
pub struct WebhookSender {
    outside: reqwest::Client,
    /// For this machine no proxy is asked.
    loopback: reqwest::Client,
    limits: DeliveryLimits,
}

impl WebhookSender {
    /// Creates a sender. It keeps connections for some time.
    ///
    /// # Errors
    /// `Io` if a proxy in the environment cannot be read.
    pub fn new(limits: DeliveryLimits) -> Result<Self> {
        let builder = || {
            reqwest::Client::builder()
                .redirect(reqwest::redirect::Policy::none())
                .connect_timeout(limits.attempt)
                .timeout(limits.attempt)
                .pool_max_idle_per_host(1)
        };
        let build = |builder: &dyn Fn() -> reqwest::ClientBuilder| {
            http_client::build(builder)
                .map_err(|error| Error::new(ErrorKind::Io, "preparing webhooks", cause_of(&error)))
        };
        Ok(Self { outside: build(&builder)?, loopback: build(&|| builder().no_proxy())?, limits })
    }

    /// Sends a notification, again and again if need be. `now` returns the seconds since 1970.
    ///
    /// # Errors
    /// `Usage` for a URL that is not allowed, `Refused` for an answer that says no, `TimedOut` if the attempts are used up.
    pub async fn send(
        &self,
        target: &str,
        secret: Option<&SecretBytes>,
        notification: &Notification,
        now: impl Fn() -> u64,
    ) -> Result<()> {
        let wrong = |words: String| Error::new(ErrorKind::Usage, "sending a notification", words);
        let url = url(target).map_err(wrong)?;
        let body = serde_json::to_vec(notification).map_err(|error| wrong(error.to_string()))?;
        if body.len() > WEBHOOK_BODY_BYTES_MAX {
            return Err(wrong(format!("it has more than {WEBHOOK_BODY_BYTES_MAX} bytes")));
        }
        let key = secret.map(signing_key).transpose()?;
        let client = if is_loopback(&url) { &self.loopback } else { &self.outside };
        // Paths and queries of webhooks are often secrets.
        let receiver = format!("{}://{}", url.scheme(), url.host_str().unwrap_or_default());
        let id = &notification.id;
        deliver(&self.limits, &receiver, async || {
            let timestamp = now();
            let mut request = client
                .post(url.clone())
                .header(CONTENT_TYPE, HeaderValue::from_static("application/json"))
                .header(USER_AGENT, concat!("hakobu/", env!("CARGO_PKG_VERSION")))
                .header("webhook-id", id)
                .header("webhook-timestamp", timestamp);
            if let Some(key) = &key {
                request = request.header("webhook-signature", signature(key, id, timestamp, &body));
            }
            let sent = request.body(body.clone()).send().await;
            // The answer's body is not read: it may be endless.
            let status = sent.map_err(|error| DeliveryFailure::passing(cause_of(&error)))?.status();
            let words = format!("the answer is status {}", status.as_u16());
            match status.as_u16() {
                200..=299 => Ok(()),
                300..=399 => Err(DeliveryFailure::lasting(format!(
                    "{words}, a redirection, which is not followed: set the URL that it leads to"
                ))),
                408 | 425 | 429 | 500.. => Err(DeliveryFailure::passing(words)),
                _ => Err(DeliveryFailure::lasting(words)),
            }
        })
        .await
    }
}

/// Returns the key of a secret: base64 after `whsec_`, or the bytes themselves.
fn signing_key(secret: &SecretBytes) -> Result<hmac::Key> {
    let coded = secret.expose().strip_prefix(BASE64_SECRET.as_bytes());
    let bytes = match coded {
        None => SecretBytes::new(secret.expose().to_vec()),
        Some(coded) => SecretBytes::new(BASE64_STANDARD.decode(coded).map_err(|_| {
            Error::new(
                ErrorKind::Usage,
                "reading the secret of a webhook",
                "what follows whsec_ is no base64",
            )
        })?),
    };
    Ok(hmac::Key::new(hmac::HMAC_SHA256, bytes.expose()))
}

fn signature(key: &hmac::Key, id: &str, timestamp: u64, body: &[u8]) -> String {
    let mut context = hmac::Context::with_key(key);
    context.update(format!("{id}.{timestamp}.").as_bytes());
    context.update(body);
    format!("v1,{}", BASE64_STANDARD.encode(context.sign()))
}

/// Returns the innermost cause, which has no URL in it.
fn cause_of(error: &reqwest::Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    match cause.is::<reqwest::Error>() {
        true if error.is_timeout() => "there is no answer in time".to_owned(),
        true => "the request failed".to_owned(),
        false => cause.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_signature_is_that_of_the_specification() {
        // The example in the documentation of the specification's libraries.
        let secret = SecretBytes::new(b"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw".to_vec());
        let key = signing_key(&secret).unwrap();
        let body = br#"{"test": 2432232314}"#;
        assert_eq!(
            signature(&key, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330, body),
            "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
        );
        assert!(signing_key(&SecretBytes::new(b"whsec_!".to_vec())).is_err());
    }

    #[test]
    fn urls_are_private_on_their_way() {
        for good in [
            "https://example.org/hook?key=1",
            "http://127.0.0.1:8080/",
            "http://[::1]/",
            "http://localhost/x",
        ] {
            assert_eq!(check_url(good), Ok(()), "{good}");
        }
        for (bad, words) in [
            ("http://example.org/", "use https"),
            ("http://localhost.example.org/", "use https"),
            ("http://127.0.0.1.example.org/", "use https"),
            ("http://169.254.169.254/", "use https"),
            ("ftp://example.org/", "https://"),
            ("file:///etc/passwd", "https://"),
            ("example.org", "no URL"),
            ("https://me:sesame@example.org/", "sign with a secret"),
            ("", "no URL"),
        ] {
            let said = check_url(bad).unwrap_err();
            assert!(said.contains(words) && !said.contains("sesame"), "{bad}: {said}");
        }
        let long = |length| format!("https://example.org/{}", "x".repeat(length - 20));
        assert!(check_url(&long(WEBHOOK_URL_BYTES_MAX)).is_ok());
        assert!(check_url(&long(WEBHOOK_URL_BYTES_MAX + 1)).is_err());
    }
}
