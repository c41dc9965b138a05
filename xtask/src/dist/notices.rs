//! The licences of the packages that are linked into the program, whose texts have to be distributed with it.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::linked::{LinkedPackage, LinkedPackages};

/// The beginnings of names of licence files, in capitals.
const NAMES: [&str; 6] = ["LICENSE", "LICENCE", "COPYING", "COPYRIGHT", "NOTICE", "UNLICENSE"];
/// The depth to which a package is searched. Bundled sources are above this depth.
const DEPTH_MAX: usize = 2;
/// Folders that are not linked.
const NOT_LINKED: [&str; 5] = ["tests", "test", "benches", "examples", "target"];
/// The paths of the C library's licence in distributions.
const LGPL: [&str; 2] = ["/usr/share/common-licenses/LGPL-2.1", "/usr/share/licenses/glibc/COPYING.LIB"];

const HEAD: &str = "\
The program hakobu contains code of others, under the licences below. Packages without an address come from crates.io.

Besides the packages it contains the Rust standard library (MIT OR Apache-2.0, https://github.com/rust-lang/rust) and, since it is
linked statically, the GNU C Library (LGPL-2.1-or-later, https://www.gnu.org/software/libc/). Whoever wants to replace that library
builds hakobu from its source with another one.
";

/// Returns the file with all licences of others: a list of the packages, and each text once.
///
/// # Errors
/// A folder or a text of a package cannot be read.
pub(super) fn text(linked: &LinkedPackages) -> Result<String> {
    let mut texts: Vec<(String, String)> = Vec::new();
    let others: Vec<_> = linked.packages().filter(|package| !package.is_ours).collect();
    for package in &others {
        for path in licences(&package.directory, DEPTH_MAX)? {
            let bytes = fs::read(&path).with_context(|| format!("reading {}", path.display()))?;
            let name = path.strip_prefix(&package.directory).unwrap_or(&path).display().to_string();
            texts.push((format!("{} {}: {name}", package.name, package.version), tidy(&bytes)));
        }
    }
    for path in LGPL.map(Path::new).into_iter().filter(|path| path.is_file()).take(1) {
        let bytes = fs::read(path).with_context(|| format!("reading {}", path.display()))?;
        texts.push(("GNU C Library: COPYING.LIB".to_owned(), tidy(&bytes)));
    }
    Ok(format!("{HEAD}\n{}{}", list(&others), chapters(texts)))
}

/// Returns the licence files in a folder and below, sorted.
fn licences(directory: &Path, depth: usize) -> Result<Vec<PathBuf>> {
    let reading = || format!("reading {}", directory.display());
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).with_context(reading)? {
        let entry = entry.with_context(reading)?;
        let (name, kind) = (entry.file_name(), entry.file_type().with_context(reading)?);
        let name = name.to_string_lossy();
        if kind.is_file() && is_licence(&name) {
            found.push(entry.path());
        } else if kind.is_dir() && depth > 0 && !NOT_LINKED.contains(&name.as_ref()) {
            found.extend(licences(&entry.path(), depth - 1)?);
        }
    }
    found.sort();
    Ok(found)
}

/// Returns true if this is the name of a licence text, and not of a source file with such a word in its name.
fn is_licence(name: &str) -> bool {
    let name = name.to_uppercase();
    let is_source = [".RS", ".C", ".H", ".PY", ".SH", ".TOML", ".HTML"].iter().any(|end| name.ends_with(end));
    !is_source && NAMES.iter().any(|start| name.starts_with(start))
}

/// Returns the text with Unix line ends and without trailing blanks, so that equal texts are found.
fn tidy(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let lines: Vec<_> = text.lines().map(str::trim_end).collect();
    lines.join("\n").trim_matches('\n').to_owned()
}

/// Returns a line for each package.
fn list(packages: &[&LinkedPackage]) -> String {
    let line = |package: &&LinkedPackage| {
        let licence = package.licence.as_deref().unwrap_or("no licence is named");
        format!("{} {}: {licence}\n", package.name, package.version)
    };
    packages.iter().map(line).collect()
}

/// Returns each text once, below the packages that have it.
fn chapters(texts: Vec<(String, String)>) -> String {
    let mut chapters: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (from, text) in texts {
        chapters.entry(text).or_default().push(from);
    }
    let mut chapters: Vec<_> = chapters.into_iter().map(|(text, from)| (from, text)).collect();
    chapters.sort();
    let rule = "-".repeat(80);
    chapters.into_iter().map(|(from, text)| format!("\n{rule}\n{}\n\n{text}\n", from.join("\n"))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn licences_are_told_from_sources() {
        for name in ["LICENSE", "LICENSE-MIT", "license.txt", "LICENCE.md", "COPYING", "NOTICE", "UNLICENSE"]
        {
            assert!(is_licence(name), "{name}");
        }
        for name in ["README.md", "license.rs", "license_check.py", "Cargo.toml", "unlicensed.h"] {
            assert!(!is_licence(name), "{name}");
        }
    }

    #[test]
    fn a_text_that_several_packages_have_comes_once() {
        let texts =
            [("b 1: LICENSE", "MIT \r\ntext\n"), ("a 1: LICENSE", "\nMIT\ntext"), ("c 1: COPYING", "BSD")];
        let texts = texts.map(|(from, text)| (from.to_owned(), tidy(text.as_bytes())));
        let chapters = chapters(texts.to_vec());
        assert_eq!(chapters.matches("MIT\ntext\n").count(), 1, "{chapters}");
        let at = |word: &str| chapters.find(word).unwrap();
        assert!(at("b 1: LICENSE\na 1: LICENSE\n\nMIT") < at("c 1: COPYING\n\nBSD\n"), "{chapters}");
    }

    #[test]
    fn licences_of_sources_that_a_package_brings_along_are_found() {
        let place = tempfile::tempdir().unwrap();
        for name in ["LICENSE", "zstd/LICENSE", "zstd/lib/COPYING", "zstd/lib/deep/COPYING", "tests/LICENSE"]
        {
            let path = place.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "words").unwrap();
        }
        let found = licences(place.path(), DEPTH_MAX).unwrap();
        let names: Vec<_> = found.iter().map(|path| path.strip_prefix(place.path()).unwrap()).collect();
        assert_eq!(names, ["LICENSE", "zstd/LICENSE", "zstd/lib/COPYING"].map(Path::new));
    }
}
