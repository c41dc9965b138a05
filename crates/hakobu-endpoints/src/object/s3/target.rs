//! Where the requests for a bucket go.

use hakobu_core::{Error, ErrorKind, Result};
use reqwest::Url;

const OPENING: &str = "opening the bucket";

/// The URL of a bucket, in parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct S3Target {
    pub(crate) region: String,
    /// `https://` and the host, with a port that is not the usual one.
    pub(crate) origin: String,
    /// The host as its header has it.
    pub(crate) host: String,
    /// The path before keys: empty if the bucket is part of the host's name, `/bucket` otherwise.
    pub(crate) path: String,
    /// True if the endpoint was chosen here and does not follow from the region.
    is_chosen: bool,
}

impl S3Target {
    /// Derives the target from an endpoint, or from the region for AWS.
    ///
    /// # Errors
    /// `Usage` if the endpoint is no URL of a host, or the bucket's name cannot be one.
    pub(crate) fn new(bucket: &str, endpoint: Option<&str>, region: &str) -> Result<Self> {
        let usage = |cause: &str| Error::new(ErrorKind::Usage, OPENING, cause).at(bucket);
        let fits =
            |text: &str| text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-_".contains(&byte));
        if bucket.is_empty() || bucket.len() > 255 || !fits(bucket) || bucket.starts_with('.') {
            return Err(usage("no bucket has this name").hint("names have letters, digits, dots and hyphens"));
        }
        if region.is_empty() || !fits(region) || region.contains('.') {
            return Err(usage("no region has this name").hint("a region is something like eu-central-1"));
        }
        let Some(endpoint) = endpoint else { return Ok(Self::of_aws(bucket, region)) };
        let wrong =
            || usage("the endpoint is no URL of a host").hint("it is something like https://s3.example.com");
        let url = Url::parse(endpoint).map_err(|_| wrong())?;
        let host = url.host_str().ok_or_else(wrong)?;
        if !matches!(url.scheme(), "http" | "https") || url.query().is_some() || url.fragment().is_some() {
            return Err(wrong());
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(usage("the endpoint has a password in it").hint("set AWS_ACCESS_KEY_ID instead"));
        }
        let host = match url.port() {
            Some(port) => format!("{host}:{port}"),
            None => host.to_owned(),
        };
        let (region, origin) = (region.to_owned(), format!("{}://{host}", url.scheme()));
        let path = format!("{}/{bucket}", url.path().trim_end_matches('/'));
        Ok(Self { region, origin, host, path, is_chosen: true })
    }

    fn of_aws(bucket: &str, region: &str) -> Self {
        let domain = if region.starts_with("cn-") { "amazonaws.com.cn" } else { "amazonaws.com" };
        // A certificate covers no name with further dots, and no host's name has other characters.
        let is_host =
            bucket.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-');
        let (host, path) = match is_host {
            true => (format!("{bucket}.s3.{region}.{domain}"), String::new()),
            false => (format!("s3.{region}.{domain}"), format!("/{bucket}")),
        };
        Self { region: region.to_owned(), origin: format!("https://{host}"), host, path, is_chosen: false }
    }

    /// Returns the target in the region that the store named, or `None` if it is this one, or no region.
    pub(crate) fn in_region(&self, bucket: &str, region: &str) -> Option<Self> {
        let is_name = !region.is_empty()
            && region.len() < 64
            && region.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
        if region == self.region || !is_name {
            return None;
        }
        Some(match self.is_chosen {
            true => Self { region: region.to_owned(), ..self.clone() },
            false => Self::of_aws(bucket, region),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(bucket: &str, endpoint: Option<&str>, region: &str) -> Result<String> {
        S3Target::new(bucket, endpoint, region).map(|target| format!("{}{}", target.origin, target.path))
    }

    #[test]
    fn buckets_are_reached_where_the_provider_has_them() {
        for (bucket, endpoint, region, expected) in [
            ("b1", None, "eu-west-1", "https://b1.s3.eu-west-1.amazonaws.com"),
            ("b.1", None, "eu-west-1", "https://s3.eu-west-1.amazonaws.com/b.1"),
            ("b1", None, "cn-north-1", "https://b1.s3.cn-north-1.amazonaws.com.cn"),
            ("b1", Some("http://127.0.0.1:7070"), "r", "http://127.0.0.1:7070/b1"),
            ("b1", Some("https://[::1]:443/s3/"), "r", "https://[::1]/s3/b1"),
        ] {
            assert_eq!(url(bucket, endpoint, region).unwrap(), expected);
        }
        for (bucket, endpoint, region) in [
            ("", None, "r"),
            ("a/b", None, "r"),
            ("..", None, "r"),
            ("b", None, "evil.example/"),
            ("b", Some("example.com"), "r"),
            ("b", Some("ftp://example.com"), "r"),
            ("b", Some("https://user:word@example.com"), "r"),
            ("b", Some("https://example.com?a=b"), "r"),
        ] {
            assert_eq!(
                url(bucket, endpoint, region).unwrap_err().kind,
                ErrorKind::Usage,
                "{bucket} {endpoint:?}"
            );
        }
    }

    #[test]
    fn another_region_moves_only_what_follows_from_the_region() {
        let aws = S3Target::new("b1", None, "us-east-1").unwrap();
        assert_eq!(aws.in_region("b1", "eu-west-1").unwrap().host, "b1.s3.eu-west-1.amazonaws.com");
        assert_eq!(aws.in_region("b1", "us-east-1"), None);
        assert_eq!(aws.in_region("b1", "x.evil.example"), None);
        let own = S3Target::new("b1", Some("http://localhost:1"), "us-east-1").unwrap();
        let moved = own.in_region("b1", "eu-west-1").unwrap();
        assert_eq!((moved.host.as_str(), moved.region.as_str()), ("localhost:1", "eu-west-1"));
    }
}
