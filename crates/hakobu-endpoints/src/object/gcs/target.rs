//! Where the requests for a bucket go.

use hakobu_core::{Error, ErrorKind, Result};
use reqwest::Url;

use crate::object::credentials::gcs::TokenRecipient;
use crate::object::credentials::gcs_tokens::is_loopback;
use crate::object::s3::spelling::{encode_key, encode_value};

const OPENING: &str = "opening the bucket";
const GOOGLE: &str = "https://storage.googleapis.com";
/// The domain of Google's servers: the global one, those of regions, and those in private networks.
const GOOGLE_DOMAIN: &str = ".googleapis.com";

/// The URLs of a bucket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct GcsTarget {
    /// The URL of the server, without a slash at the end.
    server: String,
    bucket: String,
    /// True for a server of Google.
    pub(crate) is_google: bool,
    is_private: bool,
}

impl GcsTarget {
    /// Returns the target at an endpoint, or at Google.
    ///
    /// # Errors
    /// `Usage` if the endpoint is no URL of a host, or the bucket's name cannot be one.
    pub(crate) fn new(bucket: &str, endpoint: Option<&str>) -> Result<Self> {
        let usage = |cause: &str| Error::new(ErrorKind::Usage, OPENING, cause).at(bucket);
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || b".-_".contains(&byte);
        if bucket.is_empty() || bucket.len() > 222 || !bucket.bytes().all(fits) || bucket.starts_with('.') {
            return Err(usage("no bucket has this name")
                .hint("names have letters, digits, dots, hyphens and underscores"));
        }
        let wrong =
            || usage("the endpoint is no URL of a host").hint("it is something like http://localhost:4443");
        let url = Url::parse(endpoint.unwrap_or(GOOGLE)).map_err(|_| wrong())?;
        let name = url.host_str().ok_or_else(wrong)?;
        if !matches!(url.scheme(), "http" | "https") || url.query().is_some() || url.fragment().is_some() {
            return Err(wrong());
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(usage("the endpoint has a password in it")
                .hint("name a file of credentials in GOOGLE_APPLICATION_CREDENTIALS"));
        }
        let host = match url.port() {
            Some(port) => format!("{name}:{port}"),
            None => name.to_owned(),
        };
        let is_https = url.scheme() == "https";
        let base = url.path().trim_end_matches('/');
        Ok(Self {
            server: format!("{}://{host}{base}", url.scheme()),
            bucket: bucket.to_owned(),
            is_google: is_https && name.ends_with(GOOGLE_DOMAIN),
            is_private: is_https || is_loopback(name),
        })
    }

    /// Returns what tells the store from all others.
    pub(crate) fn store(&self) -> &str {
        if self.is_google { "google" } else { &self.server }
    }

    /// Returns what tells the bucket from all others.
    pub(crate) fn identity(&self) -> String {
        format!("{} {}", self.store(), self.bucket)
    }

    /// Returns what receives the credentials.
    pub(crate) fn receiver(&self) -> TokenRecipient {
        TokenRecipient { is_google: self.is_google, is_private: self.is_private }
    }

    /// Returns the URL of the bucket's objects.
    pub(crate) fn objects(&self) -> String {
        format!("{}/storage/v1/b/{}/o", self.server, self.bucket)
    }

    /// Returns the URL of an object's resource.
    pub(crate) fn resource(&self, key: &str) -> String {
        format!("{}/{}", self.objects(), encode_value(key))
    }

    /// Returns the URL that uploads go to.
    pub(crate) fn uploads(&self) -> String {
        format!("{}/upload/storage/v1/b/{}/o", self.server, self.bucket)
    }

    /// Returns the URL of the bucket in the interface in XML.
    pub(crate) fn xml(&self) -> String {
        format!("{}/{}", self.server, self.bucket)
    }

    /// Returns the URL of an object in the interface in XML.
    pub(crate) fn xml_object(&self, key: &str) -> String {
        format!("{}/{}", self.xml(), encode_key(key))
    }

    /// Returns the URL of a copy from an object of a bucket to an object of this one.
    pub(crate) fn rewrite(&self, bucket: Option<&str>, from: &str, to: &str) -> String {
        let bucket = bucket.unwrap_or(&self.bucket);
        let (bucket, from, to) = (encode_value(bucket), encode_value(from), encode_value(to));
        format!("{}/storage/v1/b/{bucket}/o/{from}/rewriteTo/b/{}/o/{to}", self.server, self.bucket)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_go_to_google_or_to_the_endpoint() {
        let google = GcsTarget::new("b_1.x", None).unwrap();
        assert_eq!(google.resource("a b/c"), "https://storage.googleapis.com/storage/v1/b/b_1.x/o/a%20b%2Fc");
        assert_eq!(google.xml_object("a b/c"), "https://storage.googleapis.com/b_1.x/a%20b/c");
        let local = GcsTarget::new("b", Some("http://[::1]:4443/base/")).unwrap();
        assert_eq!(local.uploads(), "http://[::1]:4443/base/upload/storage/v1/b/b/o");
        assert_eq!(
            local.rewrite(Some("other"), "x/y", "z"),
            "http://[::1]:4443/base/storage/v1/b/other/o/x%2Fy/rewriteTo/b/b/o/z"
        );
        let region = GcsTarget::new("b_1.x", Some("https://storage.me-central2.rep.googleapis.com")).unwrap();
        assert_eq!(
            region.identity(),
            google.identity(),
            "names of buckets are the same everywhere at Google"
        );
        for (bucket, endpoint) in [
            ("", None),
            ("a/b", None),
            ("..", None),
            ("b", Some("example.com")),
            ("b", Some("ftp://example.com")),
            ("b", Some("https://user:word@example.com")),
            ("b", Some("https://example.com?a=b")),
        ] {
            let refused = GcsTarget::new(bucket, endpoint).unwrap_err();
            assert_eq!(refused.kind, ErrorKind::Usage, "{bucket} {endpoint:?}");
        }
    }

    #[test]
    fn credentials_go_only_where_nobody_else_reads_them() {
        for (endpoint, is_google, is_private) in [
            ("https://storage.googleapis.com", true, true),
            ("http://storage.googleapis.com", false, false),
            ("https://storage.googleapis.com.evil.example", false, true),
            ("http://127.0.0.1:4443", false, true),
            ("http://[::1]:4443", false, true),
            ("http://127.0.0.1.evil.example", false, false),
        ] {
            let receiver = GcsTarget::new("b", Some(endpoint)).unwrap().receiver();
            assert_eq!((receiver.is_google, receiver.is_private), (is_google, is_private), "{endpoint}");
        }
    }
}
