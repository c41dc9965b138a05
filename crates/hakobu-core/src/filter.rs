//! Filter rules that select the entries of a source: rules as in `.gitignore`, and limits of size and age.
//!
//! The semantics of the rules are those of git (gitignore(5)): the last matching rule decides, a pattern that contains
//! a slash is relative to the root, a pattern that ends in a slash matches directories only, and nothing in an excluded
//! directory is included. [`pattern`] describes how patterns are parsed.

mod pattern;

use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};
use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use crate::entry::{EntryKind, EntryMetadata, FileTime};
use crate::error::{Error, ErrorKind, Result};

/// The maximum number of rules in one run.
pub const RULES_MAX: usize = 10_000;
/// The maximum length of a rule in bytes.
pub const RULE_BYTES_MAX: usize = 4096;

/// One filter rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilterRule {
    /// A line as in `.gitignore`.
    pub line: String,
    /// The origin of the rule for messages: an option, or a file and a line number.
    pub from: String,
}

impl FilterRule {
    /// Returns a rule that excludes what matches the pattern.
    pub fn exclude(pattern: &str, from: String) -> Self {
        Self { line: literal(pattern), from }
    }

    /// Returns a rule that includes what matches the pattern.
    pub fn include(pattern: &str, from: String) -> Self {
        Self { line: format!("!{}", literal(pattern)), from }
    }
}

/// Returns the pattern as a line in which leading special characters and trailing blanks are escaped.
fn literal(pattern: &str) -> String {
    let mut line = String::with_capacity(pattern.len() + 1);
    if pattern.starts_with(['#', '!']) {
        line.push('\\');
    }
    let blanks = pattern.len() - pattern.trim_end_matches(' ').len();
    line.push_str(&pattern[..pattern.len() - blanks]);
    (0..blanks).for_each(|_| line.push_str("\\ "));
    line
}

/// All filter settings of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FilterRules {
    /// The rules; the last one that matches decides.
    pub rules: Vec<FilterRule>,
    /// Excludes files whose content changed before this time.
    pub newer_than: Option<FileTime>,
    /// Excludes files whose content changed at this time or later.
    pub older_than: Option<FileTime>,
    /// Excludes smaller files, in bytes.
    pub bytes_min: Option<u64>,
    /// Excludes larger files, in bytes.
    pub bytes_max: Option<u64>,
    /// Includes only these paths, everything below them, and the directories that lead to them.
    pub only: Option<Vec<Vec<u8>>>,
    /// True if a path in `only` that the source lacks is an error.
    pub only_those_there: bool,
}

/// Compiled filter rules.
#[derive(Clone, Debug)]
pub struct Filter {
    rules: Option<Gitignore>,
    /// The rules as the user wrote them.
    written: Vec<FilterRule>,
    limits: FilterRules,
    only: Option<IncludedPaths>,
}

/// The paths that are included.
#[derive(Clone, Debug, Default)]
struct IncludedPaths {
    /// The listed paths, each with its number. Everything below them is included.
    whole: HashMap<Vec<u8>, usize>,
    /// For each listed path, whether the source is known to have it; `None` if missing paths are no error.
    seen: Option<Arc<[AtomicBool]>>,
    /// The directories that lead to the listed paths.
    leading: HashSet<Vec<u8>>,
}

impl IncludedPaths {
    fn new(paths: &[Vec<u8>], are_looked_for: bool) -> Self {
        let mut only = Self::default();
        for path in paths {
            let slashes = path.iter().enumerate().filter(|(_, byte)| **byte == b'/');
            only.leading.extend(slashes.map(|(at, _)| path[..at].to_vec()));
            let number = only.whole.len();
            only.whole.entry(path.clone()).or_insert(number);
        }
        only.seen = are_looked_for.then(|| only.whole.iter().map(|_| AtomicBool::new(false)).collect());
        only
    }

    /// Returns true if the entry is excluded. The directory that holds it must not be excluded.
    fn leaves_out(&self, path: &[u8]) -> bool {
        let mut at = path;
        loop {
            if self.whole.contains_key(at) {
                return false;
            }
            match at.iter().rposition(|byte| *byte == b'/') {
                Some(slash) => at = &at[..slash],
                None => return !self.leading.contains(path),
            }
        }
    }
}

