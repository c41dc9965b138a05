//! Credentials, account and endpoint by the rules of Azure's tools: environment variables, Microsoft Entra's identities,
//! the login of `az`.

mod connection_string;
mod entra;
mod environment;
pub(crate) mod shared_key;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hakobu_core::Result;

use connection_string::ConnectionString;
use entra::TokenSource;
pub use environment::AzureEnvironment;
pub(crate) use environment::EntraToken;
use environment::{CONNECTION_STRING, HINT, NO_CREDENTIALS, unauthenticated};
use shared_key::SharedKey;

/// The time before the end of a token at which it is renewed.
const RENEW_BEFORE: Duration = Duration::from_secs(300);

const ACCOUNT: &str = "AZURE_STORAGE_ACCOUNT";
const KEYS: [&str; 2] = ["AZURE_STORAGE_KEY", "AZURE_STORAGE_ACCOUNT_KEY"];
const SAS: &str = "AZURE_STORAGE_SAS_TOKEN";
/// `login` for identities only.
const AUTH_MODE: &str = "AZURE_STORAGE_AUTH_MODE";

/// The proof that is added to a request.
#[derive(Clone)]
pub(crate) enum AzureProof {
    Anonymous,
    Key(Arc<SharedKey>),
    /// A shared access signature, as it stands in a query.
    Sas(Arc<str>),
    Token(Arc<EntraToken>),
}

/// The account and the endpoint that the environment names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct AzureConfiguration {
    pub(crate) account: Option<String>,
    pub(crate) endpoint: Option<String>,
}

impl AzureConfiguration {
    /// Returns the configuration for a location that names this account, or none.
    ///
    /// # Errors
    /// `Usage` if the connection string is none.
    pub(crate) fn of(environment: &AzureEnvironment, account: Option<&str>) -> Result<Self> {
        let connection = ConnectionString::of(environment)?;
        let connection = connection.filter(|connection| connection.is_of(account));
        let configured = environment.get(ACCOUNT).map(str::to_owned);
        Ok(match connection {
            Some(connection) => {
                let account = account.map(str::to_owned).or(connection.account).or(configured);
                Self { endpoint: connection.endpoint, account }
            }
            None => Self { endpoint: None, account: account.map(str::to_owned).or(configured) },
        })
    }
}

/// The credentials for an account.
pub(crate) struct AzureCredentials {
    proof: Mutex<AzureProof>,
    source: Option<TokenSource>,
    renewing: tokio::sync::Mutex<()>,
}

impl AzureCredentials {
    /// Returns no credentials at all.
    pub(crate) fn none() -> Self {
        Self::fixed(AzureProof::Anonymous)
    }

    fn fixed(proof: AzureProof) -> Self {
        Self { proof: Mutex::new(proof), source: None, renewing: tokio::sync::Mutex::new(()) }
    }

    /// Finds the credentials for an account, which is empty if the endpoint does not tell it. The first token is fetched.
    /// Do not call it on a runtime.
    ///
    /// # Errors
    /// `Unauthenticated` if there are none.
    pub(crate) fn load(environment: &AzureEnvironment, account: &str) -> Result<Self> {
        let told = Some(account).filter(|account| !account.is_empty());
        let asks_for_identity =
            environment.get(AUTH_MODE).is_some_and(|mode| mode.eq_ignore_ascii_case("login"));
        if let Some(connection) = ConnectionString::of(environment)?
            .filter(|connection| connection.is_of(told) && !asks_for_identity)
        {
            if let Some(key) = &connection.key {
                return shared_key(connection.account.as_deref().or(told), key, CONNECTION_STRING);
            }
            if let Some(sas) = &connection.sas {
                return sas_of(sas, CONNECTION_STRING);
            }
        }
        let key = KEYS.iter().find_map(|name| Some((*name, environment.get(name)?)));
        let key = key.filter(|_| !asks_for_identity);
        let sas = environment.get(SAS).filter(|_| !asks_for_identity);
        // A key is that of the account beside it.
        let owner = environment.get(ACCOUNT).filter(|owner| told.is_some_and(|account| account != *owner));
        match (key, sas, owner) {
            (Some((name, key)), _, None) => return shared_key(told.or(environment.get(ACCOUNT)), key, name),
            (_, Some(sas), None) => return sas_of(sas, SAS),
            _ => {}
        }
        let source = TokenSource::of(environment);
        let loaded = source.fetch_on_a_thread().and_then(|fetched| {
            fetched
                .blocking_recv()
                .unwrap_or_else(|_| Err(unauthenticated("nothing was returned").hint(HINT)))
        });
        match (loaded, owner) {
            (Ok(token), _) => {
                let proof = Mutex::new(AzureProof::Token(Arc::new(token)));
                Ok(Self { proof, source: Some(source), renewing: tokio::sync::Mutex::new(()) })
            }
            (Err(_), Some(owner)) if key.is_some() || sas.is_some() => {
                let cause = format!(
                    "the credentials in the environment are those of the account {owner}, not of {account}"
                );
                Err(unauthenticated(cause).hint("set AZURE_STORAGE_ACCOUNT and its key, or run az login"))
            }
            (Err(error), _) => Err(error),
        }
    }

