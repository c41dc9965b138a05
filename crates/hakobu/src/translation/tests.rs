//! The catalog, against the sources and the rest of the world.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use proc_macro2::{Delimiter, TokenStream, TokenTree};

use super::catalog::{CatalogEntry, SECTIONS, entries};
use super::template::{SEPARATORS, Template};
use super::*;

const JA: Language = Language::Ja;
const FILE: &str = include_str!("ja.txt");
/// A shorter text says too little about where it comes from.
const TELLING_BYTES_MIN: usize = 10;
/// Steps that are passed on by a function, not written where the error is made.
const TYPES_OF_STEPS: [&str; 2] = ["DURING", "STEP"];

fn ja(english: &str) -> String {
    text(JA, english).into_owned()
}

#[test]
fn a_text_is_translated_part_by_part() {
    assert_eq!(ja("it is closed"), "閉じている");
    assert_eq!(ja("odd: it is closed"), "odd: 閉じている");
    assert_eq!(ja("permission denied; run hakobu as root"), "アクセス権がない。hakobu を root で実行する");
    assert_eq!(ja("odd (permission denied)"), "odd (アクセス権がない)");
    assert_eq!(
        ja("connection lost (sending to h: broken pipe); trying again in 1.0 s"),
        "接続が切れた(送信: h: パイプが切断された)。1.0 秒後に再試行"
    );
    assert_eq!(
        ja("at most 1.00 MB/s (--bwlimit), at most 9 operations a second at each end (--iops-limit)"),
        "最大 1.00 MB/s (--bwlimit)、両側でそれぞれ毎秒最大 9 操作 (--iops-limit)"
    );
    assert_eq!(ja("from now on: no limits; frob: it is closed"), "以後: 制限なし; frob: 閉じている");
    assert_eq!(text(Language::En, "it is closed"), "it is closed");
}

#[test]
fn unknown_texts_and_values_keep_every_byte() {
    for unknown in ["", ": ", "; ; ", "a: b; c (d)", "  \u{3042}: {} {1*}", "frob (x) (y)", "it is closed?"] {
        assert_eq!(ja(unknown), unknown);
    }
    for value in ["a: b", "a; it is read-only", "x (y)", "{1}", "permission denied", "\u{202e}é"] {
        let english = format!("{value} is swap space in use");
        assert!(ja(&english).starts_with(value), "{}", ja(&english));
        let english = format!("`{value}` has to work first");
        assert_eq!(ja(&english), format!("先に `{value}` が成功する必要がある"));
    }
}

#[test]
fn a_hostile_text_takes_neither_long_nor_much_of_the_stack() {
    let deep = "connection lost (".repeat(450) + &")".repeat(450);
    assert!(ja(&deep).ends_with(&")".repeat(400)), "{}", ja(&deep));
    let deep = "from now on: ".repeat(600) + "it is closed";
    assert!(ja(&deep).starts_with("以後: "));
    let wide = "it is closed; ".repeat(500);
    assert!(ja(&wide).starts_with("閉じている。閉じている。"));
    let long = "it is closed; ".repeat(1 << 16);
    assert_eq!(ja(&long), long);
}

#[test]
fn labels_are_translated_and_names_of_failed_entries_are_not() {
    let both = "error: it is closed\n  it is read-only\nhint: try: hakobu copy a b";
    assert_eq!(
        lines(JA, both),
        "エラー: 閉じている\n  読み取り専用である\nヒント: 次を試す: hakobu copy a b"
    );
    assert_eq!(lines(JA, "failed: it is closed: x"), "失敗: it is closed: x");
    assert_eq!(lines(Language::En, both), both);
}

#[test]
fn a_template_without_translation_is_filled_all_the_same() {
    assert_eq!(filled("{} frobs {}!", &["a", "b"]), "a frobs b!");
    assert_eq!(filled("frob", &[]), "frob");
    assert_eq!(localized!(JA, "{} in {}", "1 B", "2 秒"), "2 秒で 1 B");
    assert_eq!(localized!(Language::En, "{} in {}", "1 B", "2 s"), "1 B in 2 s");
    assert_eq!(phrase(JA, "{}"), "{}");
}

