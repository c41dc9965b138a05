//! What this machine's ssh server allows, as its configuration says. What a `Match` says is for some logins only, and not
//! looked at.

use hakobu_core::host::{HostFacts, LoginServer, Penalties};

use super::root::Root;

const MAIN: &str = "/etc/ssh/sshd_config";
/// So many files may be included in all.
const INCLUDED_MAX: usize = 64;

pub(super) fn read(root: &Root<'_>, facts: &mut HostFacts) {
    let mut left = INCLUDED_MAX;
    let Some(lines) = lines(root, MAIN, &mut left, facts) else { return };
    let mut server = LoginServer::default();
    for (keyword, value) in &lines {
        // The first value that is said holds.
        match keyword.as_str() {
            "maxstartups" if server.max_startups.is_none() => server.max_startups = startups(value),
            "maxsessions" if server.max_sessions.is_none() => server.max_sessions = value.parse().ok(),
            "persourcemaxstartups" if server.max_startups_of_one.is_none() => {
                server.max_startups_of_one = value.parse().ok();
            }
            "persourcepenalties" if server.penalties.is_none() => server.penalties = Some(penalties(value)),
            _ => {}
        }
    }
    facts.login_server = Some(server);
}

/// Keywords in small letters, each with its value, in the order in which they hold; up to the first `Match`.
fn lines(
    root: &Root<'_>,
    path: &str,
    left: &mut usize,
    facts: &mut HostFacts,
) -> Option<Vec<(String, String)>> {
    let text = root.text_or_note(path, facts)?;
    let mut found = Vec::new();
    for line in text.lines() {
        let line = line.trim();
        let (keyword, value) = line.split_once(|c: char| c.is_whitespace() || c == '=').unwrap_or((line, ""));
        let keyword = keyword.to_ascii_lowercase();
        let value = value.trim_matches(|c: char| c.is_whitespace() || c == '=' || c == '"').to_owned();
        match keyword.as_str() {
            "match" => break,
            "include" => {
                for pattern in value.split_whitespace() {
                    for path in included(root, pattern, facts) {
                        let Some(fewer) = left.checked_sub(1) else { return Some(found) };
                        *left = fewer;
                        found.extend(lines(root, &path, left, facts).unwrap_or_default());
                    }
                }
            }
            _ if keyword.is_empty() || keyword.starts_with('#') => {}
            _ => found.push((keyword, value)),
        }
    }
    Some(found)
}

/// The files that a pattern means: the `*` of its last name is the only one that is known.
fn included(root: &Root<'_>, pattern: &str, facts: &mut HostFacts) -> Vec<String> {
    let whole = match pattern.starts_with('/') {
        true => pattern.to_owned(),
        false => format!("/etc/ssh/{pattern}"),
    };
    let Some((directory, name)) = whole.rsplit_once('/') else { return Vec::new() };
    match name.split_once('*') {
        None => vec![whole],
        Some((before, after)) => {
            let fits = |name: &String| {
                name.len() >= before.len() + after.len() && name.starts_with(before) && name.ends_with(after)
            };
            let names = root.names_or_note(directory, facts).into_iter().filter(fits);
            names.map(|name| format!("{directory}/{name}")).collect()
        }
    }
}

/// `10:30:100`, or one number.
fn startups(value: &str) -> Option<(u32, u32, u32)> {
    let numbers: Option<Vec<u32>> = value.split(':').map(|number| number.parse().ok()).collect();
    match numbers?[..] {
        [most] => Some((most, 100, most)),
        [begin, percent, full] => Some((begin, percent, full)),
        _ => None,
    }
}

/// `authfail:5s noauth:1s min:15s`, or `no`.
fn penalties(value: &str) -> Penalties {
    let words = || value.split_whitespace().filter_map(|word| word.split_once(':'));
    let seconds = |name: &str| words().find(|(word, _)| *word == name).and_then(|(_, time)| seconds(time));
    match value.eq_ignore_ascii_case("no") {
        true => Penalties { refused_seconds: Some(0), silent_seconds: Some(0), from_seconds: None },
        false => Penalties {
            refused_seconds: seconds("authfail"),
            silent_seconds: seconds("noauth"),
            from_seconds: seconds("min"),
        },
    }
}

/// `90`, `90s`, `1m30s`, as sshd writes times.
fn seconds(text: &str) -> Option<u32> {
    let (mut total, mut number) = (0_u32, None::<u32>);
    for letter in text.chars() {
        let unit = match letter.to_ascii_lowercase() {
            digit @ '0'..='9' => {
                let digit = digit.to_digit(10)?;
                number = Some(number.unwrap_or(0).checked_mul(10)?.checked_add(digit)?);
                continue;
            }
            's' => 1,
            'm' => 60,
            'h' => 3600,
            'd' => 86_400,
            'w' => 604_800,
            _ => return None,
        };
        total = total.checked_add(number.take()?.checked_mul(unit)?)?;
    }
    total.checked_add(number.unwrap_or(0)).filter(|_| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use super::super::root::recorded::facts;
    use super::*;

    #[test]
    fn the_first_value_holds_and_what_is_included_comes_where_it_stands() {
        let main = "# MaxStartups 1\nInclude sshd_config.d/*.conf\nMaxStartups 10:30:60\nmaxsessions=1\n\
                    Match User x\nPerSourceMaxStartups 1\n";
        let files = [
            ("etc/ssh/sshd_config", main),
            ("etc/ssh/sshd_config.d/50-a.conf", "MaxStartups 2\nPerSourcePenalties authfail:1m30s min:20\n"),
            ("etc/ssh/sshd_config.d/60-b.conf", "Include sshd_config.d/60-b.conf\nMaxStartups 3\n"),
            ("etc/ssh/sshd_config.d/70-not", "MaxSessions 7\n"),
        ];
        let server = facts(&files, None).login_server.unwrap();
        assert_eq!((server.max_startups, server.max_sessions), (Some((2, 100, 2)), Some(1)));
        assert_eq!(server.max_startups_of_one, None);
        let penalties = server.penalties.unwrap();
        assert_eq!((penalties.refused_seconds, penalties.from_seconds), (Some(90), Some(20)));
        assert_eq!(facts(&[], None).login_server, None);
    }

    #[test]
    fn times_are_those_of_sshd() {
        for (text, wanted) in
            [("15", Some(15)), ("2m", Some(120)), ("1h1s", Some(3601)), ("x", None), ("", None), ("m", None)]
        {
            assert_eq!(seconds(text), wanted, "{text:?}");
        }
        assert_eq!(penalties("no").refused_seconds, Some(0));
        assert_eq!(startups("1:2"), None);
    }
}
