//! Names of stores, and the locations in them: `scheme://name/path`.

use std::borrow::Cow;

/// Schemes of stores that this machine accesses directly: `scheme://name/path`. Each has its line in
/// `hakobu_endpoints::open`.
pub const STORE_SCHEMES: [&str; 5] = ["memory", "null", "s3", "az", "gs"];

/// The host names of Azure's storage accounts, behind that of the account.
const AZURE_HOSTS: [&str; 2] = [".blob.core.windows.net", ".dfs.core.windows.net"];
/// The containers that Azure reserves.
const AZURE_CONTAINERS: [&str; 4] = ["$root", "$web", "$logs", "$blobchangefeed"];
const SAS: &str = "a shared access signature is not taken on the command line: leave out ? and what follows, and set \
                   AZURE_STORAGE_SAS_TOKEN";
const QUERY: &str = "leave out ? and what follows";
const HTTPS: &str = "as https:// only Azure's containers are known, https://ACCOUNT.blob.core.windows.net/CONTAINER/PATH; \
                     write s3://BUCKET/PATH or gs://BUCKET/PATH";

/// A store of a location: `scheme://name`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct StoreName {
    /// The kind of store, in lower case.
    pub scheme: String,
    /// The name of the store among those of its kind. That of an Azure container may have `@` and the account behind it.
    pub name: Vec<u8>,
}

impl StoreName {
    /// Returns the location of a path in it, as users type it.
    pub fn location_of(&self, path: &[u8]) -> Vec<u8> {
        let path = path.strip_prefix(b"/").unwrap_or(path);
        let slash: &[u8] = if path.is_empty() { b"" } else { b"/" };
        [self.scheme.as_bytes(), b"://", &self.name, slash, path].concat()
    }

    /// Parses what follows `scheme://`, one of [`STORE_SCHEMES`], into a name and a path without a leading slash. Nothing
    /// is decoded.
    ///
    /// # Errors
    /// Words for the user.
    pub fn parse(scheme: &str, rest: &[u8]) -> Result<(Self, Vec<u8>), String> {
        let slash = rest.iter().position(|&byte| byte == b'/').unwrap_or(rest.len());
        let (name, path) = rest.split_at(slash);
        let path = path.strip_prefix(b"/").unwrap_or(path);
        match scheme {
            "s3" => check_bucket(name, (3..=255, b".-_"), "s3")?,
            "gs" => check_bucket(name, (3..=222, b".-_"), "gs")?,
            "az" => check_container(name)?,
            _ => {}
        }
        if is_object_scheme(scheme) {
            check_path(path)?;
        }
        Ok((Self { scheme: scheme.to_owned(), name: name.to_vec() }, path.to_vec()))
    }

    /// Parses what follows `https://`: the URL of a place in an Azure container, with its `%` escapes.
    ///
    /// # Errors
    /// Words for the user.
    pub fn parse_https(rest: &[u8]) -> Result<(Self, Vec<u8>), String> {
        let (place, query) = match rest.iter().position(|&byte| byte == b'?') {
            Some(mark) => (&rest[..mark], &rest[mark..]),
            None => (rest, &rest[rest.len()..]),
        };
        let slash = place.iter().position(|&byte| byte == b'/').unwrap_or(place.len());
        let (host, path) = place.split_at(slash);
        let host = String::from_utf8_lossy(host).to_ascii_lowercase();
        let account = AZURE_HOSTS.iter().find_map(|domain| host.strip_suffix(domain)).ok_or(HTTPS)?;
        if is_signed(query) {
            return Err(SAS.to_owned());
        }
        if !query.is_empty() {
            return Err(QUERY.to_owned());
        }
        let path = decoded(path.strip_prefix(b"/").unwrap_or(path))?;
        let slash = path.iter().position(|&byte| byte == b'/').unwrap_or(path.len());
        let (container, path) = path.split_at(slash);
        if container.is_empty() {
            return Err(
                "the container is missing: https://ACCOUNT.blob.core.windows.net/CONTAINER/PATH".to_owned()
            );
        }
        Self::parse("az", &[container, b"@", account.as_bytes(), path].concat())
    }
}

/// Returns true for a scheme of stores with buckets and keys.
pub fn is_object_scheme(scheme: &str) -> bool {
    matches!(scheme, "s3" | "az" | "gs")
}

/// Returns what was typed without the query of a URL, which may hold a secret.
pub fn without_query<'a>(scheme: &str, typed: &'a [u8]) -> Cow<'a, [u8]> {
    let is_url = matches!(scheme, "http" | "https");
    match typed.iter().position(|&byte| byte == b'?') {
        Some(mark) if is_url || is_object_scheme(scheme) && is_signed(&typed[mark..]) => {
            Cow::Owned([&typed[..=mark], "…".as_bytes()].concat())
        }
        _ => Cow::Borrowed(typed),
    }
}

