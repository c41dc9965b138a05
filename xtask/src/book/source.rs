//! The sources of both books, as mdBook reads them.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};

use super::commands::CommandPage;
use super::japanese;
use super::layout::{BookLanguage, counterpart, relative, resolve, site_path};
use super::links;

/// The line in the table of contents in whose place the pages of the commands are listed.
const COMMANDS: &str = "<!-- commands -->";
/// The table of contents, in the folder of its language.
const CONTENTS: &str = "SUMMARY.md";
/// The other files in that folder that mdBook reads if they are there, and where it expects them.
const SETTINGS: [(&str, &str); 2] = [("book.toml", "book.toml"), ("head.hbs", "theme/head.hbs")];
/// The folder whose figures and charts are part of the site if a page links to them.
const FIGURES: &str = "docs/";

/// The documents of the site, by their paths in the repository.
#[derive(Debug, Default)]
pub(super) struct Sources {
    pages: BTreeMap<String, String>,
    contents: Vec<(BookLanguage, String)>,
}

/// A page as mdBook reads it, and the other files that it links to.
#[derive(Debug, PartialEq, Eq)]
struct RenderedPage {
    text: String,
    files: BTreeSet<String>,
}

impl Sources {
    /// Reads the tables of contents and all pages that they name, and adds the pages of the commands.
    ///
    /// # Errors
    /// Returns an error if a page cannot be read.
    pub(super) fn read(workspace: &Path, commands: Vec<CommandPage>) -> Result<Self> {
        let mut sources = Self::default();
        let list: String = commands.iter().map(line).collect();
        for page in commands {
            sources.pages.insert(page.document, page.text);
        }
        for language in BookLanguage::ALL {
            let document = format!("{}{CONTENTS}", language.home());
            let contents = read(workspace, &document)?.replace(&format!("{COMMANDS}\n"), &list);
            for link in links::targets(&contents) {
                let Some(page) = resolve(&document, &link) else { bail!("{document}: {link} leads out") };
                ensure!(
                    BookLanguage::of(&site_path(&page)) == language,
                    "{document}: {link} is of the other language"
                );
                if let Entry::Vacant(vacant) = sources.pages.entry(page) {
                    let text = read(workspace, vacant.key())?;
                    vacant.insert(text);
                }
            }
            sources.contents.push((language, contents));
        }
        Ok(sources)
    }

    /// Writes what mdBook reads into a folder of `directory` for each language.
    ///
    /// # Errors
    /// Returns an error if a file cannot be read or written.
    pub(super) fn write(&self, workspace: &Path, directory: &Path) -> Result<()> {
        if directory.exists() {
            fs::remove_dir_all(directory).with_context(|| directory.display().to_string())?;
        }
        let mut files = BTreeSet::new();
        for document in self.pages.keys() {
            let rendered = self.page(document);
            write(directory, &site_path(document), rendered.text.as_bytes())?;
            files.extend(rendered.files);
        }
        for file in files {
            let data = fs::read(workspace.join(&file)).with_context(|| file.clone())?;
            write(directory, &site_path(&file), &data)?;
        }
        for (language, contents) in &self.contents {
            let document = format!("{}{CONTENTS}", language.home());
            let place = directory.join(language.name());
            put(&place.join("src").join(CONTENTS), self.linked(&document, contents).text.as_bytes())?;
            for (name, to) in SETTINGS {
                let from = workspace.join(language.home()).join(name);
                if from.exists() {
                    let data = fs::read(&from).with_context(|| from.display().to_string())?;
                    put(&place.join(to), &data)?;
                }
            }
        }
        Ok(())
    }

    /// Returns a page with links for the site, among them one to the other language.
    fn page(&self, document: &str) -> RenderedPage {
        let text = self.pages.get(document).map(String::as_str).unwrap_or_default();
        let mut rendered = self.linked(document, text);
        let path = site_path(document);
        let language = BookLanguage::of(&path);
        let other = language.other();
        let label = format!("[{}](", other.label());
        if !rendered.text.contains(&label) {
            let page = counterpart(document).filter(|page| self.pages.contains_key(page));
            let page = page.unwrap_or_else(|| other.front_page().to_owned());
            let link = relative(&path, &site_path(&page));
            let (title, rest) = rendered.text.split_once('\n').unwrap_or((&rendered.text, ""));
            rendered.text = format!("{title}\n\n{label}{link})\n{rest}");
        }
        if language == BookLanguage::Japanese {
            rendered.text = japanese::joined(&rendered.text);
        }
        rendered
    }

