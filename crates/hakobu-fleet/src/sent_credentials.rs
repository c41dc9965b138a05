//! Credentials on their way to a broker: places on the broker, or secrets that are sealed for its key.
//!
//! The content of a secret is lines of `NAME=VALUE`, as stores know them from the environment (`AWS_ACCESS_KEY_ID=…`). Lines
//! below `[source]` or `[target]` are for that end alone, those above for both. Empty lines and lines with `#` are left out.

use std::collections::BTreeMap;

use hakobu_core::error::{Error, ErrorKind, Result};
use hakobu_core::request::CopyRequest;
use hakobu_core::store_credentials::StoreCredentials;
use serde::{Deserialize, Serialize};

use crate::broker_key::{BrokerKey, BrokerPublicKey};
use crate::key_file::SealingKeys;
use crate::relationship::CredentialReference;
use crate::secret_bytes::SecretBytes;
use crate::secrets::SecretPlaces;

/// The purpose for which the credentials of relationships are sealed.
pub const CREDENTIALS_PURPOSE: &str = "relationship credentials";
const DURING: &str = "reading the credentials";
/// The maximum number of values of one secret.
const VALUES_MAX: usize = 64;

/// Credentials as a broker gets them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SentCredential {
    /// A file on the broker.
    File(String),
    /// A variable of the broker's environment.
    Environment(String),
    /// Sealed for the key of the broker.
    Sealed(Vec<u8>),
}

/// Returns credentials for a broker with this key. `keys` open those that are sealed with the key file; `purpose` is that for
/// which they are sealed again.
///
/// # Errors
/// `Usage` without keys, or without the key of the broker, for sealed ones, and `Unauthenticated` if they cannot be opened.
pub fn sent_credentials(
    references: &[CredentialReference],
    keys: Option<&SealingKeys>,
    broker: Option<BrokerPublicKey>,
    purpose: &str,
) -> Result<Vec<SentCredential>> {
    let wrong =
        |words: &str| Error::new(ErrorKind::Usage, "sending credentials to a broker", words.to_owned());
    let sent = references.iter().map(|reference| match reference {
        CredentialReference::File(path) => Ok(SentCredential::File(path.clone())),
        CredentialReference::Environment(name) => Ok(SentCredential::Environment(name.clone())),
        CredentialReference::Sealed(text) => {
            let keys = keys.ok_or_else(|| wrong("they are sealed, and there is no key file"))?;
            let broker = broker.ok_or_else(|| wrong("the broker has no key to seal them for"))?;
            // No other attempt opens it.
            let secret = keys
                .open(text, CREDENTIALS_PURPOSE)
                .map_err(|error| Error { kind: ErrorKind::Unauthenticated, ..error })?;
            Ok(SentCredential::Sealed(broker.seal(purpose, &secret)?))
        }
    });
    sent.collect()
}

/// The places and the key with which a broker reads credentials.
#[derive(Debug)]
pub struct CredentialReader {
    places: SecretPlaces,
    key: BrokerKey,
}

/// The credentials of both ends.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EndCredentials {
    source: StoreCredentials,
    target: StoreCredentials,
}

impl CredentialReader {
    /// Creates one with a new key.
    ///
    /// # Errors
    /// `Io` if the system gives no random numbers.
    pub fn new(places: SecretPlaces) -> Result<Self> {
        Ok(Self { places, key: BrokerKey::generate()? })
    }

    /// Returns the key that the leader seals for.
    pub fn public(&self) -> BrokerPublicKey {
        self.key.public()
    }

    /// Reads credentials. A variable whose value has no lines of its own is a value by its own name.
    ///
    /// # Errors
    /// `Refused` for a place that may not be read, those of reading, and `Usage` for another form. No value is quoted.
    pub fn read(&self, sent: &[SentCredential], purpose: &str) -> Result<EndCredentials> {
        let mut values = EndValues::default();
        for credential in sent {
            let (secret, name) = match credential {
                SentCredential::File(path) => (self.place(&CredentialReference::File(path.clone()))?, None),
                SentCredential::Environment(name) => {
                    (self.place(&CredentialReference::Environment(name.clone()))?, Some(name))
                }
                SentCredential::Sealed(bytes) => (self.key.open(bytes, purpose)?, None),
            };
            let text = secret.expose_text()?;
            match name.filter(|_| !text.contains('=') || !text.contains('\n')) {
                Some(name) => values.add(CredentialEnd::Both, name, text),
                None => values.add_lines(text)?,
            }
        }
        Ok(values.into_credentials())
    }

    fn place(&self, reference: &CredentialReference) -> Result<SecretBytes> {
        self.places.read(reference, CREDENTIALS_PURPOSE, None)
    }
}

/// Reads credentials with the reader of a broker, if it has one.
///
/// # Errors
/// `Unsupported` without a reader, and those of [`CredentialReader::read`].
pub fn read_credentials(
    reader: Option<&CredentialReader>,
    sent: &[SentCredential],
    purpose: &str,
) -> Result<EndCredentials> {
    match reader {
        _ if sent.is_empty() => Ok(EndCredentials::default()),
        Some(reader) => reader.read(sent, purpose),
        None => Err(Error::new(ErrorKind::Unsupported, DURING, "this broker reads none")),
    }
}

