//! Credentials of Google Cloud Storage: application default credentials, as Google's own libraries have them.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use hakobu_core::store_credentials::StoreCredentials;
use hakobu_core::{Error, ErrorKind, Result};
use serde::Deserialize;

use super::gcs_tokens::{
    AccessToken, GoogleTokenSource, HINT, LOADING, METADATA_HOST, ServiceAccount, UserAccount, none,
};

/// The time before the end of a token at which it is renewed.
const RENEW_BEFORE: Duration = Duration::from_secs(180);
/// The names of credentials that are given for one run: the content of a file of credentials, and a token.
pub const GOOGLE_CREDENTIALS: [&str; 2] = [CONTENT, TOKEN];
const CONTENT: &str = "GOOGLE_CREDENTIALS";
const KEY_FILE: &str = "GOOGLE_APPLICATION_CREDENTIALS";
const TOKEN: &str = "CLOUDSDK_AUTH_ACCESS_TOKEN";
/// The largest file of credentials.
const FILE_BYTES_MAX: u64 = 64 << 10;

/// A choice among what the environment has.
#[derive(Clone, Debug, Default)]
pub struct GcsCredentialSettings {
    /// True to send no credentials at all, for public buckets.
    pub is_anonymous: bool,
    /// The file with credentials, instead of the one that the environment names.
    pub file: Option<PathBuf>,
    /// Credentials to use instead of those of the environment.
    pub given: StoreCredentials,
}

/// Where the credentials will be sent to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TokenRecipient {
    /// True if it is a server of Google.
    pub(crate) is_google: bool,
    /// True if nobody on the way can read what is sent.
    pub(crate) is_private: bool,
}

/// The credentials of a bucket, renewed before they end.
pub(crate) struct GcsCredentials {
    /// `None` if requests are sent without credentials.
    source: Option<Arc<GoogleTokenSource>>,
    /// The project that is named with the credentials, or in the environment.
    pub(crate) project: Option<String>,
    token: Mutex<Option<Arc<AccessToken>>>,
    renewing: tokio::sync::Mutex<()>,
}

impl GcsCredentials {
    /// Finds the credentials, and gets a token for the first time. Do not call it on a runtime.
    ///
    /// # Errors
    /// `Unauthenticated` if there are no credentials or they do not work, `Usage` if they cannot be read.
    pub(crate) fn load(settings: &GcsCredentialSettings, receiver: TokenRecipient) -> Result<Self> {
        let (source, project) = match settings.is_anonymous {
            true => (None, None),
            false => find(settings, receiver)?,
        };
        if source.is_some() && !receiver.is_private {
            let words = "the endpoint is not https, so that others could read the credentials on their way";
            let error = Error::new(ErrorKind::Usage, LOADING, words);
            return Err(error.hint("name an https endpoint, or send none (--no-sign-request)"));
        }
        let project = project_of_environment().or(project).or_else(|| variable("GOOGLE_CLOUD_PROJECT"));
        let source = source.map(Arc::new);
        let token = source.as_ref().map(|source| first_token(Arc::clone(source))).transpose()?;
        let token = Mutex::new(token.map(Arc::new));
        Ok(Self { source, project, token, renewing: tokio::sync::Mutex::new(()) })
    }

    /// Returns true if requests carry credentials.
    pub(crate) fn are_used(&self) -> bool {
        self.source.is_some()
    }

    /// Returns the token, or `None` if requests carry none.
    ///
    /// # Errors
    /// `Unauthenticated` if it has ended and cannot be renewed.
    pub(crate) async fn token(&self) -> Result<Option<Arc<AccessToken>>> {
        let known = self.known();
        match &known {
            Some(token) if token.ends_within(RENEW_BEFORE) => match self.renew(token).await {
                Ok(token) => Ok(Some(token)),
                Err(_) if !token.ends_within(Duration::ZERO) => Ok(known),
                Err(error) => Err(error),
            },
            _ => Ok(known),
        }
    }

