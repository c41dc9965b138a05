//! Circles of modules: files that depend on each other, directly or through others.
//!
//! A file depends on another if a path in it, in a `use` or elsewhere in the code, leads there. Tests do not count.
//! Re-exports (`pub use`) are followed to the file of the definition.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::str::FromStr;

use proc_macro2::{Delimiter, TokenStream, TokenTree};

use crate::{files, read};

/// A path in the source, or a module by its path below the root of the crate.
type Names = Vec<String>;

/// The maximum number of files in a circle. A type and its implementation may depend on each other.
const CIRCLE_FILES_MAX: usize = 2;

/// The relevant parts of one file.
#[derive(Default)]
struct Source {
    paths: Vec<Names>,
    /// The names that the file re-exports, and their origins.
    exports: BTreeMap<String, Names>,
    /// Its modules that hold tests.
    tests: BTreeSet<String>,
}

impl Source {
    fn new(text: &str) -> Self {
        let mut source = Self::default();
        source.scan(TokenStream::from_str(text).expect("the file is Rust"));
        source
    }

    fn scan(&mut self, tokens: TokenStream) {
        let tokens: Vec<_> = tokens.into_iter().collect();
        let mut at = 0;
        let mut is_public = false;
        while at < tokens.len() {
            match &tokens[at] {
                TokenTree::Group(_) if is_cfg_test(&tokens, at) => {
                    at = self.skip_item(&tokens, at + 1);
                    continue;
                }
                TokenTree::Group(group) => {
                    self.scan(group.stream());
                    // `pub(crate)` is public as well.
                    is_public &= group.delimiter() == Delimiter::Parenthesis;
                }
                TokenTree::Ident(word) if *word == "pub" => is_public = true,
                TokenTree::Ident(word) if *word == "use" => {
                    let end = (at..tokens.len()).find(|&end| is_punct(&tokens, end, ';'));
                    let end = end.unwrap_or(tokens.len());
                    self.import(&[], &tokens[at + 1..end], is_public);
                    (at, is_public) = (end, false);
                }
                TokenTree::Ident(_) => {
                    let (path, end) = path(&tokens, at);
                    if path.len() > 1 {
                        self.paths.push(path);
                    }
                    (at, is_public) = (end, false);
                    continue;
                }
                _ => is_public = false,
            }
            at += 1;
        }
    }

    /// Skips an item. Returns the index of the next one.
    fn skip_item(&mut self, tokens: &[TokenTree], from: usize) -> usize {
        let is_brace = |token: &TokenTree| matches!(token, TokenTree::Group(group) if group.delimiter() == Delimiter::Brace);
        for at in from..tokens.len() {
            if let (TokenTree::Ident(word), Some(TokenTree::Ident(name))) = (&tokens[at], tokens.get(at + 1))
                && *word == "mod"
            {
                self.tests.insert(name.to_string());
            }
            if is_punct(tokens, at, ';') || is_brace(&tokens[at]) {
                return at + 1;
            }
        }
        tokens.len()
    }

    /// Reads the paths of a `use`.
    fn import(&mut self, above: &[String], tree: &[TokenTree], is_public: bool) {
        let (mut whole, mut name) = (above.to_vec(), None);
        let mut at = 0;
        while let Some(token) = tree.get(at) {
            match token {
                TokenTree::Ident(word) if *word == "as" => {
                    name = tree.get(at + 1).map(ToString::to_string);
                    break;
                }
                TokenTree::Ident(word) => whole.push(word.to_string()),
                TokenTree::Group(group) => {
                    let inner: Vec<_> = group.stream().into_iter().collect();
                    let is_comma = |token: &TokenTree| token.to_string() == ",";
                    for part in inner.split(is_comma).filter(|part| !part.is_empty()) {
                        self.import(&whole, part, is_public);
                    }
                    return;
                }
                _ => {}
            }
            at += 1;
        }
        if whole.len() > 1 && whole.last().is_some_and(|last| last == "self") {
            whole.pop();
        }
        if is_public && let Some(name) = name.or_else(|| whole.last().cloned()) {
            self.exports.insert(name, whole.clone());
        }
        self.paths.push(whole);
    }
}

