//! Clients for HTTP on machines with and without certificates of authorities.

/// Builds a client. On a machine without certificates of authorities, it trusts only those that `builder` adds.
///
/// # Errors
/// Those of building, such as a proxy in the environment that cannot be read.
pub(crate) fn build(builder: impl Fn() -> reqwest::ClientBuilder) -> reqwest::Result<reqwest::Client> {
    builder().build().or_else(|_| builder().tls_certs_only([]).build())
}
