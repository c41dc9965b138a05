//! Where the requests for a bucket go.

use hakobu_core::store_settings::BucketAddressing;
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
    addressing: BucketAddressing,
}

impl S3Target {
    /// Derives the target from an endpoint, or from the region for AWS.
    ///
    /// # Errors
    /// `Usage` if the endpoint is no URL of a host, or the bucket's name cannot be one, or cannot be part of the host's
    /// name as `addressing` demands.
    pub(crate) fn new(
        bucket: &str,
        endpoint: Option<&str>,
        region: &str,
        addressing: BucketAddressing,
    ) -> Result<Self> {
        let usage = |cause: &str| Error::new(ErrorKind::Usage, OPENING, cause).at(bucket);
        let fits =
            |text: &str| text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-_".contains(&byte));
        if bucket.is_empty() || bucket.len() > 255 || !fits(bucket) || bucket.starts_with('.') {
            return Err(usage("no bucket has this name").hint("names have letters, digits, dots and hyphens"));
        }
        if region.is_empty() || !fits(region) || region.contains('.') {
            return Err(usage("no region has this name").hint("a region is something like eu-central-1"));
        }
        let is_virtual = addressing == BucketAddressing::Virtual;
        if is_virtual && !is_label(bucket) {
            return Err(
                usage("this name cannot be part of a host's name").hint("--addressing path can be used")
            );
        }
        let Some(endpoint) = endpoint else { return Ok(Self::of_aws(bucket, region, addressing)) };
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
        if is_virtual && url.domain().is_none() {
            let words = "the bucket cannot be part of the host's name, because the endpoint is an address";
            return Err(usage(words).hint("--addressing path can be used"));
        }
        let host = match url.port() {
            Some(port) => format!("{host}:{port}"),
            None => host.to_owned(),
        };
        let base = url.path().trim_end_matches('/');
        let (host, path) = match is_virtual {
            true => (format!("{bucket}.{host}"), base.to_owned()),
            false => (host, format!("{base}/{bucket}")),
        };
        let (region, origin) = (region.to_owned(), format!("{}://{host}", url.scheme()));
        Ok(Self { region, origin, host, path, is_chosen: true, addressing })
    }

    fn of_aws(bucket: &str, region: &str, addressing: BucketAddressing) -> Self {
        let domain = if region.starts_with("cn-") { "amazonaws.com.cn" } else { "amazonaws.com" };
        let (host, path) = match is_label(bucket) && addressing != BucketAddressing::Path {
            true => (format!("{bucket}.s3.{region}.{domain}"), String::new()),
            false => (format!("s3.{region}.{domain}"), format!("/{bucket}")),
        };
        let origin = format!("https://{host}");
        Self { region: region.to_owned(), origin, host, path, is_chosen: false, addressing }
    }

    /// Returns the remedy if the host's name has no address.
    pub(crate) fn name_hint(&self) -> Option<&'static str> {
        match (self.is_chosen, self.addressing) {
            (true, BucketAddressing::Virtual) => {
                Some("--addressing path leaves the bucket out of the host's name")
            }
            (true, _) => None,
            (false, _) => Some("check the region: --region or AWS_REGION"),
        }
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
            false => Self::of_aws(bucket, region, self.addressing),
        })
    }
}

/// Returns true if a bucket's name can be part of a host's: a certificate covers no name with further dots.
fn is_label(bucket: &str) -> bool {
    bucket.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn new(bucket: &str, endpoint: Option<&str>, region: &str) -> Result<S3Target> {
        S3Target::new(bucket, endpoint, region, BucketAddressing::Auto)
    }

    fn url(bucket: &str, endpoint: Option<&str>, region: &str) -> Result<String> {
        url_by(bucket, endpoint, region, BucketAddressing::Auto)
    }

    fn url_by(
        bucket: &str,
        endpoint: Option<&str>,
        region: &str,
        addressing: BucketAddressing,
    ) -> Result<String> {
        S3Target::new(bucket, endpoint, region, addressing)
            .map(|target| format!("{}{}", target.origin, target.path))
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
    fn buckets_are_where_the_user_says() {
        use BucketAddressing::{Path, Virtual};
        for (bucket, endpoint, addressing, expected) in [
            ("b1", None, Path, "https://s3.eu-west-1.amazonaws.com/b1"),
            ("b1", None, Virtual, "https://b1.s3.eu-west-1.amazonaws.com"),
            ("b1", Some("https://s3.example.com:8443/base/"), Virtual, "https://b1.s3.example.com:8443/base"),
            ("b1", Some("http://localhost:7070"), Virtual, "http://b1.localhost:7070"),
            ("b1", Some("http://localhost:7070"), Path, "http://localhost:7070/b1"),
        ] {
            assert_eq!(url_by(bucket, endpoint, "eu-west-1", addressing).unwrap(), expected);
        }
        for (bucket, endpoint) in
            [("b.1", None), ("B1", Some("https://h.example")), ("b1", Some("http://10.0.0.1"))]
        {
            let error = url_by(bucket, endpoint, "r", Virtual).unwrap_err();
            assert_eq!(error.kind, ErrorKind::Usage, "{bucket}");
            assert!(error.hint.unwrap_or_default().contains("--addressing path"));
        }
        let moved =
            S3Target::new("b1", None, "us-east-1", Path).unwrap().in_region("b1", "eu-west-1").unwrap();
        assert_eq!((moved.host.as_str(), moved.path.as_str()), ("s3.eu-west-1.amazonaws.com", "/b1"));
    }

    #[test]
    fn another_region_moves_only_what_follows_from_the_region() {
        let aws = new("b1", None, "us-east-1").unwrap();
        assert_eq!(aws.in_region("b1", "eu-west-1").unwrap().host, "b1.s3.eu-west-1.amazonaws.com");
        assert_eq!(aws.in_region("b1", "us-east-1"), None);
        assert_eq!(aws.in_region("b1", "x.evil.example"), None);
        let own = new("b1", Some("http://localhost:1"), "us-east-1").unwrap();
        let moved = own.in_region("b1", "eu-west-1").unwrap();
        assert_eq!((moved.host.as_str(), moved.region.as_str()), ("localhost:1", "eu-west-1"));
    }
}