/// Checks the content of a secret before it is sealed.
///
/// # Errors
/// `Usage` for another form. No value is quoted.
pub fn check_credentials(text: &str) -> Result<()> {
    EndValues::default().add_lines(text)
}

impl EndCredentials {
    /// Puts them into a request.
    pub fn apply(self, request: &mut CopyRequest) {
        if !self.source.is_empty() {
            request.source_store.credentials = self.source;
        }
        if !self.target.is_empty() {
            request.target_store.credentials = self.target;
        }
    }
}

#[derive(Clone, Copy)]
enum CredentialEnd {
    Both,
    Source,
    Target,
}

#[derive(Default)]
struct EndValues {
    source: BTreeMap<String, String>,
    target: BTreeMap<String, String>,
}

impl EndValues {
    fn add(&mut self, end: CredentialEnd, name: &str, value: &str) {
        if matches!(end, CredentialEnd::Both | CredentialEnd::Source) {
            self.source.insert(name.to_owned(), value.to_owned());
        }
        if matches!(end, CredentialEnd::Both | CredentialEnd::Target) {
            self.target.insert(name.to_owned(), value.to_owned());
        }
    }

    fn add_lines(&mut self, text: &str) -> Result<()> {
        let mut end = CredentialEnd::Both;
        let wrong = |number: usize, words: &str| {
            Error::new(ErrorKind::Usage, DURING, format!("line {}: {words}", number + 1))
        };
        for (number, line) in text.lines().enumerate() {
            match line.trim() {
                "" => {}
                "[source]" => end = CredentialEnd::Source,
                "[target]" => end = CredentialEnd::Target,
                line if line.starts_with('#') => {}
                line => {
                    let (name, value) =
                        line.split_once('=').ok_or_else(|| wrong(number, "NAME=VALUE is needed"))?;
                    let name = name.trim();
                    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
                    if name.is_empty() || !name.bytes().all(is_name) {
                        return Err(wrong(
                            number,
                            "the name has other characters than letters, digits and _",
                        ));
                    }
                    self.add(end, name, value.trim());
                }
            }
            if self.source.len() + self.target.len() > 2 * VALUES_MAX {
                return Err(wrong(number, "there are too many values"));
            }
        }
        Ok(())
    }

    fn into_credentials(self) -> EndCredentials {
        EndCredentials {
            source: self.source.into_iter().collect(),
            target: self.target.into_iter().collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sealed_credentials_reach_one_broker_for_one_lease() {
        let folder = tempfile::tempdir().unwrap();
        let keys = SealingKeys::create(&folder.path().join("key")).unwrap();
        let text = "AWS_REGION=eu\n[target]\n# mine\nAWS_SECRET_ACCESS_KEY = a=b \n";
        let sealed = keys.seal(CREDENTIALS_PURPOSE, &SecretBytes::new(text.as_bytes().to_vec())).unwrap();
        let references = [CredentialReference::Sealed(sealed)];
        let reader = CredentialReader::new(SecretPlaces::default()).unwrap();
        let key = Some(reader.public());
        let sent = sent_credentials(&references, Some(&keys), key, "a lease").unwrap();
        let shown = format!("{sent:?} {}", serde_json::to_string(&sent).unwrap());
        assert!(!shown.contains("AWS"), "{shown}");
        let mut request = CopyRequest::default();
        reader.read(&sent, "a lease").unwrap().apply(&mut request);
        assert_eq!(request.source_store.credentials.names().collect::<Vec<_>>(), ["AWS_REGION"]);
        assert_eq!(request.target_store.credentials.get("AWS_SECRET_ACCESS_KEY"), Some("a=b"));
        assert!(reader.read(&sent, "another lease").is_err(), "another lease");
        let other = CredentialReader::new(SecretPlaces::default()).unwrap();
        assert!(other.read(&sent, "a lease").is_err(), "another broker");
        assert!(sent_credentials(&references, None, key, "a lease").is_err());
        assert!(sent_credentials(&references, Some(&keys), None, "a lease").is_err());
    }

    #[test]
    fn a_request_reads_no_other_place_of_the_broker() {
        let reader = CredentialReader::new(SecretPlaces { folder: None, variables: vec!["PATH".to_owned()] });
        let reader = reader.unwrap();
        let read = |sent: SentCredential| reader.read(&[sent], "a lease");
        let path = read(SentCredential::Environment("PATH".to_owned())).unwrap();
        assert_eq!(path.source.get("PATH"), std::env::var("PATH").ok().as_deref());
        for sent in
            [SentCredential::Environment("HOME".to_owned()), SentCredential::File("/etc/passwd".to_owned())]
        {
            assert_eq!(read(sent).unwrap_err().kind, ErrorKind::Refused);
        }
    }

    #[test]
    fn an_error_names_the_line_and_no_value() {
        for (text, words) in [("A=1\nsesame", "line 2"), ("a sesame=1", "line 1"), ("=sesame", "line 1")] {
            let error = check_credentials(text).unwrap_err().to_string();
            assert!(error.contains(words) && !error.contains("sesame"), "{error}");
        }
        check_credentials("A=1\r\n\n[source]\nB=\n").unwrap();
    }
}