impl Filter {
    /// Compiles the rules. Returns `None` if everything is included.
    ///
    /// # Errors
    /// `Usage`, naming the rule, if a rule is not a valid pattern or too long, or if there are too many rules.
    pub fn new(asked: &FilterRules) -> Result<Option<Self>> {
        if *asked == FilterRules::default() {
            return Ok(None);
        }
        let wrong = |words: String| Error::new(ErrorKind::Usage, "reading the filter rules", words);
        if asked.rules.len() > RULES_MAX {
            return Err(wrong(format!("there are more than {RULES_MAX}")));
        }
        let mut builder = GitignoreBuilder::new("");
        builder.allow_unclosed_class(false);
        for (number, FilterRule { line, from }) in asked.rules.iter().enumerate() {
            if line.len() > RULE_BYTES_MAX {
                return Err(wrong(format!("{from}: it is longer than {RULE_BYTES_MAX} bytes")));
            }
            if line.contains(['\n', '\0']) {
                return Err(wrong(format!("{from}: a rule is one line")));
            }
            let named = |words: String| wrong(format!("{from}: `{line}`: {words}"));
            let Some(translated) = pattern::translated(line).map_err(named)? else { continue };
            // The rule's number takes the place of a file name, which the matcher returns with each match.
            builder
                .add_line(Some(PathBuf::from(number.to_string())), &translated)
                .map_err(|error| named(error.to_string()))?;
        }
        let rules = builder.build().map_err(|error| wrong(error.to_string()))?;
        if asked.only.iter().flatten().any(Vec::is_empty) {
            return Err(wrong("an empty path".to_owned()));
        }
        let only = asked.only.as_deref().map(|paths| IncludedPaths::new(paths, asked.only_those_there));
        let limits = FilterRules { rules: Vec::new(), only: None, ..asked.clone() };
        let (rules, written) = ((!rules.is_empty()).then_some(rules), asked.rules.clone());
        Ok(Some(Self { rules, written, limits, only }))
    }

    /// Returns true if an entry is excluded by a rule or, for a file, by a limit. `path` is relative to the root. The
    /// directories that contain the entry must not be excluded.
    pub fn leaves_out(&self, path: &[u8], metadata: &EntryMetadata) -> bool {
        self.rules_leave_out(path, metadata.kind == EntryKind::Directory) || self.is_beyond(metadata)
    }

    /// Returns true if a rule excludes the entry.
    pub fn rules_leave_out(&self, path: &[u8], is_directory: bool) -> bool {
        self.is_not_listed(path) || self.deciding(path, is_directory).is_some_and(|decided| decided.left_out)
    }

    /// Returns true if only listed paths are included and this is not one of them.
    pub fn is_not_listed(&self, path: &[u8]) -> bool {
        self.only.as_ref().is_some_and(|only| only.leaves_out(path))
    }

    /// Records that the source has this entry.
    pub fn saw(&self, path: &[u8]) {
        let Some((only, seen)) = self.only.as_ref().and_then(|only| Some((only, only.seen.as_ref()?))) else {
            return;
        };
        if let Some(seen) = only.whole.get(path).and_then(|number| seen.get(*number)) {
            seen.store(true, Relaxed);
        }
    }

    /// Returns the listed paths that have not been seen, sorted. Empty if missing paths are no error.
    pub fn missing(&self) -> Vec<&[u8]> {
        let Some((only, seen)) = self.only.as_ref().and_then(|only| Some((only, only.seen.as_ref()?))) else {
            return Vec::new();
        };
        let is_missing = |number: usize| seen.get(number).is_some_and(|seen| !seen.load(Relaxed));
        let missing = only.whole.iter().filter(|(_, number)| is_missing(**number));
        let mut missing: Vec<_> = missing.map(|(path, _)| path.as_slice()).collect();
        missing.sort_unstable();
        missing
    }

    /// Returns the rule that decides about an entry. The directories that contain the entry must not be excluded.
    pub fn deciding(&self, path: &[u8], is_directory: bool) -> Option<FilterDecision> {
        let path = Path::new(OsStr::from_bytes(path));
        let (glob, left_out) = match self.rules.as_ref()?.matched(path, is_directory) {
            Match::None => return None,
            Match::Ignore(glob) => (glob, true),
            Match::Whitelist(glob) => (glob, false),
        };
        let number = glob.from().and_then(|from| from.to_str()?.parse::<usize>().ok());
        let FilterRule { line, from } = number.and_then(|number| self.written.get(number))?.clone();
        Some(FilterDecision { left_out, line, from })
    }