fn is_punct(tokens: &[TokenTree], at: usize, wanted: char) -> bool {
    matches!(tokens.get(at), Some(TokenTree::Punct(punct)) if punct.as_char() == wanted)
}

fn is_cfg_test(tokens: &[TokenTree], at: usize) -> bool {
    at > 0 && is_punct(tokens, at - 1, '#') && tokens[at].to_string().replace(' ', "") == "[cfg(test)]"
}

/// Returns the path that begins at a word, and the index after it.
fn path(tokens: &[TokenTree], from: usize) -> (Names, usize) {
    let (mut path, mut at) = (Vec::new(), from);
    while let Some(TokenTree::Ident(word)) = tokens.get(at) {
        path.push(word.to_string());
        let goes_on = is_punct(tokens, at + 1, ':') && is_punct(tokens, at + 2, ':');
        if !(goes_on && matches!(tokens.get(at + 3), Some(TokenTree::Ident(_)))) {
            return (path, at + 1);
        }
        at += 3;
    }
    (path, at.max(from + 1))
}

/// The files of one crate by their modules.
struct Modules(BTreeMap<Names, Source>);

impl Modules {
    fn new(texts: BTreeMap<Names, String>) -> Self {
        let mut modules: BTreeMap<_, _> =
            texts.into_iter().map(|(name, text)| (name, Source::new(&text))).collect();
        let tests: BTreeSet<Names> = modules
            .iter()
            .flat_map(|(name, source)| {
                source.tests.iter().map(|test| [&name[..], std::slice::from_ref(test)].concat())
            })
            .collect();
        modules.retain(|name, _| !(1..=name.len()).any(|length| tests.contains(&name[..length])));
        Self(modules)
    }

    /// Returns the module that a path in `from` leads to, and the rest of the path.
    fn resolve(&self, from: &[String], path: &[String]) -> Option<(Names, Names)> {
        let mut module = from.to_vec();
        let mut rest = path;
        match path.first()?.as_str() {
            "crate" => (module, rest) = (Vec::new(), &path[1..]),
            "self" => rest = &path[1..],
            "super" => {}
            child => {
                let child = [from, &[child.to_owned()]].concat();
                self.0.get(&child)?;
            }
        }
        while rest.first().is_some_and(|first| first == "super") {
            module.pop();
            rest = &rest[1..];
        }
        let whole = [&module[..], rest].concat();
        let length = (0..=whole.len()).rev().find(|&length| self.0.contains_key(&whole[..length]))?;
        Some((whole[..length].to_vec(), whole[length..].to_vec()))
    }

    /// Resolves a path, following re-exported names to their definitions.
    fn follow(&self, from: &[String], path: &[String]) -> Option<Names> {
        let (mut module, mut rest) = self.resolve(from, path)?;
        for _ in 0..16 {
            let Some(name) = rest.first() else { break };
            let Some(leads_to) = self.0.get(&module).and_then(|source| source.exports.get(name)) else {
                break;
            };
            let Some((next, mut named)) = self.resolve(&module, leads_to) else { break };
            named.extend_from_slice(&rest[1..]);
            if (&next, &named) == (&module, &rest) {
                break;
            }
            (module, rest) = (next, named);
        }
        Some(module)
    }

    /// Returns the modules on which each module depends.
    fn needs(&self) -> BTreeMap<&Names, BTreeSet<Names>> {
        let of = |name: &Names, source: &Source| {
            source
                .paths
                .iter()
                .filter_map(|path| self.follow(name, path))
                .filter(|other| other != name)
                .collect()
        };
        self.0.iter().map(|(name, source)| (name, of(name, source))).collect()
    }