    /// Gets a new token, unless somebody else has done so since `rejected` was in use.
    ///
    /// # Errors
    /// `Unauthenticated` if there is none now.
    pub(crate) async fn renew(&self, rejected: &Arc<AccessToken>) -> Result<Arc<AccessToken>> {
        let _renewing = self.renewing.lock().await;
        if let Some(known) = self.known().filter(|known| !Arc::ptr_eq(known, rejected)) {
            return Ok(known);
        }
        let source = self.source.clone().ok_or_else(lost)?;
        let token = Arc::new(on_a_thread_of_its_own(source)?.await.map_err(|_| lost())??);
        *self.token.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(&token));
        Ok(token)
    }

    fn known(&self) -> Option<Arc<AccessToken>> {
        self.token.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

fn lost() -> Error {
    Error::new(ErrorKind::Unauthenticated, LOADING, "nothing was returned").hint(HINT)
}

impl AccessToken {
    fn ends_within(&self, time: Duration) -> bool {
        self.expires.is_some_and(|expires| expires <= SystemTime::now() + time)
    }
}

type TokenReply = tokio::sync::oneshot::Receiver<Result<AccessToken>>;

fn first_token(source: Arc<GoogleTokenSource>) -> Result<AccessToken> {
    on_a_thread_of_its_own(source)?.blocking_recv().map_err(|_| lost())?
}

/// Gets a token on a thread and runtime of its own: the connection must not depend on the runtime of a lane, which stands
/// still while its lane does something else.
fn on_a_thread_of_its_own(source: Arc<GoogleTokenSource>) -> Result<TokenReply> {
    let (sender, receiver) = tokio::sync::oneshot::channel();
    let get = move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let token = match runtime {
            Ok(runtime) => runtime.block_on(source.token()),
            Err(error) => Err(Error::io(LOADING, &error)),
        };
        // Nobody waits any more if the run was cancelled.
        drop(sender.send(token));
    };
    let started = std::thread::Builder::new().name("credentials".to_owned()).spawn(get);
    started.map_err(|error| Error::io(LOADING, &error))?;
    Ok(receiver)
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

fn project_of_environment() -> Option<String> {
    variable("GOOGLE_CLOUD_QUOTA_PROJECT")
}

/// Looks for credentials where Google's libraries do. Those that nobody has named for this run are for Google's servers
/// only, where a wrong endpoint would otherwise learn them.
fn find(
    settings: &GcsCredentialSettings,
    receiver: TokenRecipient,
) -> Result<(Option<GoogleTokenSource>, Option<String>)> {
    if let Some(content) = settings.given.get(CONTENT) {
        let (source, project) = parse(content.as_bytes(), |error| error.at(CONTENT))?;
        return Ok((Some(source), project));
    }
    if let Some(token) = settings.given.get(TOKEN) {
        return Ok((Some(GoogleTokenSource::Fixed(token.to_owned())), None));
    }
    if let Some(file) = settings.file.clone().or_else(|| variable(KEY_FILE).map(PathBuf::from)) {
        let (source, project) = read(&file)?;
        return Ok((Some(source), project));
    }
    if let Some(token) = variable(TOKEN) {
        return Ok((Some(GoogleTokenSource::Fixed(token)), None));
    }
    if !receiver.is_google {
        return Ok((None, None));
    }
    if let Some(file) = file_of_gcloud().filter(|file| file.exists()) {
        let (source, project) = read(&file)?;
        return Ok((Some(source), project));
    }
    let host = variable("GCE_METADATA_HOST");
    if host.is_none() && variable("NO_GCE_CHECK").is_some_and(|value| value.eq_ignore_ascii_case("true")) {
        return Err(none());
    }
    Ok((Some(GoogleTokenSource::MetadataServer(host.unwrap_or_else(|| METADATA_HOST.to_owned()))), None))
}

/// Returns the path of the file that `gcloud auth application-default login` writes.
fn file_of_gcloud() -> Option<PathBuf> {
    let folder = match variable("CLOUDSDK_CONFIG") {
        Some(folder) => PathBuf::from(folder),
        None => Path::new(&std::env::var_os("HOME")?).join(".config/gcloud"),
    };
    Some(folder.join("application_default_credentials.json"))
}

/// A file of credentials.
#[derive(Deserialize, Default)]
#[serde(default)]
struct CredentialFile {
    r#type: String,
    client_email: String,
    private_key_id: String,
    private_key: String,
    token_uri: Option<String>,
    client_id: String,
    client_secret: String,
    refresh_token: String,
    quota_project_id: Option<String>,
    project_id: Option<String>,
}

/// Reads a file of credentials.
fn read(path: &Path) -> Result<(GoogleTokenSource, Option<String>)> {
    let at = |error: Error| {
        let error = Error { during: "reading the credentials in".into(), ..error };
        error.at(path.as_os_str().as_encoded_bytes())
    };
    let content = std::fs::metadata(path).and_then(|found| match found.len() <= FILE_BYTES_MAX {
        true => std::fs::read(path),
        false => Err(std::io::ErrorKind::FileTooLarge.into()),
    });
    let content = content.map_err(|error| {
        let error = Error::io(LOADING, &error);
        at(Error { kind: ErrorKind::Unauthenticated, ..error }).hint(HINT)
    })?;
    parse(&content, at)
}

/// Parses the content of a file of credentials. `at` adds the place to errors.
fn parse(content: &[u8], at: impl Fn(Error) -> Error) -> Result<(GoogleTokenSource, Option<String>)> {
    let wrong = |kind, words: &str| at(Error::new(kind, LOADING, words));
    let file: CredentialFile = serde_json::from_slice(content)
        .map_err(|_| wrong(ErrorKind::Unauthenticated, "it is no JSON file with credentials").hint(HINT))?;
    let source = match file.r#type.as_str() {
        "service_account" => {
            let account = ServiceAccount::new(
                file.client_email,
                file.private_key_id,
                &file.private_key,
                file.token_uri,
            );
            GoogleTokenSource::ServiceAccount(Box::new(account.map_err(&at)?))
        }
        "authorized_user" => GoogleTokenSource::User(UserAccount {
            client_id: file.client_id,
            client_secret: file.client_secret,
            refresh_token: file.refresh_token,
            token_uri: file.token_uri,
        }),
        "external_account" | "external_account_authorized_user" | "impersonated_service_account" => {
            let words = format!("credentials of type {} are not in this version", file.r#type);
            let hint = format!("set {TOKEN} to what gcloud auth print-access-token prints");
            return Err(at(Error::new(ErrorKind::Unauthenticated, LOADING, words)).hint(hint));
        }
        _ => return Err(wrong(ErrorKind::Unauthenticated, "it is no JSON file with credentials").hint(HINT)),
    };
    Ok((source, file.quota_project_id.or(file.project_id)))
}