    fn is_beyond(&self, metadata: &EntryMetadata) -> bool {
        let Self { limits, .. } = self;
        metadata.kind == EntryKind::File
            && (limits.bytes_min.is_some_and(|least| metadata.size_bytes < least)
                || limits.bytes_max.is_some_and(|most| metadata.size_bytes > most)
                || limits.newer_than.is_some_and(|time| metadata.mtime < time)
                || limits.older_than.is_some_and(|time| metadata.mtime >= time))
    }

    /// Returns true if it excludes files by their size or time.
    pub fn has_limits(&self) -> bool {
        let FilterRules { newer_than, older_than, bytes_min, bytes_max, .. } = &self.limits;
        newer_than.is_some() || older_than.is_some() || bytes_min.is_some() || bytes_max.is_some()
    }

    /// Returns the option whose limit excludes a file.
    pub fn limit(&self, metadata: &EntryMetadata) -> Option<&'static str> {
        if !self.is_beyond(metadata) {
            return None;
        }
        let Self { limits, .. } = self;
        Some(match () {
            () if limits.bytes_min.is_some_and(|least| metadata.size_bytes < least) => "--min-size",
            () if limits.bytes_max.is_some_and(|most| metadata.size_bytes > most) => "--max-size",
            () if limits.newer_than.is_some_and(|time| metadata.mtime < time) => "--newer-than",
            () => "--older-than",
        })
    }
}

/// Returns the error for a path that is listed but does not exist.
pub fn error_of_missing() -> Error {
    let words = "--files-from lists it, but the source has no such entry, or its directory is excluded";
    Error::new(ErrorKind::NotFound, "looking for what is listed", words)
}