#[test]
fn a_phrase_is_found_before_a_message_of_the_same_text() {
    assert_eq!(phrase(JA, "interrupted"), "中断");
    assert_eq!(ja("copying: interrupted"), "コピー: 中断された");
}

/// Returns the numbers of the values that a translation uses.
fn used_values(japanese: &str) -> BTreeSet<usize> {
    let places = japanese.split('{').skip(1).map(|behind| behind.split('}').next().unwrap());
    places.map(|place| place.trim_end_matches('*').parse().expect(japanese)).collect()
}

#[test]
fn every_entry_is_whole_and_uses_all_its_values() {
    let all = entries(FILE);
    assert!(all.len() >= 300, "{}", all.len());
    let mut known = BTreeSet::new();
    for CatalogEntry { section, english, japanese } in &all {
        assert!(SECTIONS.contains(section) && !japanese.is_empty(), "{english}");
        assert!(known.insert((section, english)), "twice: {english}");
        let count = english.matches("{}").count();
        assert_eq!(used_values(japanese), (1..=count).collect(), "{english}");
        assert!(*section == "phrases" || !english.contains("{}{}"), "cannot be told apart: {english}");
    }
    // No line is left over, and none is lost.
    let lines = FILE.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    assert_eq!(lines.count(), all.len() * 2 + SECTIONS.len());
}

#[test]
fn every_entry_is_found_by_its_own_text() {
    for entry in entries(FILE).into_iter().filter(|entry| !["phrases", "steps"].contains(&entry.section)) {
        let words = entry.english.replace("{}", "x1");
        let count = entry.english.matches("{}").count();
        let expected = Template::new(entry.english, entry.japanese).fill(&vec!["x1"; count], ja);
        // A longer template or one for the same text in another section may win, but something does.
        assert!(ja(&words) == expected || ja(&words) != words, "{}", entry.english);
    }
}

/// Returns the source files of the product.
fn sources() -> Vec<PathBuf> {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let (mut found, mut open) = (Vec::new(), vec![crates.to_owned()]);
    while let Some(directory) = open.pop() {
        for path in std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()) {
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            let is_built = name == "target" && !path.components().any(|part| part.as_os_str() == "src");
            match path.is_dir() {
                true if !["tests", "hakobu-testkit"].contains(&name.as_str()) && !is_built => open.push(path),
                false if name.ends_with(".rs") && !name.ends_with("tests.rs") => found.push(path),
                _ => {}
            }
        }
    }
    found
}

/// Returns the code of a file without its tests.
fn code(path: &Path) -> TokenStream {
    let text = std::fs::read_to_string(path).unwrap();
    let is_body = |at: &usize| text[*at..].lines().nth(1).is_some_and(|line| line.ends_with('{'));
    let tests = text.match_indices("#[cfg(test)]\nmod ").map(|(at, _)| at).find(is_body);
    text[..tests.unwrap_or(text.len())].parse().expect("it is Rust")
}

/// Returns the content of a text literal.
fn content(token: &TokenTree) -> Option<String> {
    let TokenTree::Literal(literal) = token else { return None };
    let source = literal.to_string();
    if let Some(raw) = source.strip_prefix('r') {
        return Some(raw.trim_matches('#').trim_matches('"').to_owned());
    }
    let mut letters = source.strip_prefix('"')?.strip_suffix('"')?.chars().peekable();
    let mut text = String::new();
    while let Some(letter) = letters.next() {
        match (letter, letters.peek()) {
            ('\\', Some('\n')) => while letters.next_if(|letter| letter.is_whitespace()).is_some() {},
            ('\\', Some('u')) => {
                let code: String = letters.by_ref().skip(2).take_while(|letter| *letter != '}').collect();
                text.extend(u32::from_str_radix(&code, 16).ok().and_then(char::from_u32));
            }
            ('\\', Some('n')) => text.extend(letters.next().map(|_| '\n')),
            ('\\', Some(_)) => text.extend(letters.next()),
            (letter, _) => text.push(letter),
        }
    }
    Some(text)
}