    /// Returns what is added to a request now.
    ///
    /// # Errors
    /// `Unauthenticated` if a token has ended and there is no other.
    pub(crate) async fn proof(&self) -> Result<AzureProof> {
        let known = self.known();
        match &known {
            AzureProof::Token(token) if token.ends_within(RENEW_BEFORE) => match self.renew(token).await {
                Ok(token) => Ok(AzureProof::Token(token)),
                Err(_) if !token.ends_within(Duration::ZERO) => Ok(known),
                Err(error) => Err(error),
            },
            _ => Ok(known),
        }
    }

    /// Fetches another token, unless somebody else has done so since `rejected` was in use.
    ///
    /// # Errors
    /// `Unauthenticated` if there is none now.
    pub(crate) async fn renew(&self, rejected: &Arc<EntraToken>) -> Result<Arc<EntraToken>> {
        let _renewing = self.renewing.lock().await;
        if let AzureProof::Token(known) = self.known()
            && !Arc::ptr_eq(&known, rejected)
        {
            return Ok(known);
        }
        let Some(source) = &self.source else { return Err(unauthenticated(NO_CREDENTIALS).hint(HINT)) };
        let lost = || Err(unauthenticated("nothing was returned").hint(HINT));
        let token = Arc::new(source.fetch_on_a_thread()?.await.unwrap_or_else(|_| lost())?);
        *self.proof.lock().unwrap_or_else(PoisonError::into_inner) = AzureProof::Token(Arc::clone(&token));
        Ok(token)
    }

