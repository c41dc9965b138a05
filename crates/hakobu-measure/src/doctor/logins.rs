//! Decides whether a `Match` in the configuration of an ssh server applies to a login.

use std::net::IpAddr;

use super::system_root::SystemRoot;

/// A login through ssh, from the server's point of view.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SshLogin {
    /// The name of the account.
    pub user: String,
    /// The client's address.
    pub from: IpAddr,
    /// The server's address for this connection.
    pub at: IpAddr,
    /// The server's port for this connection.
    pub port: u16,
}

/// A login with the groups of its account, if known.
pub(super) struct KnownLogin<'a> {
    login: &'a SshLogin,
    groups: Option<Vec<String>>,
}

impl<'a> KnownLogin<'a> {
    /// Reads the groups from files only; other sources are not consulted.
    pub fn new(root: &SystemRoot<'_>, login: &'a SshLogin) -> Self {
        Self { login, groups: groups(root, &login.user) }
    }

    /// Returns whether all criteria of a `Match` apply. `None` if one of them cannot be decided.
    pub fn fits(&self, criteria: &str) -> Option<bool> {
        let mut words =
            criteria.split(|c: char| c.is_whitespace() || c == '=').filter(|word| !word.is_empty());
        let mut all = Some(true);
        while let Some(name) = words.next() {
            let fits = match name.to_ascii_lowercase().as_str() {
                "all" => Some(true),
                // The user has logged in, so it is valid.
                "invalid-user" => Some(false),
                name => self.one(name, words.next()?.trim_matches('"')),
            };
            all = match (all, fits) {
                (Some(false), _) | (_, Some(false)) => Some(false),
                (Some(true), Some(true)) => Some(true),
                _ => None,
            };
        }
        all
    }

    fn one(&self, name: &str, list: &str) -> Option<bool> {
        let login = self.login;
        match name {
            "user" => Some(is_among(list, |pattern| is_like(pattern, &login.user))),
            "group" => {
                let groups = self.groups.as_ref()?;
                Some(is_among(list, |pattern| groups.iter().any(|group| is_like(pattern, group))))
            }
            "address" => Some(is_among(list, |pattern| is_within(pattern, login.from))),
            "localaddress" => Some(is_among(list, |pattern| is_within(pattern, login.at))),
            "localport" => Some(list.parse() == Ok(login.port)),
            // The server may have looked up the client's host name.
            "host" if list.contains(|c: char| c.is_ascii_alphabetic() && !c.is_ascii_hexdigit()) => None,
            "host" => Some(is_among(list, |pattern| is_within(pattern, login.from))),
            _ => None,
        }
    }
}

/// Returns true if an item of a pattern list applies and no item negated with `!` does.
fn is_among(list: &str, mut fits: impl FnMut(&str) -> bool) -> bool {
    let mut found = false;
    for pattern in list.split(',') {
        match pattern.strip_prefix('!') {
            Some(pattern) if fits(pattern) => return false,
            Some(_) => {}
            None => found |= fits(pattern),
        }
    }
    found
}

/// Returns true if a name matches a pattern with `*` and `?`.
fn is_like(pattern: &str, name: &str) -> bool {
    let (pattern, name) = (pattern.as_bytes(), name.as_bytes());
    let (mut at, mut in_name) = (0, 0);
    // The position of the last star, and how much of the name it covers.
    let mut star = None;
    while in_name < name.len() {
        match pattern.get(at) {
            Some(b'*') => {
                star = Some((at, in_name));
                at += 1;
            }
            Some(&byte) if byte == b'?' || byte == name[in_name] => (at, in_name) = (at + 1, in_name + 1),
            _ => {
                let Some((stands_at, taken)) = star else { return false };
                star = Some((stands_at, taken + 1));
                (at, in_name) = (stands_at + 1, taken + 1);
            }
        }
    }
    pattern[at..].iter().all(|&byte| byte == b'*')
}

