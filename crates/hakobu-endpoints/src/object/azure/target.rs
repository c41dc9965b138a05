//! Where the requests for a container go.

use hakobu_core::{Error, ErrorKind, Result};
use reqwest::Url;

pub(super) const OPENING: &str = "opening the container";
const PUBLIC_CLOUD: &str = "core.windows.net";
/// The first names of hosts that serve blobs for the account before them.
const SERVICES: [&str; 2] = ["blob", "dfs"];

/// The URL of a container, in parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AzureTarget {
    /// The storage account; empty if the endpoint does not tell it.
    pub(crate) account: String,
    /// `https://` and the host, with a port that is not the usual one.
    pub(crate) origin: String,
    /// The path before containers: `/account` where the host's name does not have it.
    pub(crate) base: String,
    pub(crate) container: String,
}

impl AzureTarget {
    /// Derives the target from an endpoint, or from the name of the account in the public cloud.
    ///
    /// # Errors
    /// `Usage` if the endpoint is no URL of a host, or is that of another account; or if there is neither.
    pub(crate) fn new(container: &str, account: Option<&str>, endpoint: Option<&str>) -> Result<Self> {
        let usage = |cause: String| Error::new(ErrorKind::Usage, OPENING, cause).at(container);
        let fits =
            |text: &str| text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"$-".contains(&byte));
        if container.is_empty() || container.len() > 63 || !fits(container) {
            return Err(usage("no container has this name".to_owned()));
        }
        let Some(endpoint) = endpoint else {
            let account = account.ok_or_else(|| {
                usage("the storage account is not known".to_owned()).hint(
                    "write https://ACCOUNT.blob.core.windows.net/CONTAINER/PATH, or set AZURE_STORAGE_ACCOUNT",
                )
            })?;
            if account.is_empty() || !account.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
                return Err(usage("no storage account has the name in AZURE_STORAGE_ACCOUNT".to_owned()));
            }
            return Ok(Self {
                account: account.to_owned(),
                origin: format!("https://{account}.blob.{PUBLIC_CLOUD}"),
                base: String::new(),
                container: container.to_owned(),
            });
        };
        let wrong = || {
            usage("the endpoint is no URL of a host".to_owned())
                .hint("it is something like https://ACCOUNT.blob.core.windows.net")
        };
        let url = Url::parse(endpoint).map_err(|_| wrong())?;
        let host = url.host_str().ok_or_else(wrong)?.to_owned();
        let is_plain = url.username().is_empty() && url.password().is_none() && url.query().is_none();
        if !matches!(url.scheme(), "http" | "https") || url.fragment().is_some() || !is_plain {
            return Err(wrong());
        }
        let mut base = url.path().trim_end_matches('/').to_owned();
        let is_address =
            host == "localhost" || host.starts_with('[') || host.parse::<std::net::Ipv4Addr>().is_ok();
        let of_host = (!is_address).then(|| account_of(&host)).flatten();
        // At an address the account is the beginning of the path.
        if is_address
            && base.is_empty()
            && let Some(account) = account
        {
            base = format!("/{account}");
        }
        let of_path = base.strip_prefix('/').filter(|_| is_address).map(|base| base.split('/').next());
        let told = of_host.or_else(|| of_path.flatten().map(str::to_owned));
        if let (Some(told), Some(account)) = (&told, account)
            && told != account
        {
            return Err(usage(format!("the endpoint is that of the account {told}, not of {account}"))
                .hint("check AZURE_STORAGE_ACCOUNT, or leave the account out of the location"));
        }
        let account = told.or_else(|| account.map(str::to_owned)).unwrap_or_default();
        let host = url.port().map_or_else(|| host.clone(), |port| format!("{host}:{port}"));
        let origin = format!("{}://{host}", url.scheme());
        Ok(Self { account, origin, base, container: container.to_owned() })
    }

    /// Returns the path of the container.
    pub(crate) fn path(&self) -> String {
        format!("{}/{}", self.base, self.container)
    }
}

/// Returns the account in the name of a host of Azure's, such as `ACCOUNT.blob.core.windows.net`.
fn account_of(host: &str) -> Option<String> {
    let (account, rest) = host.split_once('.')?;
    // A secondary location, or one in a zone of its own (`ACCOUNT.z1.blob.…`), serves the same account.
    let service = rest.split('.').find(|label| SERVICES.contains(label))?;
    (!service.is_empty()).then(|| account.strip_suffix("-secondary").unwrap_or(account).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(account: Option<&str>, endpoint: Option<&str>) -> Result<(String, String)> {
        let target = AzureTarget::new("box", account, endpoint)?;
        Ok((target.account.clone(), format!("{}{}", target.origin, target.path())))
    }

    #[test]
    fn containers_are_reached_where_the_provider_has_them() {
        for (account, endpoint, told, expected) in [
            (Some("mine"), None, "mine", "https://mine.blob.core.windows.net/box"),
            (
                None,
                Some("https://mine.blob.core.chinacloudapi.cn/"),
                "mine",
                "https://mine.blob.core.chinacloudapi.cn/box",
            ),
            (
                None,
                Some("https://mine.z1.blob.storage.azure.net"),
                "mine",
                "https://mine.z1.blob.storage.azure.net/box",
            ),
            (
                None,
                Some("https://mine-secondary.blob.core.windows.net"),
                "mine",
                "https://mine-secondary.blob.core.windows.net/box",
            ),
            (
                None,
                Some("http://127.0.0.1:10000/devstoreaccount1"),
                "devstoreaccount1",
                "http://127.0.0.1:10000/devstoreaccount1/box",
            ),
            (Some("mine"), Some("http://127.0.0.1:10000"), "mine", "http://127.0.0.1:10000/mine/box"),
            (Some("mine"), Some("http://[::1]:10000/"), "mine", "http://[::1]:10000/mine/box"),
            (Some("mine"), Some("https://blobs.example.org"), "mine", "https://blobs.example.org/box"),
            (None, Some("https://blobs.example.org"), "", "https://blobs.example.org/box"),
        ] {
            assert_eq!(
                url(account, endpoint).unwrap(),
                (told.to_owned(), expected.to_owned()),
                "{endpoint:?}"
            );
        }
        for (account, endpoint) in [
            (None, None),
            (Some("a/b"), None),
            (Some("other"), Some("https://mine.blob.core.windows.net")),
            (Some("other"), Some("http://127.0.0.1:10000/devstoreaccount1")),
            (None, Some("mine.blob.core.windows.net")),
            (None, Some("ftp://mine.blob.core.windows.net")),
            (None, Some("https://user@mine.blob.core.windows.net")),
            (None, Some("https://mine.blob.core.windows.net?sig=x")),
        ] {
            let refused = url(account, endpoint).unwrap_err();
            assert_eq!(refused.kind, ErrorKind::Usage, "{account:?} {endpoint:?}");
        }
        assert!(AzureTarget::new("a/b", Some("mine"), None).is_err());
    }
}
