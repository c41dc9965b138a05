//! Tokens of Microsoft Entra: from a client's secret, a workload's identity, a machine's identity, or the login of `az`.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use hakobu_core::{Error, Result};
use serde_json::Value;

use super::environment::{AzureEnvironment, EntraToken, HINT, LOADING, NO_CREDENTIALS, unauthenticated};

const RESOURCE: &str = "https://storage.azure.com";
const SCOPE: &str = "https://storage.azure.com/.default";
const PUBLIC_AUTHORITY: &str = "https://login.microsoftonline.com";
/// The address of the service that tells a virtual machine about itself.
const MACHINE_HOST: &str = "http://169.254.169.254";
const ASSERTION: &str = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";
const CONNECT_LIMIT: Duration = Duration::from_secs(10);
/// The time to connect to a machine's own service. Outside of Azure nothing answers.
const MACHINE_CONNECT_LIMIT: Duration = Duration::from_secs(1);
const ANSWER_LIMIT: Duration = Duration::from_secs(30);
const ANSWER_BYTES_MAX: usize = 1 << 20;
/// The time for which a token counts whose end is not told.
const USUAL_TIME: Duration = Duration::from_secs(3600);

pub(super) type TokenReceiver = tokio::sync::oneshot::Receiver<Result<EntraToken>>;