/// The rule that decided about an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilterDecision {
    /// True if the entry is excluded.
    pub left_out: bool,
    /// The rule as the user wrote it.
    pub line: String,
    /// The origin of the rule.
    pub from: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filter(rules: &[FilterRule]) -> Filter {
        Filter::new(&FilterRules { rules: rules.to_vec(), ..FilterRules::default() }).unwrap().unwrap()
    }

    fn lines(lines: &[&str]) -> Filter {
        let rule = |line: &&str| FilterRule { line: (*line).to_owned(), from: "file".to_owned() };
        filter(&lines.iter().map(rule).collect::<Vec<_>>())
    }

    #[test]
    fn of_listed_paths_all_that_is_below_takes_part_and_what_leads_there() {
        let only = Some(vec![b"a/b".to_vec(), b"c".to_vec()]);
        let filter = Filter::new(&FilterRules { only, ..FilterRules::default() }).unwrap().unwrap();
        for (path, left_out) in [
            (&b"a"[..], false),
            (b"a/b", false),
            (b"a/b/x/y", false),
            (b"a/bb", true),
            (b"a/x", true),
            (b"c", false),
            (b"c/x", false),
            (b"d", true),
            (b"b", true),
        ] {
            assert_eq!(filter.rules_leave_out(path, true), left_out, "{path:?}");
        }
        assert_eq!(filter.missing(), Vec::<&[u8]>::new(), "nobody asks");
        let only = Some(vec![b"a/b".to_vec(), b"c".to_vec(), b"c".to_vec(), b"d/e".to_vec()]);
        let asked = FilterRules { only, only_those_there: true, ..FilterRules::default() };
        let filter = Filter::new(&asked).unwrap().unwrap();
        [&b"a"[..], b"a/b", b"d"].iter().for_each(|path| filter.saw(path));
        assert_eq!(filter.missing(), [&b"c"[..], b"d/e"]);
        let empty = FilterRules { only: Some(vec![Vec::new()]), ..FilterRules::default() };
        assert_eq!(Filter::new(&empty).unwrap_err().kind, ErrorKind::Usage);
    }

    #[test]
    fn rules_are_those_of_git() {
        let filter = lines(&["*.o", "# a comment", "", "!keep.o", "/top", "cache/", "a/**/z", "na me"]);
        for (path, is_directory, left_out) in [
            (&b"x.o"[..], false, true),
            (b"deep/down/x.o", false, true),
            (b"deep/keep.o", false, false),
            (b"top", false, true),
            (b"deep/top", false, false),
            (b"cache", true, true),
            (b"deep/cache", true, true),
            (b"cache", false, false),
            (b"a/b/c/z", false, true),
            (b"a/z", false, true),
            (b"na me", false, true),
            (b"other", false, false),
            (b"\xff\xfe.o", false, true),
            (b"# a comment", false, false),
        ] {
            let name = String::from_utf8_lossy(path);
            assert_eq!(filter.rules_leave_out(path, is_directory), left_out, "{name}");
        }
    }

    #[test]
    fn the_last_rule_decides_and_is_named() {
        let rules = [
            FilterRule::exclude("*", "--exclude".into()),
            FilterRule::include("*.c", "--include".into()),
            FilterRule { line: "/secret.c".into(), from: "rules:3".into() },
        ];
        let filter = filter(&rules);
        let decided = |path: &[u8]| filter.deciding(path, false).unwrap();
        assert_eq!((decided(b"x").left_out, &*decided(b"x").from), (true, "--exclude"));
        assert_eq!((decided(b"x.c").left_out, &*decided(b"x.c").line), (false, "!*.c"));
        assert_eq!((decided(b"secret.c").left_out, &*decided(b"secret.c").from), (true, "rules:3"));
    }

    #[test]
    fn a_pattern_means_what_it_says() {
        for name in ["#x", "!x", "x  ", " x"] {
            let filter = filter(&[FilterRule::exclude(name, String::new())]);
            assert!(filter.rules_leave_out(name.as_bytes(), false), "{name:?}");
            assert!(!filter.rules_leave_out(b"x", false), "{name:?}");
        }
    }

    #[test]
    fn limits_are_for_files() {
        let time = |seconds| FileTime { seconds, nanoseconds: 0 };
        let asked = FilterRules {
            newer_than: Some(time(10)),
            older_than: Some(time(20)),
            bytes_min: Some(5),
            bytes_max: Some(6),
            ..FilterRules::default()
        };
        let filter = Filter::new(&asked).unwrap().unwrap();
        let metadata = |kind, size_bytes, seconds| EntryMetadata {
            size_bytes,
            mtime: time(seconds),
            ctime: time(0),
            ..EntryMetadata::new(kind)
        };
        for (size_bytes, seconds, limit) in [
            (5, 10, None),
            (6, 19, None),
            (4, 10, Some("--min-size")),
            (7, 10, Some("--max-size")),
            (5, 9, Some("--newer-than")),
            (5, 20, Some("--older-than")),
        ] {
            let file = metadata(EntryKind::File, size_bytes, seconds);
            assert_eq!(filter.limit(&file), limit);
            assert_eq!(filter.leaves_out(b"x", &file), limit.is_some());
            assert!(!filter.leaves_out(b"x", &metadata(EntryKind::Directory, size_bytes, seconds)));
        }
    }

    #[test]
    fn brackets_are_those_of_git_and_rsync() {
        // The set in brackets, and a test for the ASCII characters that it matches.
        type Test = fn(u8) -> bool;
        let sets: &[(&str, Test)] = &[
            ("[[:alpha:]]", |byte| byte.is_ascii_alphabetic()),
            ("[[:digit:]_]", |byte| byte.is_ascii_digit() || byte == b'_'),
            ("[^[:space:]]", |byte| !matches!(byte, b' ' | 9..=13)),
            ("[![:alnum:].-]", |byte| !byte.is_ascii_alphanumeric() && byte != b'.' && byte != b'-'),
            ("[[:punct:]]", |byte| byte.is_ascii_punctuation()),
            ("[[:upper:][:xdigit:]]", |byte| byte.is_ascii_uppercase() || byte.is_ascii_hexdigit()),
            ("[[:blank:]]", |byte| matches!(byte, b' ' | 9)),
            ("[[:cntrl:]]", |byte| byte.is_ascii_control()),
            ("[[:graph:]]", |byte| byte.is_ascii_graphic()),
            ("[[:print:]]", |byte| byte.is_ascii_graphic() || byte == b' '),
            ("[[:lower:]]", |byte| byte.is_ascii_lowercase()),
            ("[a-c]", |byte| matches!(byte, b'a'..=b'c')),
            ("[]a]", |byte| matches!(byte, b']' | b'a')),
            ("[!]a]", |byte| !matches!(byte, b']' | b'a')),
            ("[a-]", |byte| matches!(byte, b'a' | b'-')),
            ("[-a]", |byte| matches!(byte, b'a' | b'-')),
            ("[a\\]b]", |byte| matches!(byte, b'a' | b']' | b'b')),
            ("[\\\\]", |byte| byte == b'\\'),
            ("[a^!]", |byte| matches!(byte, b'a' | b'^' | b'!')),
            ("[\\^!]", |byte| matches!(byte, b'^' | b'!')),
            ("[\\!]", |byte| byte == b'!'),
            ("[\\^]", |byte| byte == b'^'),
            ("[\\^-]", |byte| matches!(byte, b'^' | b'-')),
            ("[+--]", |byte| matches!(byte, b'+'..=b'-')),
            ("[+-z]", |byte| matches!(byte, b'+'..=b'z')),
            ("[!+-z]", |byte| !matches!(byte, b'+'..=b'z')),
            ("[[:]", |byte| matches!(byte, b'[' | b':')),
            ("[a-c-e]", |byte| matches!(byte, b'a'..=b'c' | b'-' | b'e')),
            ("[{,}]", |byte| matches!(byte, b'{' | b',' | b'}')),
        ];
        for (set, is_in) in sets {
            let rules = [FilterRule::exclude(&format!("x{set}y"), String::new())];
            let filter = filter(&rules);
            for byte in (1..128).filter(|byte| *byte != b'/') {
                let (out, expected) = (filter.rules_leave_out(&[b'x', byte, b'y'], false), is_in(byte));
                assert_eq!(out, expected, "{set} and {:?}", char::from(byte));
            }
            assert!(!filter.rules_leave_out(b"x/y", false), "{set} stands for no slash");
            assert!(filter.rules_leave_out(b"deep/xay", false) == is_in(b'a'), "{set} is not from the top");
            let bytes = [b'x', 0xff, b'y'];
            assert_eq!(filter.rules_leave_out(&bytes, false), set.starts_with("[!") || set.starts_with("[^"));
        }
    }

    #[test]
    fn what_means_something_to_the_matcher_only_means_itself() {
        for (pattern, matching, other) in [
            ("{a,b}", "{a,b}", "a"),
            ("{guid}", "{guid}", "guid"),
            ("a,b", "a,b", "a"),
            ("[é]x", "éx", "x"),
            ("[a-céü]", "ü", "d"),
            ("[あ-お]", "う", "か"),
            ("tab\t", "tab\t", "tab"),
            ("wide\u{3000}", "wide\u{3000}", "wide"),
            ("a\\ ", "a ", "a"),
            ("\\a\\*", "a*", "ab"),
            ("運*", "運ぶ", "ぶ"),
        ] {
            let filter = filter(&[FilterRule { line: pattern.to_owned(), from: String::new() }]);
            assert!(filter.rules_leave_out(matching.as_bytes(), false), "{pattern}");
            assert!(!filter.rules_leave_out(other.as_bytes(), false), "{pattern}");
        }
        let filter = lines(&["a[!b]/c", "!keep[[:digit:]]", "*.o"]);
        assert!(filter.rules_leave_out(b"ax/c", false) && !filter.rules_leave_out(b"d/ax/c", false));
        assert_eq!(filter.deciding(b"x/keep1", false).unwrap().line, "!keep[[:digit:]]");
    }

    #[test]
    fn a_pattern_that_can_match_nothing_is_refused() {
        for pattern in [
            "[a",
            "[z-a]",
            "x\\",
            "[",
            "[]",
            "[!]",
            "[[:alpha:]",
            "[[:alpah:]]",
            "[[:alpha:",
            "[/]",
            "a//b",
            "./a",
            "a/../b",
            "..",
            "/",
            "//",
            "[[.a.]]",
            "[[=a=]]",
            "[!é]",
            "[a-\\",
            "[\\",
            "!",
            "!/",
        ] {
            let rules = vec![FilterRule { line: pattern.to_owned(), from: "rules:7".into() }];
            let error = Filter::new(&FilterRules { rules, ..FilterRules::default() }).unwrap_err();
            assert!(error.kind == ErrorKind::Usage && error.detail.contains("rules:7"), "{pattern}: {error}");
        }
    }

    #[test]
    fn what_is_no_rule_is_named() {
        let new =
            |rule: FilterRule| Filter::new(&FilterRules { rules: vec![rule], ..FilterRules::default() });
        let error = new(FilterRule::exclude("[a", "--exclude".into())).unwrap_err();
        assert!(error.detail.contains("--exclude: `[a`"), "{error}");
        assert!(new(FilterRule::exclude(&"x".repeat(RULE_BYTES_MAX + 1), String::new())).is_err());
        assert!(new(FilterRule::exclude("a\nb", String::new())).is_err());
        assert!(Filter::new(&FilterRules::default()).unwrap().is_none());
    }
}
