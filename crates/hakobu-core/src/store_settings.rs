//! The settings of an object store: how it is reached, and how objects are stored in it.

use std::fmt;
use std::time::Duration;

use crate::store_credentials::StoreCredentials;

/// The settings of one object store. What is not set follows the configuration of the vendor's tools.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct StoreSettings {
    /// The URL of the server, without a slash at the end.
    pub endpoint: Option<String>,
    /// The region.
    pub region: Option<String>,
    /// The profile of the vendor's configuration files.
    pub profile: Option<String>,
    /// True if requests are sent without credentials, as to public buckets.
    pub no_sign_request: bool,
    /// True if the account that asks pays for requests, not the owner of the bucket.
    pub request_payer: bool,
    /// The form of the URLs of a bucket.
    pub addressing: BucketAddressing,
    /// The storage class of objects that are written.
    pub storage_class: Option<String>,
    /// The encryption of objects that are written.
    pub encryption: Option<ServerEncryption>,
    /// The canned access list of objects that are written.
    pub acl: Option<String>,
    /// The content type of objects that are written; `None` follows the name's extension.
    pub content_type: Option<String>,
    /// The time for which a store that does not answer is asked again; `None` for the default.
    pub retry_for: Option<Duration>,
    /// The credentials, instead of those of the configuration.
    pub credentials: StoreCredentials,
}

impl StoreSettings {
    /// Returns the settings without those for reaching S3, for an end that is another store.
    #[must_use]
    pub fn without_s3(self) -> Self {
        let addressing = BucketAddressing::Auto;
        Self { region: None, profile: None, request_payer: false, addressing, ..self }
    }

    /// Returns the settings without those for objects that are written.
    #[must_use]
    pub fn for_reading(self) -> Self {
        Self { storage_class: None, encryption: None, acl: None, content_type: None, ..self }
    }
}

/// The form of the URLs of a bucket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum BucketAddressing {
    /// As a host at the vendor's own servers, in the path elsewhere.
    #[default]
    Auto,
    /// The bucket is in the path: `https://HOST/BUCKET/KEY`.
    Path,
    /// The bucket is in the host's name: `https://BUCKET.HOST/KEY`.
    Virtual,
}

impl BucketAddressing {
    /// Returns the form with this name on the command line.
    pub fn from_name(name: &str) -> Option<Self> {
        match name {
            "auto" => Some(Self::Auto),
            "path" => Some(Self::Path),
            "virtual" => Some(Self::Virtual),
            _ => None,
        }
    }
}

/// The encryption of objects by the store. Keys of AWS's key service are named by ID, alias or ARN.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ServerEncryption {
    /// With keys that the store manages.
    Aes256,
    /// With a key of AWS's key service; `None` is the default one.
    Kms(Option<String>),
    /// Twice, with a key of AWS's key service.
    DoubleKms(Option<String>),
}

impl ServerEncryption {
    const KMS: &str = "aws:kms";
    const DOUBLE_KMS: &str = "aws:kms:dsse";

    /// Returns the value of the header `x-amz-server-side-encryption`.
    pub fn algorithm(&self) -> &'static str {
        match self {
            Self::Aes256 => "AES256",
            Self::Kms(_) => Self::KMS,
            Self::DoubleKms(_) => Self::DOUBLE_KMS,
        }
    }

    /// Returns the key, if one was named.
    pub fn key(&self) -> Option<&str> {
        match self {
            Self::Aes256 => None,
            Self::Kms(key) | Self::DoubleKms(key) => key.as_deref(),
        }
    }

    /// Parses `AES256`, `aws:kms[:KEY]` or `aws:kms:dsse[:KEY]`.
    ///
    /// # Errors
    /// A description of the expected form.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        const EXPECTED: &str = "must be AES256, aws:kms, aws:kms:KEY, or aws:kms:dsse:KEY";
        let key = |rest: &str| match rest.strip_prefix(':') {
            None if rest.is_empty() => Ok(None),
            Some(key) if is_header_word(key) => Ok(Some(key.to_owned())),
            _ => Err(EXPECTED),
        };
        if text == "AES256" {
            return Ok(Self::Aes256);
        }
        match (text.strip_prefix(Self::DOUBLE_KMS), text.strip_prefix(Self::KMS)) {
            (Some(rest), _) if rest.is_empty() || rest.starts_with(':') => Ok(Self::DoubleKms(key(rest)?)),
            (_, Some(rest)) => Ok(Self::Kms(key(rest)?)),
            _ => Err(EXPECTED),
        }
    }
}

impl fmt::Display for ServerEncryption {
    /// Writes the form that [`ServerEncryption::parse`] reads.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.algorithm())?;
        self.key().map_or(Ok(()), |key| write!(f, ":{key}"))
    }
}