/// A place that tokens come from.
#[derive(Clone)]
pub(super) enum TokenSource {
    /// An application with a secret.
    Secret { authority: String, client: String, secret: String },
    /// An application that a file with a signed statement stands for.
    Workload { authority: String, client: String, file: PathBuf },
    /// The identity of a machine, told at an address.
    Machine { url: String, header: (&'static str, String) },
    /// The user who has logged in with `az`.
    Login(PathBuf),
    /// The user who has logged in with `az`, or else the identity of the machine.
    LoginOrMachine(PathBuf, Box<TokenSource>),
    /// None; the error says why.
    None(Error),
}

impl TokenSource {
    /// Chooses the source, as Azure's tools do.
    pub(super) fn of(environment: &AzureEnvironment) -> Self {
        let get = |name| environment.get(name).map(str::to_owned);
        let authority = || {
            let host = get("AZURE_AUTHORITY_HOST").unwrap_or_else(|| PUBLIC_AUTHORITY.to_owned());
            Some(format!("{}/{}", host.trim_end_matches('/'), get("AZURE_TENANT_ID")?))
        };
        let secret = || {
            let client = get("AZURE_CLIENT_ID").or_else(|| get("AZCOPY_SPA_APPLICATION_ID"))?;
            Some(Self::Secret { authority: authority()?, client, secret: get("AZURE_CLIENT_SECRET")? })
        };
        let workload = || {
            let (client, file) = (get("AZURE_CLIENT_ID")?, get("AZURE_FEDERATED_TOKEN_FILE")?);
            Some(Self::Workload { authority: authority()?, client, file: file.into() })
        };
        let login = || environment.get("PATH").and_then(|path| program_in(path, "az"));
        let missing = |what: &str| Self::None(unauthenticated(format!("{what} for AZCOPY_AUTO_LOGIN_TYPE")));
        match environment.get("AZCOPY_AUTO_LOGIN_TYPE").map(str::to_ascii_uppercase).as_deref() {
            Some("SPN") => secret().unwrap_or_else(|| {
                missing("AZURE_TENANT_ID, AZURE_CLIENT_ID and AZURE_CLIENT_SECRET are needed")
            }),
            Some("WORKLOAD") => workload().unwrap_or_else(|| {
                missing("AZURE_TENANT_ID, AZURE_CLIENT_ID and AZURE_FEDERATED_TOKEN_FILE are needed")
            }),
            Some("MSI") => machine(environment),
            Some("AZCLI") => login().map_or_else(|| missing("az is not in PATH, and needed"), Self::Login),
            Some(_) => {
                Self::None(unauthenticated("AZCOPY_AUTO_LOGIN_TYPE must be SPN, WORKLOAD, MSI or AZCLI"))
            }
            None => secret().or_else(workload).unwrap_or_else(|| match login() {
                // A service says that this machine has an identity; elsewhere a login is what was meant.
                Some(_) if environment.get("IDENTITY_ENDPOINT").is_some() => machine(environment),
                Some(az) => Self::LoginOrMachine(az, Box::new(machine(environment))),
                None => machine(environment),
            }),
        }
    }

    /// Fetches a token on a thread and runtime of its own: the connections that this takes must not depend on the
    /// runtime of a lane, which stands still while its lane does something else.
    ///
    /// # Errors
    /// If no thread can be started.
    pub(super) fn fetch_on_a_thread(&self) -> Result<TokenReceiver> {
        let (sender, receiver) = tokio::sync::oneshot::channel();
        let source = self.clone();
        let fetch = move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            let fetched = match runtime {
                Ok(runtime) => runtime.block_on(source.fetch()),
                Err(error) => Err(Error::io(LOADING, &error)),
            };
            // Nobody waits any more if the run was cancelled.
            drop(sender.send(fetched));
        };
        let started = std::thread::Builder::new().name("credentials".to_owned()).spawn(fetch);
        started.map_err(|error| Error::io(LOADING, &error))?;
        Ok(receiver)
    }

    async fn fetch(&self) -> Result<EntraToken> {
        match self {
            Self::None(error) => Err(error.clone()),
            Self::Secret { authority, client, secret } => {
                let form = [
                    ("grant_type", "client_credentials"),
                    ("scope", SCOPE),
                    ("client_id", client),
                    ("client_secret", secret),
                ];
                let told = from_authority(authority, &form).await;
                told.map_err(|error| {
                    error.hint("check AZURE_TENANT_ID, AZURE_CLIENT_ID and AZURE_CLIENT_SECRET")
                })
            }
            Self::Workload { authority, client, file } => {
                let statement = std::fs::read_to_string(file).map_err(|error| {
                    let cause = Error::io(LOADING, &error).detail;
                    unauthenticated(cause)
                        .at(file.as_os_str().as_encoded_bytes())
                        .hint("check AZURE_FEDERATED_TOKEN_FILE")
                })?;
                let form = [
                    ("grant_type", "client_credentials"),
                    ("scope", SCOPE),
                    ("client_id", client),
                    ("client_assertion_type", ASSERTION),
                    ("client_assertion", statement.trim()),
                ];
                let told = from_authority(authority, &form).await;
                told.map_err(|error| {
                    error.hint("check AZURE_TENANT_ID, AZURE_CLIENT_ID and the federated identity")
                })
            }
            Self::Machine { url, header } => from_machine(url, header).await,
            Self::Login(az) => from_az(az),
            Self::LoginOrMachine(az, machine) => match from_az(az) {
                Ok(token) => Ok(token),
                // Outside of Azure, the answer of az says more.
                Err(error) => Box::pin(machine.fetch()).await.map_err(|_| error),
            },
        }
    }
}

/// Returns the identity of this machine, or of the service that runs this program.
fn machine(environment: &AzureEnvironment) -> TokenSource {
    let client = environment.get("AZURE_CLIENT_ID").map(|client| format!("&client_id={}", encoded(client)));
    let client = client.unwrap_or_default();
    let resource = encoded(RESOURCE);
    match (environment.get("IDENTITY_ENDPOINT"), environment.get("IDENTITY_HEADER")) {
        (Some(endpoint), Some(header)) => TokenSource::Machine {
            url: format!("{endpoint}?api-version=2019-08-01&resource={resource}{client}"),
            header: ("X-IDENTITY-HEADER", header.to_owned()),
        },
        _ => {
            let host = environment.get("AZURE_POD_IDENTITY_AUTHORITY_HOST").unwrap_or(MACHINE_HOST);
            let host = host.trim_end_matches('/');
            TokenSource::Machine {
                url: format!(
                    "{host}/metadata/identity/oauth2/token?api-version=2018-02-01&resource={resource}{client}"
                ),
                header: ("Metadata", "true".to_owned()),
            }
        }
    }
}

fn program_in(path: &str, name: &str) -> Option<PathBuf> {
    std::env::split_paths(path).map(|folder| folder.join(name)).find(|program| program.is_file())
}

/// Returns a value as part of a query.
fn encoded(text: &str) -> String {
    let letter = |byte: u8| match byte {
        b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => char::from(byte).to_string(),
        _ => format!("%{byte:02X}"),
    };
    text.bytes().map(letter).collect()
}

async fn from_authority(authority: &str, form: &[(&str, &str)]) -> Result<EntraToken> {
    let body: Vec<String> = form.iter().map(|(name, value)| format!("{name}={}", encoded(value))).collect();
    let client = client(CONNECT_LIMIT, true)?;
    let request = client
        .post(format!("{authority}/oauth2/v2.0/token"))
        .header("Content-Type", "application/x-www-form-urlencoded")
        .body(body.join("&"));
    answered(request).await.map_err(EntraFailure::into_error)
}

async fn from_machine(url: &str, (name, value): &(&'static str, String)) -> Result<EntraToken> {
    let client = client(MACHINE_CONNECT_LIMIT, false)?;
    let told = answered(client.get(url).header(*name, value)).await;
    // Elsewhere, something else may have the address.
    told.map_err(|failure| match failure {
        EntraFailure::NoServer(_) => unauthenticated(NO_CREDENTIALS).hint(HINT),
        EntraFailure::Refused(error) => error.hint(
            "check the identity that is assigned to this machine, and AZURE_CLIENT_ID if it has several",
        ),
    })
}

/// The reason why there is no token.
enum EntraFailure {
    /// Nothing answers, or something that is no server of tokens.
    NoServer(Error),
    /// The server refuses.
    Refused(Error),
}

impl EntraFailure {
    fn into_error(self) -> Error {
        match self {
            Self::NoServer(error) | Self::Refused(error) => error,
        }
    }
}

fn client(connect: Duration, takes_proxies: bool) -> Result<reqwest::Client> {
    let mut building = reqwest::Client::builder()
        .redirect(reqwest::redirect::Policy::none())
        .connect_timeout(connect)
        .timeout(ANSWER_LIMIT);
    if !takes_proxies {
        building = building.no_proxy();
    }
    building.build().map_err(|error| unauthenticated(error.to_string()))
}

async fn answered(request: reqwest::RequestBuilder) -> Result<EntraToken, EntraFailure> {
    let lost = |error: reqwest::Error| {
        // The address may have a secret in it.
        let words = format!("no answer from the server of tokens: {}", error.without_url());
        EntraFailure::NoServer(unauthenticated(words))
    };
    let mut answer = request.send().await.map_err(lost)?;
    let status = answer.status().as_u16();
    let mut body = Vec::new();
    while let Some(chunk) = answer.chunk().await.map_err(lost)? {
        if body.len() + chunk.len() > ANSWER_BYTES_MAX {
            let words = "the server of tokens answers without an end";
            return Err(EntraFailure::Refused(unauthenticated(words)));
        }
        body.extend_from_slice(&chunk);
    }
    let told: Value = serde_json::from_slice(&body).unwrap_or_default();
    if let Some(token) = token_of(&told, "access_token") {
        return Ok(token);
    }
    let words = ["error_description", "error"].iter().find_map(|name| told.get(name)?.as_str());
    // Behind the first line are identifiers of the request.
    let words = words.and_then(|words| words.lines().next()).map(str::to_owned);
    Err(match words {
        Some(words) => EntraFailure::Refused(unauthenticated(words)),
        None => {
            let words = format!("the server of tokens answers with status {status}");
            EntraFailure::NoServer(unauthenticated(words))
        }
    })
}

fn from_az(az: &Path) -> Result<EntraToken> {
    let output = Command::new(az)
        .args(["account", "get-access-token", "--output", "json", "--resource", RESOURCE])
        .stdin(Stdio::null())
        .output()
        .map_err(|error| Error::io("running az", &error))?;
    let told: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    if let Some(token) = token_of(&told, "accessToken") {
        return Ok(token);
    }
    let words = String::from_utf8_lossy(&output.stderr);
    let words = words.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or("az returned no token");
    let words = words.trim_start_matches("ERROR: ").trim_end_matches('.').to_owned();
    Err(unauthenticated(words).hint(HINT))
}

/// Returns the token of an answer, and its end: as seconds since 1970, as seconds from now, or as usual.
fn token_of(told: &Value, name: &str) -> Option<EntraToken> {
    let token = told.get(name)?.as_str().filter(|token| token.bytes().all(|byte| byte.is_ascii_graphic()))?;
    let seconds = |name: &str| {
        let value = told.get(name)?;
        value.as_u64().or_else(|| value.as_str()?.parse().ok())
    };
    let absolute = seconds("expires_on").and_then(|end| UNIX_EPOCH.checked_add(Duration::from_secs(end)));
    let relative = || {
        let left = seconds("expires_in").map_or(USUAL_TIME, Duration::from_secs);
        SystemTime::now().checked_add(left)
    };
    Some(EntraToken { token: token.to_owned(), expires: absolute.or_else(relative)? })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use hakobu_core::ErrorKind;
    use hakobu_testkit::http::{ScriptedAnswer, ScriptedServer};
    use tempfile::TempDir;

    use super::*;

    fn fetch(variables: &[(&str, &str)]) -> Result<EntraToken> {
        let variables = variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        TokenSource::of(&variables.collect()).fetch_on_a_thread()?.blocking_recv().unwrap()
    }

    fn token_server() -> ScriptedServer {
        let answer = "{\"access_token\":\"abc.def\",\"expires_in\":3599,\"token_type\":\"Bearer\"}";
        ScriptedServer::start(None, move |_| ScriptedAnswer::with(200, &[], answer)).unwrap()
    }

    #[test]
    fn a_client_with_a_secret_gets_a_token() {
        let server = token_server();
        let client = [
            ("AZURE_AUTHORITY_HOST", server.endpoint.as_str()),
            ("AZURE_TENANT_ID", "tenant"),
            ("AZURE_CLIENT_ID", "me"),
            ("AZURE_CLIENT_SECRET", "a&b"),
        ];
        let token = fetch(&client).unwrap();
        assert!(token.token == "abc.def" && token.expires > SystemTime::now() + Duration::from_secs(3000));
        let request = server.requests().pop().unwrap();
        assert_eq!((request.method.as_str(), request.target.as_str()), ("POST", "/tenant/oauth2/v2.0/token"));
        let body = String::from_utf8(request.body).unwrap();
        assert!(
            body.contains("client_secret=a%26b")
                && body.contains("scope=https%3A%2F%2Fstorage.azure.com%2F.default")
        );
    }

    #[test]
    fn a_workload_gets_a_token_for_its_statement() {
        let (server, folder) = (token_server(), TempDir::new().unwrap());
        let file = folder.path().join("token");
        std::fs::write(&file, "statement\n").unwrap();
        let client = [
            ("AZURE_AUTHORITY_HOST", server.endpoint.as_str()),
            ("AZURE_TENANT_ID", "tenant"),
            ("AZURE_CLIENT_ID", "me"),
            ("AZURE_FEDERATED_TOKEN_FILE", file.to_str().unwrap()),
        ];
        fetch(&client).unwrap();
        let body = String::from_utf8(server.requests().pop().unwrap().body).unwrap();
        assert!(body.ends_with("client_assertion=statement"), "{body}");
        std::fs::remove_file(&file).unwrap();
        let error = fetch(&client).err().unwrap();
        assert!(
            error.kind == ErrorKind::Unauthenticated
                && error.to_string().contains("AZURE_FEDERATED_TOKEN_FILE")
        );
    }

    #[test]
    fn a_machine_is_known_by_its_own_service() {
        let server = token_server();
        fetch(&[("AZURE_POD_IDENTITY_AUTHORITY_HOST", &server.endpoint), ("AZURE_CLIENT_ID", "me")]).unwrap();
        let identity = format!("{}/msi/token", server.endpoint);
        fetch(&[("IDENTITY_ENDPOINT", &identity), ("IDENTITY_HEADER", "secret")]).unwrap();
        let requests = server.requests();
        let resource = "resource=https%3A%2F%2Fstorage.azure.com";
        assert_eq!(
            requests[0].target,
            format!("/metadata/identity/oauth2/token?api-version=2018-02-01&{resource}&client_id=me")
        );
        assert_eq!(requests[0].header("metadata"), Some("true"));
        assert_eq!(requests[1].target, format!("/msi/token?api-version=2019-08-01&{resource}"));
        assert_eq!(requests[1].header("x-identity-header"), Some("secret"));
    }

    #[test]
    fn what_keeps_a_token_away_is_said() {
        let words = "{\"error\":\"invalid_client\",\"error_description\":\"AADSTS7000215: Invalid client secret.\\nTrace ID: 1\"}";
        let server = ScriptedServer::start(None, move |_| ScriptedAnswer::with(401, &[], words)).unwrap();
        let client = [
            ("AZURE_AUTHORITY_HOST", server.endpoint.as_str()),
            ("AZURE_TENANT_ID", "tenant"),
            ("AZURE_CLIENT_ID", "me"),
            ("AZURE_CLIENT_SECRET", "wrong"),
        ];
        let error = fetch(&client).err().unwrap().to_string();
        assert!(error.contains("Invalid client secret") && error.contains("AZURE_CLIENT_SECRET"), "{error}");
        assert!(!error.contains("Trace ID"), "{error}");
        let endless = ScriptedServer::start(None, |_| {
            ScriptedAnswer::Endless(b"HTTP/1.1 200 OK\r\n\r\n".to_vec(), vec![b'x'; 1 << 16])
        })
        .unwrap();
        let error = fetch(&[("AZURE_POD_IDENTITY_AUTHORITY_HOST", &endless.endpoint)]).err().unwrap();
        assert!(error.to_string().contains("without an end"), "{error}");
        // Nothing listens there.
        let error = fetch(&[("AZURE_POD_IDENTITY_AUTHORITY_HOST", "http://127.0.0.1:1")]).err().unwrap();
        assert!(error.to_string().contains("AZURE_STORAGE_KEY"), "{error}");
    }

    #[test]
    fn the_login_of_az_is_used() {
        let folder = TempDir::new().unwrap();
        let az = folder.path().join("az");
        let install = |script: &str| {
            std::fs::write(&az, format!("#!/bin/sh\n{script}\n")).unwrap();
            std::fs::set_permissions(&az, PermissionsExt::from_mode(0o755)).unwrap();
        };
        let path = [
            ("PATH", folder.path().to_str().unwrap()),
            ("AZURE_POD_IDENTITY_AUTHORITY_HOST", "http://127.0.0.1:1"),
        ];
        install("echo '{\"accessToken\": \"abc\", \"expires_on\": 4102444800}'");
        let token = fetch(&path).unwrap();
        assert!(token.token == "abc" && token.expires == UNIX_EPOCH + Duration::from_secs(4_102_444_800));
        install("echo 'ERROR: Please run az login to setup account.' >&2; exit 1");
        let error = fetch(&path).err().unwrap();
        assert!(error.to_string().contains("Please run az login"), "{error}");
    }
}
