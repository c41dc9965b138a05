//! Mail by SMTP, over TLS from the beginning or after STARTTLS; without TLS to this machine only.

use lettre::address::AddressError;
use lettre::message::header::{ContentType, HeaderName, HeaderValue};
use lettre::message::{Mailbox, Message};
use lettre::transport::smtp::authentication::Credentials;
use lettre::transport::smtp::client::{Certificate, Tls, TlsParameters};
use lettre::transport::smtp::extension::ClientId;
use lettre::{AsyncSmtpTransport, AsyncTransport, Tokio1Executor};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use hakobu_core::error::{Error, ErrorKind, Result};

use super::Notification;
use super::delivery::{DeliveryFailure, DeliveryLimits, deliver};
use crate::relationship::CredentialReference;
use crate::secret_bytes::SecretBytes;
use crate::setting_error::SettingError;

/// The maximum length of a subject in bytes.
const SUBJECT_BYTES_MAX: usize = 256;
const DURING: &str = "preparing a mail";

/// The encryption of the connection to a mail server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum MailEncryption {
    /// TLS from the beginning, usually on port 465.
    #[default]
    Tls,
    /// TLS after STARTTLS, which is required, usually on port 587.
    Starttls,
    /// No encryption, usually on port 25. For a server on this machine only.
    None,
}

/// The mail server of a control plane.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct MailServerSetting {
    /// The name or address of the server.
    pub host: String,
    /// The port, unless it is the usual one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    /// The encryption.
    #[serde(default)]
    pub encryption: MailEncryption,
    /// The address of the sender.
    pub from: String,
    /// The user, if the server wants one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// The place of the user's password.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub password: Option<CredentialReference>,
}

impl MailServerSetting {
    /// Checks a setting.
    ///
    /// # Errors
    /// The field at fault.
    pub fn check(&self) -> Result<(), SettingError> {
        let is_address = |text: &str| text.parse::<std::net::IpAddr>().is_ok();
        let is_name = |text: &str| {
            !text.is_empty()
                && text.len() <= 253
                && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-".contains(&byte))
        };
        if !is_address(&self.host) && !is_name(&self.host) {
            return Err(SettingError::new("host", "this is no name or address of a server"));
        }
        if self.encryption == MailEncryption::None && !is_loopback(&self.host) {
            let words =
                "without encryption, only a server on this machine may be used: choose tls or starttls";
            return Err(SettingError::new("encryption", words));
        }
        check_address(&self.from).map_err(|words| SettingError::new("from", words))?;
        match (&self.user, &self.password) {
            (Some(_), None) => Err(SettingError::new("password", "a user needs the place of a password")),
            (None, Some(_)) => Err(SettingError::new("user", "a password needs a user")),
            _ => Ok(()),
        }
    }
}

fn is_loopback(host: &str) -> bool {
    host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// Checks an address such as `a@example.org` or `A <a@example.org>`.
///
/// # Errors
/// A description of the fault.
pub fn check_address(text: &str) -> Result<(), String> {
    mailbox(text).map(drop).map_err(|_| format!("{text:?} is no address such as name@example.org"))
}

fn mailbox(text: &str) -> Result<Mailbox, AddressError> {
    match text.chars().any(char::is_control) {
        true => Err(AddressError::InvalidInput),
        false => text.parse(),
    }
}

/// Sends mail through one server.
pub struct MailSender {
    transport: AsyncSmtpTransport<Tokio1Executor>,
    from: Mailbox,
    host: String,
    limits: DeliveryLimits,
}

impl std::fmt::Debug for MailSender {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MailSender").field("host", &self.host).finish_non_exhaustive()
    }
}

impl MailSender {
    /// Creates a sender. `password` is that of the setting's user; `authority` is a certificate in PEM that is trusted beside
    /// those of the system.
    ///
    /// # Errors
    /// `Usage` for a setting that is wrong, and for certificates that cannot be read.
    pub fn new(
        setting: &MailServerSetting,
        password: Option<&SecretBytes>,
        authority: Option<&[u8]>,
        limits: DeliveryLimits,
    ) -> Result<Self> {
        setting.check()?;
        let wrong = |words: String| Error::new(ErrorKind::Usage, DURING, words).at(&setting.host);
        let tls = || -> Result<TlsParameters> {
            let mut builder = TlsParameters::builder(setting.host.clone());
            if let Some(pem) = authority {
                let certificate = Certificate::from_pem(pem)
                    .map_err(|_| wrong("the certificate of the authority cannot be read".to_owned()))?;
                builder = builder.add_root_certificate(certificate);
            }
            builder.build_rustls().map_err(|error| wrong(words_of(&error)))
        };
        let (tls, port) = match setting.encryption {
            MailEncryption::Tls => (Tls::Wrapper(tls()?), 465),
            MailEncryption::Starttls => (Tls::Required(tls()?), 587),
            MailEncryption::None => (Tls::None, 25),
        };
        let mut builder = AsyncSmtpTransport::<Tokio1Executor>::builder_dangerous(&setting.host)
            .port(setting.port.unwrap_or(port))
            .tls(tls)
            .hello_name(ClientId::Domain("localhost".to_owned()))
            .timeout(Some(limits.attempt));
        if let Some(user) = &setting.user {
            let password = password
                .ok_or_else(|| wrong("there is no password for the user".to_owned()))?
                .expose_text()?;
            builder = builder.credentials(Credentials::new(user.clone(), password.to_owned()));
        }
        let from = mailbox(&setting.from).map_err(|error| wrong(error.to_string()))?;
        Ok(Self { transport: builder.build(), from, host: setting.host.clone(), limits })
    }