fn walk(tokens: TokenStream, visit: &mut dyn FnMut(&[TokenTree])) {
    let tokens: Vec<_> = tokens.into_iter().collect();
    visit(&tokens);
    for token in tokens {
        if let TokenTree::Group(group) = token {
            walk(group.stream(), visit);
        }
    }
}

/// Replaces each value of a format by `{}`, and several in a row by one.
fn without_names(text: &str) -> String {
    let mut plain = String::new();
    let mut rest = text;
    while let Some((before, behind)) = rest.split_once('{') {
        plain.push_str(before);
        rest = match (behind.strip_prefix('{'), behind.split_once('}')) {
            (Some(escaped), _) => {
                plain.push('{');
                escaped
            }
            (None, Some((_, after))) => {
                plain.push_str("{}");
                after
            }
            (None, None) => behind,
        };
    }
    plain.push_str(rest);
    while plain.contains("{}{}") {
        plain = plain.replace("{}{}", "{}");
    }
    plain
}

fn parts(text: &str) -> Vec<&str> {
    let mut parts = vec![text];
    for separator in SEPARATORS {
        parts = parts.into_iter().flat_map(|part| part.split(separator)).collect();
    }
    parts
}

/// Returns true if `part` is in `text` and no word goes on at its ends.
fn has_words(text: &str, part: &str) -> bool {
    text.match_indices(part).any(|(at, _)| {
        let goes_on = |outside: Option<char>, inside: Option<char>| {
            outside.is_some_and(char::is_alphanumeric) && inside.is_some_and(char::is_alphanumeric)
        };
        !goes_on(text[..at].chars().next_back(), part.chars().next())
            && !goes_on(text[at + part.len()..].chars().next(), part.chars().next_back())
    })
}

#[test]
fn every_english_text_is_in_the_sources() {
    let literals: BTreeSet<_> = SOURCE_TEXTS.literals.iter().map(|text| without_names(text)).collect();
    let all = literals.iter().map(String::as_str).collect::<Vec<_>>().join("\0");
    let leak = |text: &str| -> &'static str { text.to_owned().leak() };
    let forms: Vec<_> = literals
        .iter()
        .flat_map(|literal| parts(literal).into_iter().chain([literal.as_str()]))
        .map(|text| Template::new(leak(text), ""))
        .filter(|template| template.literal_bytes() >= TELLING_BYTES_MIN)
        .collect();
    let mut stale = Vec::new();
    for entry in entries(FILE).into_iter().filter(|entry| !["system", "parser"].contains(&entry.section)) {
        let english = without_names(entry.english);
        // The last one of a list.
        let english =
            ["or ", "and "].into_iter().find_map(|word| english.strip_prefix(word)).unwrap_or(&english);
        let bare = english.trim_start_matches("{}").trim_end_matches("{}");
        let words = if bare.len() >= TELLING_BYTES_MIN { bare } else { english };
        // A message may be put together from several texts.
        if !has_words(&all, words) && !forms.iter().any(|form| form.values(english).is_some()) {
            stale.push(entry.english);
        }
    }
    assert!(stale.is_empty(), "not in the sources any more, so remove or change them: {stale:#?}");
}

/// The texts in the sources: all of them, and the steps of errors.
struct SourceTexts {
    literals: BTreeSet<String>,
    steps: BTreeSet<String>,
}

static SOURCE_TEXTS: LazyLock<SourceTexts> = LazyLock::new(|| {
    let mut texts = SourceTexts { literals: BTreeSet::new(), steps: BTreeSet::new() };
    sources().iter().for_each(|path| texts.add(path));
    texts
});

impl SourceTexts {
    fn add(&mut self, path: &Path) {
        let code = code(path);
        walk(code.clone(), &mut |tokens| self.literals.extend(tokens.iter().filter_map(content)));
        self.steps.extend(steps(code));
    }
}

