//! Patterns of host names.

/// Patterns with `*` and `?`: one of them must match, and none of those with a leading `!`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Patterns(Vec<String>);

impl Patterns {
    pub fn of(patterns: &[String]) -> Self {
        Self(patterns.iter().map(|pattern| pattern.to_ascii_lowercase()).collect())
    }

    pub fn hold_for(&self, host: &str) -> bool {
        let host = host.to_ascii_lowercase();
        let mut some = false;
        for pattern in &self.0 {
            match pattern.strip_prefix('!') {
                Some(not) if matches(not.as_bytes(), host.as_bytes()) => return false,
                Some(_) => {}
                None => some |= matches(pattern.as_bytes(), host.as_bytes()),
            }
        }
        some
    }
}

/// Returns true if a pattern with `*` and `?` matches the whole name. Takes time proportional to the product of both lengths at most.
pub(crate) fn matches(pattern: &[u8], name: &[u8]) -> bool {
    let (mut at, mut from, mut star) = (0, 0, None);
    while from < name.len() {
        match pattern.get(at) {
            Some(b'*') => {
                star = Some((at, from));
                at += 1;
            }
            Some(letter) if *letter == b'?' || *letter == name[from] => (at, from) = (at + 1, from + 1),
            _ => match star {
                // Let the last star match one more character.
                Some((star_at, taken)) => {
                    star = Some((star_at, taken + 1));
                    (at, from) = (star_at + 1, taken + 1);
                }
                None => return false,
            },
        }
    }
    pattern[at..].iter().all(|letter| *letter == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_all_of_a_name() {
        for (pattern, name, does) in [
            ("*", "", true),
            ("a*b*c", "aXbXbc", true),
            ("a*b*c", "abcd", false),
            ("?", "ä", false),
            ("h??t", "host", true),
            ("host", "hostel", false),
        ] {
            assert_eq!(matches(pattern.as_bytes(), name.as_bytes()), does, "{pattern} {name}");
        }
        // This would take forever if every star tried all lengths.
        assert!(!matches("*a".repeat(200).as_bytes(), &[b'a'; 199]));
    }
}