    /// Sends a notification to an address, again and again if need be.
    ///
    /// # Errors
    /// `Usage` for an address that is none, `Refused` if the server says no, `TimedOut` if the attempts are used up.
    pub async fn send(&self, to: &str, notification: &Notification) -> Result<()> {
        let message = self.message(to, notification)?;
        deliver(&self.limits, &format!("{to} by {}", self.host), async || {
            let sent = self.transport.send(message.clone()).await;
            sent.map(drop).map_err(|error| {
                // A refused login is permanent, as is an unknown recipient or a server without STARTTLS.
                let may_pass = !error.is_permanent() && !error.is_client() && !error.is_tls();
                DeliveryFailure { words: words_of(&error), may_pass }
            })
        })
        .await
    }

    fn message(&self, to: &str, notification: &Notification) -> Result<Message> {
        let wrong = |words: String| Error::new(ErrorKind::Usage, DURING, words).at(to);
        let to = mailbox(to).map_err(|error| wrong(error.to_string()))?;
        let plain = |character: char| if character.is_control() { ' ' } else { character };
        let subject: String = notification.subject().chars().map(plain).collect();
        let subject = crate::limits::shortened(&format!("hakobu: {subject}"), SUBJECT_BYTES_MAX);
        // Programs that answer mails by themselves do not answer those with this header.
        let automatic =
            HeaderValue::new(HeaderName::new_from_ascii_str("Auto-Submitted"), "auto-generated".to_owned());
        let domain = self.from.email.domain();
        let id: String = notification
            .id
            .chars()
            .filter(|letter| letter.is_ascii_alphanumeric() || *letter == '-')
            .collect();
        Message::builder()
            .from(self.from.clone())
            .to(to)
            .subject(subject)
            .message_id(Some(format!("<hakobu-{id}-{}@{domain}>", notification.when)))
            .header(ContentType::TEXT_PLAIN)
            .raw_header(automatic)
            .body(notification.text())
            .map_err(|error| wrong(error.to_string()))
    }
}

/// Returns an error of the library with its cause.
fn words_of(error: &lettre::transport::smtp::Error) -> String {
    let words = error.to_string();
    match words.contains("STARTTLS") {
        true => "the server does not offer STARTTLS".to_owned(),
        false => words.split_whitespace().collect::<Vec<_>>().join(" "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn setting(json: &str) -> Result<MailServerSetting, SettingError> {
        let setting: MailServerSetting = serde_json::from_str(json).unwrap();
        setting.check().map(|()| setting)
    }

    #[test]
    fn a_server_without_encryption_is_on_this_machine() {
        for (fields, field) in [
            (r#""host":"mail.example.org","encryption":"none","from":"a@b.org""#, "encryption"),
            (r#""host":"127.0.0.1.example.org","encryption":"none","from":"a@b.org""#, "encryption"),
            (r#""host":"a b","from":"a@b.org""#, "host"),
            (r#""host":"","from":"a@b.org""#, "host"),
            (r#""host":"m","from":"nobody""#, "from"),
            (r#""host":"m","from":"a@b.org\nBcc: c@d.org""#, "from"),
            (r#""host":"m","from":"a@b.org","user":"u""#, "password"),
            (r#""host":"m","from":"a@b.org","password":{"file":"/p"}"#, "user"),
        ] {
            assert_eq!(setting(&format!("{{{fields}}}")).unwrap_err().field, field, "{fields}");
        }
        for host in ["localhost", "127.0.0.1", "::1"] {
            let json = format!(r#"{{"host":"{host}","encryption":"none","from":"hakobu <a@b.org>"}}"#);
            assert!(setting(&json).is_ok(), "{host}");
        }
        assert_eq!(setting(r#"{"host":"m","from":"a@b.org"}"#).unwrap().encryption, MailEncryption::Tls);
    }
}