    /// Returns the text of a document with its links rewritten. A link to a page of the site leads there, and one to a figure or chart to
    /// its copy. Any other link within the repository becomes its text, since the site does not have the file.
    fn linked(&self, document: &str, text: &str) -> RenderedPage {
        let mut files = BTreeSet::new();
        let from = site_path(document);
        let text = links::rewrite(text, |link| {
            if link.is_empty() || link.starts_with('#') || link.contains(':') {
                return Some(link.to_owned());
            }
            let (path, anchor) = match link.split_once('#') {
                Some((path, anchor)) => (path, format!("#{anchor}")),
                None => (link, String::new()),
            };
            let file = resolve(document, path)?;
            let is_page = self.pages.contains_key(&file);
            if !is_page {
                if !file.starts_with(FIGURES) || file.ends_with(".md") {
                    return None;
                }
                files.insert(file.clone());
            }
            Some(format!("{}{anchor}", relative(&from, &site_path(&file))))
        });
        RenderedPage { text, files }
    }
}

/// Returns the line of a page in the table of contents of the book's folder.
fn line(page: &CommandPage) -> String {
    let path = relative("docs/book/SUMMARY.md", &page.document);
    format!("{}- [{}]({path})\n", "    ".repeat(page.level), page.title)
}

fn read(workspace: &Path, document: &str) -> Result<String> {
    fs::read_to_string(workspace.join(document)).with_context(|| document.to_owned())
}

/// Writes a file of the site into the source folder of its language.
fn write(directory: &Path, site_path: &str, data: &[u8]) -> Result<()> {
    let language = BookLanguage::of(site_path);
    let name = site_path.strip_prefix(language.folder()).unwrap_or(site_path);
    put(&directory.join(language.name()).join("src").join(name), data)
}

/// Writes a file, and creates the folders above it.
fn put(path: &Path, data: &[u8]) -> Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    }
    fs::write(path, data).with_context(|| path.display().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sources() -> Sources {
        let pages = [
            ("docs/book/index.md", "# Book\n"),
            ("docs/book/index.ja.md", "# 本\n\n[English](index.md)\n"),
            (
                "docs/book/a.md",
                "# A\n\n[b](b.ja.md#x) [g](../GLOSSARY.md) [c](../benchmarks/c.svg) [s](../../src/x.rs)\n",
            ),
            ("docs/book/b.ja.md", "# B\n\n一行目\n二行目 [a](a.md#y) [w](https://w) [z](#z)\n"),
            ("docs/GLOSSARY.md", "# Glossary\n[lost](lost.md)\n"),
        ];
        let pages = pages.map(|(document, text)| (document.to_owned(), text.to_owned()));
        Sources { pages: pages.into_iter().collect(), contents: Vec::new() }
    }

    #[test]
    fn links_fit_the_site() {
        let page = sources().page("docs/book/a.md");
        assert_eq!(
            page.text,
            "# A\n\n[日本語](ja/index.md)\n\n[b](ja/b.md#x) [g](glossary.md) [c](benchmarks/c.svg) s\n"
        );
        assert_eq!(page.files, BTreeSet::from(["docs/benchmarks/c.svg".to_owned()]));
        assert!(sources().page("docs/GLOSSARY.md").text.ends_with("\nlost\n"));
    }

    #[test]
    fn japanese_pages_link_to_english_ones_and_are_joined() {
        let page = sources().page("docs/book/b.ja.md");
        let expected =
            "# B\n\n[English](../index.md)\n\n一行目二行目 [a](../a.md#y) [w](https://w) [z](#z)\n";
        assert_eq!(page.text, expected);
    }

    #[test]
    fn a_link_to_the_other_language_is_written_once() {
        let page = sources().page("docs/book/index.ja.md");
        assert_eq!(page.text, "# 本\n\n[English](../index.md)\n");
        assert_eq!(sources().page("docs/book/index.md").text, "# Book\n\n[日本語](ja/index.md)\n");
    }

    #[test]
    fn commands_are_lines_of_the_contents() {
        let page = CommandPage {
            document: "docs/book/commands/copy.md".to_owned(),
            title: "copy".to_owned(),
            level: 1,
            text: String::new(),
        };
        assert_eq!(line(&page), "    - [copy](commands/copy.md)\n");
    }

    #[test]
    fn the_contents_of_this_repository_can_be_read() {
        let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let sources = Sources::read(&workspace, Vec::new()).unwrap();
        assert!(sources.pages.contains_key("docs/book/move-a-disk.ja.md"));
        assert!(sources.contents.iter().all(|(_, contents)| !contents.contains(COMMANDS)));
    }
}
