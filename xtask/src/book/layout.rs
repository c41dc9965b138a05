//! The layout of the site: where each document of the repository is in it.

/// The folder of the documents.
const DOCUMENTS: &str = "docs/";
/// The folder of the book's own pages.
const BOOK: &str = "docs/book/";
/// The name of the README. mdBook would make a file of this name the front page.
const README: &str = "readme.md";
/// The name of the README in the site.
const OVERVIEW: &str = "overview.md";

/// A language of the site, which has a book of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BookLanguage {
    English,
    Japanese,
}

impl BookLanguage {
    /// All languages, the one at the root of the site first.
    pub(super) const ALL: [Self; 2] = [Self::English, Self::Japanese];

    /// Returns the language of a page from its path in the site.
    pub(super) fn of(site_path: &str) -> Self {
        if site_path.starts_with(Self::Japanese.folder()) { Self::Japanese } else { Self::English }
    }

    /// Returns the short name.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::English => "en",
            Self::Japanese => "ja",
        }
    }

    /// Returns the folder of the language in the site: empty, or with a slash at the end.
    pub(super) fn folder(self) -> &'static str {
        match self {
            Self::English => "",
            Self::Japanese => "ja/",
        }
    }

    /// Returns the folder of the language's table of contents and settings in the repository.
    pub(super) fn home(self) -> String {
        format!("{BOOK}{}", self.folder())
    }

    /// Returns the front page, as a path in the repository.
    pub(super) fn front_page(self) -> &'static str {
        match self {
            Self::English => "docs/book/index.md",
            Self::Japanese => "docs/book/index.ja.md",
        }
    }

    /// Returns the other language.
    pub(super) fn other(self) -> Self {
        match self {
            Self::English => Self::Japanese,
            Self::Japanese => Self::English,
        }
    }

    /// Returns the label of links to this language.
    pub(super) fn label(self) -> &'static str {
        match self {
            Self::English => "English",
            Self::Japanese => "日本語",
        }
    }
}

/// Returns the place of a document in the site: `ja/install.md` for `docs/book/install.ja.md`.
pub(super) fn site_path(document: &str) -> String {
    let name = document.strip_prefix(BOOK).or_else(|| document.strip_prefix(DOCUMENTS)).unwrap_or(document);
    let name = name.to_lowercase();
    let (folder, name) = match name.strip_suffix(".ja.md") {
        Some(stem) => (BookLanguage::Japanese.folder(), format!("{stem}.md")),
        None => ("", name),
    };
    let name = if name == README { OVERVIEW.to_owned() } else { name };
    format!("{folder}{name}")
}

/// Returns the document in the other language beside `document`: `a.ja.md` for `a.md`, and the reverse.
pub(super) fn counterpart(document: &str) -> Option<String> {
    let stem = document.strip_suffix(".md")?;
    Some(match stem.strip_suffix(".ja") {
        Some(stem) => format!("{stem}.md"),
        None => format!("{stem}.ja.md"),
    })
}

/// Returns the path that `link` names in the document `from`, or `None` if it leads out of the root.
pub(super) fn resolve(from: &str, link: &str) -> Option<String> {
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in link.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            name => parts.push(name),
        }
    }
    Some(parts.join("/"))
}

/// Returns the link from the page `from` to the file `to`, both as paths from the same root.
pub(super) fn relative(from: &str, to: &str) -> String {
    let mut from: Vec<&str> = from.split('/').collect();
    from.pop();
    let to: Vec<&str> = to.split('/').collect();
    let folders = to.len().saturating_sub(1);
    let common = from.iter().zip(&to[..folders]).take_while(|(one, other)| one == other).count();
    let up = from.len() - common;
    let mut parts = vec![".."; up];
    parts.extend(&to[common..]);
    parts.join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_have_places_in_the_site() {
        for (document, expected) in [
            ("docs/book/options.md", "options.md"),
            ("docs/book/options.ja.md", "ja/options.md"),
            ("docs/book/commands/copy.md", "commands/copy.md"),
            ("docs/book/SUMMARY.md", "summary.md"),
            ("docs/book/ja/SUMMARY.md", "ja/summary.md"),
            ("docs/GLOSSARY.md", "glossary.md"),
            ("docs/benchmarks/copy.svg", "benchmarks/copy.svg"),
            ("ARCHITECTURE.md", "architecture.md"),
            ("README.md", "overview.md"),
            ("README.ja.md", "ja/overview.md"),
        ] {
            assert_eq!(site_path(document), expected, "{document}");
        }
        assert_eq!(BookLanguage::of("ja/overview.md"), BookLanguage::Japanese);
        assert_eq!(BookLanguage::of("jams.md"), BookLanguage::English);
    }

    #[test]
    fn front_pages_are_counterparts() {
        for language in BookLanguage::ALL {
            let other = language.other().front_page();
            assert_eq!(counterpart(language.front_page()).as_deref(), Some(other));
            assert_eq!(site_path(language.front_page()), format!("{}index.md", language.folder()));
        }
        assert_eq!(counterpart("docs/benchmarks/copy.svg"), None);
    }

    #[test]
    fn links_are_resolved_from_their_document() {
        assert_eq!(resolve("docs/book/a.md", "b.md").as_deref(), Some("docs/book/b.md"));
        assert_eq!(resolve("docs/book/a.md", "../../README.md").as_deref(), Some("README.md"));
        assert_eq!(resolve("a.md", "./docs//x/").as_deref(), Some("docs/x"));
        assert_eq!(resolve("docs/a.md", "../../x"), None);
    }

    #[test]
    fn relative_links_lead_back() {
        for (from, to, expected) in [
            ("a.md", "b.md", "b.md"),
            ("a.md", "ja/b.md", "ja/b.md"),
            ("ja/a.md", "b.md", "../b.md"),
            ("ja/a.md", "ja/b.md", "b.md"),
            ("ja/a.md", "benchmarks/c.svg", "../benchmarks/c.svg"),
            ("x/y/a.md", "x/z/b.md", "../z/b.md"),
            ("x/a.md", "x", "../x"),
        ] {
            assert_eq!(relative(from, to), expected);
            assert_eq!(resolve(from, expected).as_deref(), Some(to));
        }
    }
}
