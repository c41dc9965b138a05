//! Connection strings: `Name=Value;Name=Value`, as the portal shows them.

use hakobu_core::{Error, ErrorKind, Result};

use super::environment::{AzureEnvironment, CONNECTION_STRING, LOADING};

/// The account, key and address that Microsoft's emulators have.
const EMULATOR: &str = "AccountName=devstoreaccount1;\
    AccountKey=Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==;\
    BlobEndpoint=http://127.0.0.1:10000/devstoreaccount1";

/// The parts of a connection string that concern blobs.
#[derive(Clone, Default, PartialEq, Eq)]
pub(super) struct ConnectionString {
    pub(super) account: Option<String>,
    pub(super) key: Option<String>,
    pub(super) sas: Option<String>,
    pub(super) endpoint: Option<String>,
}

impl ConnectionString {
    /// Returns that of the environment, or `None` if there is none.
    ///
    /// # Errors
    /// `Usage` if it is none.
    pub(super) fn of(environment: &AzureEnvironment) -> Result<Option<Self>> {
        let Some(text) = environment.get(CONNECTION_STRING) else { return Ok(None) };
        let wrong = || {
            let cause = format!("{CONNECTION_STRING} is no connection string: Name=Value;Name=Value");
            Error::new(ErrorKind::Usage, LOADING, cause).hint("copy it from the access keys in the portal")
        };
        Self::parse(text).ok_or_else(wrong).map(Some)
    }

    /// Parses a string; `None` if it names neither an account nor an endpoint.
    fn parse(text: &str) -> Option<Self> {
        let mut parsed = Self::default();
        let (mut protocol, mut suffix) = ("https", "core.windows.net");
        for pair in text.split(';').filter(|pair| !pair.trim().is_empty()) {
            let (name, value) = pair.split_once('=')?;
            let (name, value) = (name.trim().to_ascii_lowercase(), value.trim());
            match name.as_str() {
                "usedevelopmentstorage" if value.eq_ignore_ascii_case("true") => {
                    return Self::parse(EMULATOR);
                }
                "defaultendpointsprotocol" => protocol = value,
                "endpointsuffix" => suffix = value,
                "accountname" => parsed.account = Some(value.to_owned()),
                "accountkey" => parsed.key = Some(value.to_owned()),
                "sharedaccesssignature" => parsed.sas = Some(value.to_owned()),
                "blobendpoint" => parsed.endpoint = Some(value.trim_end_matches('/').to_owned()),
                _ => {}
            }
        }
        if parsed.endpoint.is_none() {
            let account = parsed.account.as_ref()?;
            parsed.endpoint = Some(format!("{protocol}://{account}.blob.{suffix}"));
        }
        Some(parsed)
    }

    /// Returns true if it is for this account, as far as both are known.
    pub(super) fn is_of(&self, account: Option<&str>) -> bool {
        let Some(account) = account else { return true };
        match (&self.account, &self.endpoint) {
            (Some(own), _) => own == account,
            (None, Some(endpoint)) => {
                let host = endpoint.split_once("://").map_or(endpoint.as_str(), |(_, rest)| rest);
                host.split(['.', '/', ':']).any(|word| word == account)
            }
            _ => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_name_account_key_and_endpoint() {
        let parsed =
            ConnectionString::parse(" AccountName=a; accountkey=a==;BlobEndpoint=http://h:1/a/; ").unwrap();
        assert_eq!(parsed.account.as_deref(), Some("a"));
        assert_eq!(parsed.key.as_deref(), Some("a=="));
        assert_eq!(parsed.endpoint.as_deref(), Some("http://h:1/a"));
        let emulator = ConnectionString::parse("UseDevelopmentStorage=true").unwrap();
        assert_eq!(emulator.endpoint.as_deref(), Some("http://127.0.0.1:10000/devstoreaccount1"));
        assert!(
            emulator.is_of(Some("devstoreaccount1")) && emulator.is_of(None) && !emulator.is_of(Some("b"))
        );
        for wrong in ["nonsense", "AccountKey=a==", ""] {
            assert!(ConnectionString::parse(wrong).is_none(), "{wrong}");
        }
    }
}