/// Returns the steps of errors that are made in the code of a file.
fn steps(code: TokenStream) -> BTreeSet<String> {
    let (mut steps, mut constants, mut named) = (BTreeSet::new(), Vec::new(), Vec::new());
    let is = |token: Option<&TokenTree>, word: &str| match token {
        Some(TokenTree::Ident(name)) => *name == word,
        Some(TokenTree::Punct(sign)) => word.len() == 1 && word.starts_with(sign.as_char()),
        _ => false,
    };
    walk(code, &mut |tokens| {
        for at in 0..tokens.len() {
            let token = |behind: usize| tokens.get(at + behind);
            if is(token(0), "const")
                && let Some(text) = tokens[at..].iter().take(9).find_map(content)
            {
                constants.push((token(1).map(ToString::to_string).unwrap_or_default(), text));
            }
            let is_of_std = at > 2 && is(tokens.get(at - 3), "io");
            if !is(token(0), "Error") || is_of_std || !is(token(1), ":") || !is(token(2), ":") {
                continue;
            }
            let Some(TokenTree::Group(group)) = token(4) else { continue };
            let is_new = is(token(3), "new");
            if group.delimiter() != Delimiter::Parenthesis || !(is_new || is(token(3), "io")) {
                continue;
            }
            let arguments: Vec<_> = group.stream().into_iter().collect();
            let arguments: Vec<_> = arguments.split(|token| token.to_string() == ",").collect();
            if let Some([only]) = arguments.get(usize::from(is_new)) {
                match content(only) {
                    Some(step) => _ = steps.insert(step),
                    None => named.push(only.to_string()),
                }
            }
        }
    });
    let is_step = |name: &String| named.contains(name) || TYPES_OF_STEPS.contains(&name.as_str());
    steps.extend(constants.into_iter().filter(|(name, _)| is_step(name)).map(|(_, text)| text));
    steps
}

#[test]
fn every_step_of_an_error_is_translated() {
    let all = &SOURCE_TEXTS.steps;
    assert!(all.len() > 100, "{}", all.len());
    assert!(all.contains("creating the directory") || all.contains("making the directory"), "{all:?}");
    let missing: Vec<_> = all
        .iter()
        .filter(|known| !known.is_empty())
        .filter(|known| step(JA, known) == known.as_str())
        .collect();
    assert!(missing.is_empty(), "add these to the section [steps] of ja.txt: {missing:#?}");
}

#[test]
fn only_steps_are_among_the_steps() {
    // Others would not be found in messages.
    let is_other = |entry: &CatalogEntry| {
        let is_step = entry.english.split(' ').next().is_some_and(|word| word.ends_with("ing"));
        entry.section == "steps" && !is_step && !SOURCE_TEXTS.steps.contains(entry.english)
    };
    let others: Vec<_> = entries(FILE).into_iter().filter(is_other).map(|entry| entry.english).collect();
    assert!(others.is_empty(), "move these to the section [messages] of ja.txt: {others:#?}");
}

#[test]
fn messages_of_the_system_are_those_of_this_system() {
    let message = |number| std::io::Error::from_raw_os_error(number).to_string();
    let messages: BTreeSet<_> = (1..150)
        .map(message)
        .filter_map(|message| message.split(" (os error").next().map(str::to_lowercase))
        .collect();
    for entry in entries(FILE).into_iter().filter(|entry| entry.section == "system") {
        assert!(messages.contains(entry.english), "{}", entry.english);
    }
}

#[test]
fn what_the_parser_says_is_translated() {
    let command = crate::cli::command();
    let mut said = String::new();
    for line in [
        "hakobu copy --frob a b",
        "hakobu copy --prserve all a b",
        "hakobu sync --passes x a b",
        "hakobu copy --lanes",
        "hakobu copy --quiet --verbose a b",
        "hakobu copy --report a --report b a b",
        "hakobu copy --durable x a b",
        "hakobu copy",
    ] {
        said += &command.clone().try_get_matches_from(line.split(' ')).unwrap_err().render().to_string();
    }
    for entry in entries(FILE).into_iter().filter(|entry| entry.section == "parser") {
        let form = Template::new(entry.english, "");
        let is_said = said.lines().any(|line| {
            let line = line.trim();
            let label = ["error: ", "tip: "].into_iter().find_map(|label| line.strip_prefix(label));
            let words = label.unwrap_or(line);
            form.values(words).is_some() || parts(words).iter().any(|part| form.values(part).is_some())
        });
        assert!(is_said, "{}: {said}", entry.english);
    }
}