    /// Returns the circles that have too many files, with the steps in each.
    fn circles(&self) -> Vec<String> {
        let needs = self.needs();
        let reached = |from: &Names| {
            let (mut seen, mut open) = (BTreeSet::new(), vec![from.clone()]);
            while let Some(module) = open.pop() {
                for next in needs.get(&module).into_iter().flatten() {
                    if seen.insert(next.clone()) {
                        open.push(next.clone());
                    }
                }
            }
            seen
        };
        let reach: BTreeMap<&Names, BTreeSet<Names>> =
            self.0.keys().map(|module| (module, reached(module))).collect();
        let mut found = BTreeSet::new();
        for (module, reached) in &reach {
            let circle: BTreeSet<&Names> = reached
                .iter()
                .filter(|other| reach.get(other).is_some_and(|back| back.contains(*module)))
                .collect();
            if circle.len() > CIRCLE_FILES_MAX {
                let mut steps = String::new();
                for from in &circle {
                    for to in needs[*from].iter().filter(|to| circle.contains(to)) {
                        steps += &format!("\n  {} -> {}", from.join("::"), to.join("::"));
                    }
                }
                found.insert(format!("{} files{steps}", circle.len()));
            }
        }
        found.into_iter().collect()
    }
}

/// Returns the module of a file below `src`, if it belongs to a library or to a program without one.
fn module_of(below_source: &Path, has_library: bool) -> Option<Names> {
    let path = below_source.with_extension("");
    let mut names: Names = path.iter().map(|name| name.to_string_lossy().into_owned()).collect();
    match names.last().map(String::as_str) {
        Some("main") if names.len() == 1 && has_library => return None,
        Some("lib" | "main") if names.len() == 1 => names.clear(),
        Some("mod") => drop(names.pop()),
        _ => {}
    }
    Some(names)
}

#[test]
fn no_circle_has_more_than_two_files() {
    let mut crates: BTreeMap<_, BTreeMap<Names, String>> = BTreeMap::new();
    let all = files(&["rs"]);
    for file in &all {
        let Some(source) = file.ancestors().find(|above| above.ends_with("src")) else { continue };
        let Ok(below) = file.strip_prefix(source) else { continue };
        let has_library = all.contains(&source.join("lib.rs"));
        if let Some(module) = module_of(below, has_library) {
            crates.entry(source.to_owned()).or_default().insert(module, read(file));
        }
    }
    assert!(crates.len() > 8, "crates are found at all");
    let mut wrong = Vec::new();
    for (source, texts) in crates {
        let circles = Modules::new(texts).circles();
        wrong.extend(circles.into_iter().map(|circle| format!("{}: {circle}", source.display())));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn circles_are_found_however_paths_are_written() {
    let module = |name: &str| -> Names {
        name.split('/').filter(|part| !part.is_empty()).map(str::to_owned).collect()
    };
    let circles = |texts: &[(&str, &str)]| {
        let texts = texts.iter().map(|(name, text)| (module(name), (*text).to_owned())).collect();
        Modules::new(texts).circles().len()
    };
    let last = |text| {
        circles(&[
            ("", "mod a; mod b; mod c;"),
            ("a", "use crate::b::{self, B as Other};"),
            ("b", "fn f() { x(super::c::g()); }"),
            ("c", text),
        ])
    };
    for text in
        ["use super::a;", "use crate::{a::A};", "fn g() -> crate::a::A { 1 }", "use super::{b, a::{X, Y}};"]
    {
        assert_eq!(last(text), 1, "{text}");
    }
    for text in
        ["", "// crate::a\nconst A: &str = \"crate::a\";", "#[cfg(test)]\nmod tests { use crate::a; }"]
    {
        assert_eq!(last(text), 0, "{text}");
    }
    // A re-export creates no circle, but a definition above does.
    let below = |top| {
        let child = "use super::Shared;";
        circles(&[("", "mod m;"), ("m", top), ("m/one", child), ("m/two", child), ("m/shared", "")])
    };
    assert_eq!(below("mod one; mod two; mod shared; pub use shared::Shared; pub use one::X; use two::Y;"), 0);
    assert_eq!(below("mod one; mod two; mod shared; struct Shared; use one::X; use two::Y;"), 1);
}