    pub(crate) fn known(&self) -> AzureProof {
        self.proof.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

fn shared_key(account: Option<&str>, key: &str, variable: &str) -> Result<AzureCredentials> {
    let Some(account) = account else {
        return Err(unauthenticated("the account that the key belongs to is not known")
            .hint("set AZURE_STORAGE_ACCOUNT"));
    };
    let key = SharedKey::new(account, key).ok_or_else(|| {
        unauthenticated(format!("{variable} is no key of a storage account: keys are base64"))
            .hint("copy it from the access keys in the portal")
    })?;
    Ok(AzureCredentials::fixed(AzureProof::Key(Arc::new(key))))
}

fn sas_of(sas: &str, variable: &str) -> Result<AzureCredentials> {
    let sas = sas.trim().trim_start_matches(['?', '&']);
    let is_query = sas.bytes().all(|byte| byte.is_ascii_graphic() && !b"#\"<>".contains(&byte));
    let has_signature = sas.split('&').any(|pair| pair.starts_with("sig="));
    if !is_query || !has_signature {
        let cause =
            format!("{variable} is no shared access signature, which is the query of a URL with sig= in it");
        return Err(unauthenticated(cause));
    }
    Ok(AzureCredentials::fixed(AzureProof::Sas(sas.into())))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(variables: &[(&str, &str)]) -> AzureEnvironment {
        variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    fn kind(variables: &[(&str, &str)], account: &str) -> String {
        match AzureCredentials::load(&environment(variables), account) {
            Ok(credentials) => match credentials.known() {
                AzureProof::Key(key) => format!("key of {}", key.account),
                AzureProof::Sas(sas) => format!("sas {sas}"),
                AzureProof::Anonymous => "anonymous".to_owned(),
                AzureProof::Token(_) => "token".to_owned(),
            },
            Err(error) => error.to_string(),
        }
    }

    const ENTRA: (&str, &str) = ("AZCOPY_AUTO_LOGIN_TYPE", "none of these");

    #[test]
    fn variables_are_those_of_the_vendors_tools() {
        for (variables, account, expected) in [
            (&[("AZURE_STORAGE_KEY", "a2V5")][..], "mine", "key of mine"),
            (&[("AZURE_STORAGE_ACCOUNT_KEY", "a2V5")], "mine", "key of mine"),
            (&[("AZURE_STORAGE_KEY", "a2V5"), ("AZURE_STORAGE_ACCOUNT", "mine")], "", "key of mine"),
            (&[("AZURE_STORAGE_SAS_TOKEN", "?sv=1&sig=x%2B")], "mine", "sas sv=1&sig=x%2B"),
            (
                &[("AZURE_STORAGE_CONNECTION_STRING", "AccountName=mine;AccountKey=a2V5")],
                "mine",
                "key of mine",
            ),
            (
                &[(
                    "AZURE_STORAGE_CONNECTION_STRING",
                    "BlobEndpoint=https://mine.blob.core.windows.net/;SharedAccessSignature=sv=1&sig=x",
                )],
                "mine",
                "sas sv=1&sig=x",
            ),
            // The string is of another account, so the key counts.
            (
                &[
                    ("AZURE_STORAGE_CONNECTION_STRING", "AccountName=other;AccountKey=a2V5"),
                    ("AZURE_STORAGE_KEY", "a2V5"),
                ],
                "mine",
                "key of mine",
            ),
        ] {
            assert_eq!(kind(variables, account), expected, "{variables:?}");
        }
        for (variables, words) in [
            (&[("AZURE_STORAGE_KEY", "no base64")][..], "AZURE_STORAGE_KEY is no key"),
            (&[("AZURE_STORAGE_SAS_TOKEN", "sv=1")], "AZURE_STORAGE_SAS_TOKEN is no shared access signature"),
            (
                &[("AZURE_STORAGE_SAS_TOKEN", "sig=a b")],
                "AZURE_STORAGE_SAS_TOKEN is no shared access signature",
            ),
            (&[("AZURE_STORAGE_CONNECTION_STRING", "nonsense")], "AZURE_STORAGE_CONNECTION_STRING"),
            (
                &[ENTRA, ("AZURE_STORAGE_ACCOUNT", "other"), ("AZURE_STORAGE_KEY", "a2V5")],
                "of the account other, not of mine",
            ),
            (&[ENTRA], "AZCOPY_AUTO_LOGIN_TYPE"),
            (
                &[ENTRA, ("AZURE_STORAGE_AUTH_MODE", "login"), ("AZURE_STORAGE_KEY", "a2V5")],
                "AZCOPY_AUTO_LOGIN_TYPE",
            ),
        ] {
            let told = kind(variables, "mine");
            assert!(told.contains(words) && !told.contains("a2V5"), "{told}");
        }
    }

    #[test]
    fn account_and_endpoint_come_from_the_location_first() {
        let string = "DefaultEndpointsProtocol=https;AccountName=mine;AccountKey=a2V5;EndpointSuffix=core.chinacloudapi.cn";
        let all =
            environment(&[("AZURE_STORAGE_CONNECTION_STRING", string), ("AZURE_STORAGE_ACCOUNT", "other")]);
        let of = |account| AzureConfiguration::of(&all, account).unwrap();
        let endpoint = Some("https://mine.blob.core.chinacloudapi.cn".to_owned());
        assert_eq!(
            of(None),
            AzureConfiguration { account: Some("mine".to_owned()), endpoint: endpoint.clone() }
        );
        assert_eq!(of(Some("mine")), AzureConfiguration { account: Some("mine".to_owned()), endpoint });
        assert_eq!(
            of(Some("third")),
            AzureConfiguration { account: Some("third".to_owned()), endpoint: None }
        );
        let text = format!("{all:?}");
        assert!(text.contains("AZURE_STORAGE_CONNECTION_STRING") && !text.contains("a2V5"), "{text}");
    }
}