/// Returns true if an address is in a network such as `10.0.0.0/8`, or matches a pattern.
fn is_within(pattern: &str, address: IpAddr) -> bool {
    let address = address.to_canonical();
    let Some((network, bits)) = pattern.split_once('/') else {
        return match pattern.parse::<IpAddr>() {
            Ok(other) => other.to_canonical() == address,
            Err(_) => is_like(pattern, &address.to_string()),
        };
    };
    let (Ok(network), Ok(bits)) = (network.parse(), bits.parse::<u32>()) else { return false };
    match (network, address) {
        (IpAddr::V4(network), IpAddr::V4(address)) if bits <= 32 => {
            let mask = u32::MAX.checked_shl(32 - bits).unwrap_or(0);
            u32::from(network) & mask == u32::from(address) & mask
        }
        (IpAddr::V6(network), IpAddr::V6(address)) if bits <= 128 => {
            let mask = u128::MAX.checked_shl(128 - bits).unwrap_or(0);
            u128::from(network) & mask == u128::from(address) & mask
        }
        _ => false,
    }
}

/// Returns the groups of an account: its primary group, and those that list it. `None` if the account is in no file.
fn groups(root: &SystemRoot<'_>, user: &str) -> Option<Vec<String>> {
    let (accounts, groups) = (root.text("/etc/passwd")?, root.text("/etc/group")?);
    let mut accounts = accounts.lines().map(|line| line.split(':'));
    let own = accounts.find_map(|mut words| (words.next() == Some(user)).then(|| words.nth(2)).flatten())?;
    let name = |line: &str| {
        let words: Vec<_> = line.split(':').collect();
        let [name, _, id, members, ..] = words[..] else { return None };
        (id == own || members.split(',').any(|member| member == user)).then(|| name.to_owned())
    };
    Some(groups.lines().filter_map(name).collect())
}

#[cfg(test)]
mod tests {
    use super::super::system_root::recorded::tree;
    use super::*;

    fn login() -> SshLogin {
        SshLogin {
            user: "ann".to_owned(),
            from: "::ffff:192.0.2.7".parse().unwrap(),
            at: "2001:db8::5".parse().unwrap(),
            port: 22,
        }
    }

    #[test]
    fn criteria_are_about_a_login_or_not_or_cannot_be_told() {
        let files = [
            ("etc/passwd", "root:x:0:0::/root:/bin/sh\nann:x:1000:100::/:/bin/sh\n"),
            ("etc/group", "users:x:100:\nwheel:x:10:bob,ann\nother:x:11:bob\n"),
        ];
        let (tree, login) = (tree(&files), login());
        let known = KnownLogin::new(&SystemRoot::new(tree.path()), &login);
        for (criteria, wanted) in [
            ("all", Some(true)),
            ("User ann", Some(true)),
            ("user=a*", Some(true)),
            ("User \"bob,an?\"", Some(true)),
            ("User bob", Some(false)),
            ("User *,!ann", Some(false)),
            ("User !bob", Some(false)),
            ("Group users", Some(true)),
            ("Group whe*l", Some(true)),
            ("Group other", Some(false)),
            ("Group *,!wheel", Some(false)),
            ("Address 192.0.2.0/24", Some(true)),
            ("Address 192.0.2.*", Some(true)),
            ("Address 10.0.0.0/8,!192.0.2.7", Some(false)),
            ("Address 0.0.0.0/0", Some(true)),
            ("LocalAddress 2001:db8::/32 LocalPort 22", Some(true)),
            ("LocalPort 2222", Some(false)),
            ("Host 192.0.2.?", Some(true)),
            ("Host *.example.org", None),
            ("Host *.example.org User bob", Some(false)),
            ("RDomain x User ann", None),
            ("User", None),
        ] {
            assert_eq!(known.fits(criteria), wanted, "{criteria}");
        }
        let unknown = SshLogin { user: "eve".to_owned(), ..login.clone() };
        assert_eq!(KnownLogin::new(&SystemRoot::new(tree.path()), &unknown).fits("Group users"), None);
    }

    #[test]
    fn stars_take_as_much_as_they_have_to() {
        for (pattern, name, wanted) in [
            ("*", "", true),
            ("a*b*c", "aXbYbZc", true),
            ("a*b*c", "aXbYbZ", false),
            ("??", "ab", true),
            ("?", "", false),
            ("**a", "ba", true),
            ("", "a", false),
        ] {
            assert_eq!(is_like(pattern, name), wanted, "{pattern} {name}");
        }
    }
}