/// Returns true if an access key and a secret key seem to stand before the name of a store: `KEY:SECRET@bucket`. Secret keys
/// may hold slashes.
pub fn has_keys(scheme: &str, rest: &[u8]) -> bool {
    let slash = rest.iter().position(|&byte| byte == b'/').unwrap_or(rest.len());
    let may_have = is_object_scheme(scheme) || matches!(scheme, "http" | "https");
    may_have && rest[..slash].contains(&b':') && rest.contains(&b'@')
}

/// Returns true if a query has a signature.
fn is_signed(query: &[u8]) -> bool {
    let query = query.to_ascii_lowercase();
    [&b"sig="[..], b"signature="].iter().any(|name| query.windows(name.len()).any(|part| part == *name))
}

/// Checks the name of a bucket, with the lengths and the punctuation that the kind of store has.
fn check_bucket(
    name: &[u8],
    (lengths, punctuation): (std::ops::RangeInclusive<usize>, &[u8]),
    scheme: &str,
) -> Result<(), String> {
    if name.is_empty() {
        return Err(format!("the bucket is missing: {scheme}://BUCKET/PATH"));
    }
    if name.starts_with(b"arn:") {
        return Err("an access point is named by its alias, not by its ARN".to_owned());
    }
    if let Some(colon) = name.iter().position(|&byte| byte == b':') {
        let is_port = name[colon + 1..].iter().all(u8::is_ascii_digit);
        return Err(match is_port {
            true => {
                format!("a port is no part of it: {scheme}://BUCKET/PATH with --endpoint http://HOST:PORT")
            }
            false => format!("a bucket has no colon in its name: {scheme}://BUCKET/PATH"),
        });
    }
    let ends_well = |end: Option<&u8>| end.is_some_and(u8::is_ascii_alphanumeric);
    let is_right = lengths.contains(&name.len())
        && name.iter().all(|byte| byte.is_ascii_alphanumeric() || punctuation.contains(byte))
        && ends_well(name.first())
        && ends_well(name.last());
    let words = || {
        format!(
            "no bucket has such a name: {} to {} letters, digits, dots and hyphens, a letter or digit at either end",
            lengths.start(),
            lengths.end()
        )
    };
    is_right.then_some(()).ok_or_else(words)
}

/// Checks the name of a container, with or without `@` and the account.
fn check_container(name: &[u8]) -> Result<(), String> {
    let (container, account) = match name.iter().position(|&byte| byte == b'@') {
        Some(at) => (&name[..at], Some(&name[at + 1..])),
        None => (name, None),
    };
    if container.is_empty() {
        return Err("the container is missing: az://CONTAINER/PATH".to_owned());
    }
    let is_plain = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let is_reserved = AZURE_CONTAINERS.iter().any(|known| known.as_bytes() == container);
    let is_container = (3..=63).contains(&container.len())
        && container.iter().all(|byte| is_plain(byte) || *byte == b'-')
        && !container.starts_with(b"-")
        && !container.ends_with(b"-")
        && !container.windows(2).any(|two| two == b"--");
    if !is_container && !is_reserved {
        return Err(
            "no container has such a name: 3 to 63 lower-case letters, digits and single hyphens".to_owned()
        );
    }
    let is_account = |account: &[u8]| (3..=24).contains(&account.len()) && account.iter().all(is_plain);
    match account.is_none_or(is_account) {
        true => Ok(()),
        false => Err("no storage account has such a name: 3 to 24 lower-case letters and digits".to_owned()),
    }
}

/// Checks a path in a store with keys. A slash at the end makes it a directory.
fn check_path(path: &[u8]) -> Result<(), String> {
    if let Some(mark) = path.iter().position(|&byte| byte == b'?')
        && is_signed(&path[mark..])
    {
        return Err(SAS.to_owned());
    }
    let names = path.strip_suffix(b"/").unwrap_or(path);
    for name in names.split(|&byte| byte == b'/') {
        match name {
            b"" if !path.is_empty() => {
                return Err("nothing stands between two slashes, and no path has an empty name".to_owned());
            }
            b"." | b".." => return Err("a path in a store has no . or .. in it; write it out".to_owned()),
            _ => {}
        }
    }
    Ok(())
}

/// Decodes the `%` escapes of a URL.
fn decoded(text: &[u8]) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let [first, more @ ..] = rest {
        rest = more;
        if *first != b'%' {
            bytes.push(*first);
            continue;
        }
        let digit = |byte: u8| char::from(byte).to_digit(16);
        let [high, low, more @ ..] = more else { return Err(BAD_ESCAPE.to_owned()) };
        let (Some(high), Some(low)) = (digit(*high), digit(*low)) else { return Err(BAD_ESCAPE.to_owned()) };
        match (high << 4 | low) as u8 {
            0 => return Err("a NUL byte cannot be part of it".to_owned()),
            byte => bytes.push(byte),
        }
        rest = more;
    }
    Ok(bytes)
}

const BAD_ESCAPE: &str = "in a URL two hexadecimal digits follow each %; a % itself is %25";
