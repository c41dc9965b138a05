//! The check of the built site: each link within it leads to a file, and each fragment to an element of that file.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};

use super::layout::resolve;

/// The numbers of pages and links that were checked.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct CheckedCounts {
    pub pages: usize,
    pub links: usize,
}

/// The names in a page that links may lead to, and the links in it.
#[derive(Debug, Default, PartialEq, Eq)]
struct CheckedPage {
    ids: BTreeSet<String>,
    links: Vec<String>,
}

/// Checks all pages of a site.
///
/// # Errors
/// Returns an error that lists the links that lead nowhere.
pub(super) fn check(site: &Path) -> Result<CheckedCounts> {
    let mut files = BTreeSet::new();
    list(site, "", &mut files)?;
    let mut pages = BTreeMap::new();
    for name in files.iter().filter(|name| name.ends_with(".html")) {
        let text = fs::read_to_string(site.join(name)).with_context(|| name.clone())?;
        pages.insert(name.clone(), page(&text));
    }
    let broken = broken(&files, &pages);
    ensure!(broken.is_empty(), "links of the site that lead nowhere:\n{}", broken.join("\n"));
    let links = pages.values().map(|page| page.links.len()).sum();
    Ok(CheckedCounts { pages: pages.len(), links })
}

/// Adds the files below a directory, by their paths from the site's root.
fn list(site: &Path, folder: &str, files: &mut BTreeSet<String>) -> Result<()> {
    let directory = site.join(folder);
    for entry in fs::read_dir(&directory).with_context(|| directory.display().to_string())? {
        let entry = entry?;
        let name = format!("{folder}{}", entry.file_name().to_string_lossy());
        if entry.file_type()?.is_dir() {
            list(site, &format!("{name}/"), files)?;
        } else {
            files.insert(name);
        }
    }
    Ok(())
}

/// Returns a line for each link that leads nowhere.
fn broken(files: &BTreeSet<String>, pages: &BTreeMap<String, CheckedPage>) -> Vec<String> {
    let mut found = Vec::new();
    for (name, page) in pages {
        for link in &page.links {
            let (path, fragment) = link.split_once('#').unwrap_or((link, ""));
            let target = if path.is_empty() { Some(name.clone()) } else { resolve(name, path) };
            let has_file = target.as_ref().is_some_and(|target| files.contains(target));
            let ids = target.and_then(|target| pages.get(&target)).map(|page| &page.ids);
            let has_id = fragment.is_empty() || ids.is_some_and(|ids| ids.contains(fragment));
            if !has_file || !has_id {
                found.push(format!("  {name}: {link}"));
            }
        }
    }
    found
}

/// Returns the names and the relative links of a page.
fn page(html: &str) -> CheckedPage {
    let mut page = CheckedPage::default();
    let mut rest = html;
    while let Some((_, tag)) = rest.split_once('<') {
        let Some((tag, after)) = tag.split_once('>') else { break };
        // Skips scripts: their text may look like tags.
        let is_script = tag.starts_with("script");
        rest = if is_script { after.split_once("</script").map_or("", |(_, after)| after) } else { after };
        page.ids.extend(attribute(tag, "id"));
        let links = [attribute(tag, "href"), attribute(tag, "src")].into_iter().flatten();
        page.links.extend(links.filter(|link| !link.is_empty() && !link.contains(':')));
    }
    page
}

/// Returns the value of an attribute of a tag.
fn attribute(tag: &str, name: &str) -> Option<String> {
    let start = tag.find(&format!(" {name}=\""))? + name.len() + 3;
    let value = tag[start..].split('"').next()?;
    Some(decoded(&value.replace("&amp;", "&").replace("&#39;", "'").replace("&#x27;", "'")))
}

/// Returns the text with its percent signs and the digits behind them replaced by bytes.
fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        let digits = after.get(..2).and_then(|digits| std::str::from_utf8(digits).ok());
        match digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(value) if byte == b'%' => {
                bytes.push(value);
                rest = after.get(2..).unwrap_or_default();
            }
            _ => {
                bytes.push(byte);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_links_are_found() {
        let found = page(
            "<h2 id=\"a-b\"><a class=\"header\" href=\"#a-b\">x</a></h2><script src=\"s.js\">'<a href=\"no\">'</script>\
             <code>&lt;a href=\"no\"&gt;</code><a href=\"c.html#%E6%97%A5\">c</a><a href=\"https://w\">w</a>",
        );
        assert_eq!(found.ids, BTreeSet::from(["a-b".to_owned()]));
        assert_eq!(found.links, ["#a-b", "s.js", "c.html#日"]);
    }

    #[test]
    fn broken_links_are_listed() {
        let with = |links: &[&str], ids: &[&str]| CheckedPage {
            links: links.iter().map(|&link| link.to_owned()).collect(),
            ids: ids.iter().map(|&id| id.to_owned()).collect(),
        };
        let pages = BTreeMap::from([
            ("a.html".to_owned(), with(&["ja/b.html#x", "ja/b.html#y", "c.svg", "d.svg", "#z"], &["z"])),
            ("ja/b.html".to_owned(), with(&["../a.html#z", "../../a.html", "a.html", "#z"], &["x"])),
        ]);
        let files = ["a.html", "ja/b.html", "c.svg"].map(str::to_owned).into_iter().collect();
        let expected = [
            "  a.html: ja/b.html#y",
            "  a.html: d.svg",
            "  ja/b.html: ../../a.html",
            "  ja/b.html: a.html",
            "  ja/b.html: #z",
        ];
        assert_eq!(broken(&files, &pages), expected);
    }

    #[test]
    fn percent_signs_are_decoded() {
        assert_eq!(decoded("%E6%97%A5-a"), "日-a");
        assert_eq!(decoded("100%"), "100%");
        assert_eq!(decoded("%zz"), "%zz");
    }
}