/// Checks the URL of a server and returns it without a slash at the end.
///
/// # Errors
/// A description of the expected form. It quotes nothing, because a URL may hold a secret.
pub fn parse_endpoint(text: &str) -> Result<String, &'static str> {
    let rest = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    let rest = rest.ok_or("must be the URL of a server: https://HOST, or http://HOST:PORT")?;
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    if authority.contains('@') {
        return Err(
            "credentials are not taken in a URL; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or a profile",
        );
    }
    if rest.contains(['?', '#']) {
        return Err("must be the URL of a server, without ? and what follows");
    }
    let (host, port) = match authority.rfind(':').filter(|colon| !authority[*colon..].contains(']')) {
        Some(colon) => (&authority[..colon], Some(&authority[colon + 1..])),
        None => (authority, None),
    };
    let is_port = |port: &str| {
        port.bytes().all(|byte| byte.is_ascii_digit()) && port.parse().is_ok_and(|port: u16| port > 0)
    };
    if port.is_some_and(|port| !is_port(port)) {
        return Err("the port must be a number from 1 to 65535");
    }
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    let is_host = match bare {
        Some(address) => address.parse::<std::net::Ipv6Addr>().is_ok(),
        None => {
            !host.is_empty()
                && host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-_".contains(&byte))
        }
    };
    if !is_host || rest.contains(|letter: char| letter.is_whitespace() || letter.is_control()) {
        return Err("the host in it is no name or address");
    }
    Ok(text.trim_end_matches('/').to_owned())
}

/// Checks a content type: `type/subtype`, with parameters or without.
///
/// # Errors
/// A description of the expected form.
pub fn parse_content_type(text: &str) -> Result<String, &'static str> {
    const EXPECTED: &str = "must be a content type, such as text/html or application/json";
    let is_token = |part: &str| {
        !part.is_empty()
            && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"!#$&^_.+-".contains(&byte))
    };
    let is_printable = text.bytes().all(|byte| (b' '..=b'~').contains(&byte));
    let (kind, rest) = text.split_once('/').ok_or(EXPECTED)?;
    let subtype = rest.split(';').next().unwrap_or_default().trim_end();
    let is_right = is_printable && is_token(kind) && is_token(subtype);
    is_right.then(|| text.to_owned()).ok_or(EXPECTED)
}

/// Checks a word that goes into a header as it is, such as a region or a storage class.
///
/// # Errors
/// A description of the expected form.
pub fn parse_word(text: &str) -> Result<String, &'static str> {
    is_header_word(text).then(|| text.to_owned()).ok_or("must be one word of printable ASCII characters")
}

fn is_header_word(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encryption_is_named_as_in_aws() {
        let key = "arn:aws:kms:eu-west-1:1:key/ab-c";
        for (text, is) in [
            ("AES256".to_owned(), ServerEncryption::Aes256),
            ("aws:kms".to_owned(), ServerEncryption::Kms(None)),
            (format!("aws:kms:{key}"), ServerEncryption::Kms(Some(key.to_owned()))),
            ("aws:kms:dsse".to_owned(), ServerEncryption::DoubleKms(None)),
            (format!("aws:kms:dsse:{key}"), ServerEncryption::DoubleKms(Some(key.to_owned()))),
            ("aws:kms:dssex".to_owned(), ServerEncryption::Kms(Some("dssex".to_owned()))),
        ] {
            let parsed = ServerEncryption::parse(&text).unwrap();
            assert_eq!((parsed.to_string(), &parsed), (text, &is));
        }
        for text in ["", "aes256", "aws:kms:", "aws:kms:dsse:", "aws:kmsx", "aws:kms:a b", "aws:kms:a\n"] {
            assert!(ServerEncryption::parse(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn endpoints_are_urls_of_servers() {
        for (text, is) in [
            ("http://localhost:9000/", "http://localhost:9000"),
            ("https://s3.example.org", "https://s3.example.org"),
            ("https://10.0.0.1/base/", "https://10.0.0.1/base"),
            ("http://[::1]:9000", "http://[::1]:9000"),
            ("http://[::1]", "http://[::1]"),
        ] {
            assert_eq!(parse_endpoint(text).as_deref(), Ok(is));
        }
        for (text, words) in [
            ("", "the URL of a server"),
            ("localhost:9000", "http://HOST:PORT"),
            ("ftp://h", "http://HOST:PORT"),
            ("http://", "no name or address"),
            ("http://:9000", "no name or address"),
            ("http://h:x", "the port"),
            ("http://h:0", "the port"),
            ("http://h:", "the port"),
            ("http://h:70000", "the port"),
            ("http://[::1", "no name or address"),
            ("http://a b", "no name or address"),
            ("http://h/a b", "no name or address"),
            ("http://me:secret@h", "credentials are not taken"),
            ("https://h?sig=secret", "without ?"),
        ] {
            let said = parse_endpoint(text).unwrap_err();
            assert!(said.contains(words) && !said.contains("secret"), "{text}: {said}");
        }
    }

    #[test]
    fn headers_take_no_line_ends() {
        for text in ["text/html", "text/plain; charset=utf-8", "application/vnd.ms-excel"] {
            assert_eq!(parse_content_type(text).as_deref(), Ok(text));
        }
        for text in ["", "text", "text/", "/html", "text/html\r\nx: y", "te xt/html", "text/ü"] {
            assert!(parse_content_type(text).is_err(), "{text:?}");
        }
        assert_eq!(parse_word("STANDARD_IA").as_deref(), Ok("STANDARD_IA"));
        for text in ["", "a b", "a\n", "é"] {
            assert!(parse_word(text).is_err(), "{text:?}");
        }
    }
}
