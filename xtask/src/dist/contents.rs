//! The files that come with the program: manual pages, completions, the systemd unit, licences.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::tarball::{ArchiveFile, gzip};

/// The page of the program itself.
const MAIN_PAGE: &str = "hakobu.1";
/// The path of the program in an installed package, which the unit contains.
const INSTALLED_AT: &str = "/usr/bin/hakobu";
/// The documents of the source tree that are packaged.
const DOCUMENTS: [&str; 3] = ["CHANGELOG.md", "LICENSE-APACHE", "LICENSE-MIT"];
/// The units of the source tree: those of a fleet.
const UNITS: [&str; 2] = ["hakobu-broker.service", "hakobu-serve.service"];
/// The name of the file with the licences of other projects.
pub(super) const NOTICES: &str = "THIRD-PARTY-LICENSES";
/// The folder of all documents.
pub(super) const DOCUMENT_DIRECTORY: &str = "share/doc/hakobu";

/// The directories of the files in a package.
#[derive(Debug)]
pub(super) struct Layout {
    /// The folder of all others: empty, or with a slash at its end.
    pub prefix: &'static str,
    /// The folder of zsh's completions, about which distributions differ.
    pub zsh_directory: &'static str,
    /// True if manual pages are compressed, as in distributions.
    pub packs_manual: bool,
}

/// The layout of the tarball, which may be unpacked anywhere.
pub(super) const TARBALL_LAYOUT: Layout =
    Layout { prefix: "", zsh_directory: "share/zsh/site-functions", packs_manual: false };

/// A text file and its name.
#[derive(Debug, Clone, PartialEq, Eq)]
struct NamedText {
    name: String,
    text: Vec<u8>,
}

/// All files except the program.
#[derive(Debug)]
pub(super) struct Contents {
    manual: Vec<NamedText>,
    bash: Vec<u8>,
    zsh: Vec<u8>,
    fish: Vec<u8>,
    unit: Vec<u8>,
    fleet_units: Vec<NamedText>,
    documents: Vec<NamedText>,
}

impl Contents {
    /// Runs `program` to print its manual pages, completions and unit, and adds the documents of the source tree and
    /// the `notices`.
    pub(super) fn of(program: &Path, workspace: &Path, notices: String) -> Result<Self> {
        let completions = |shell| printed(program, &["completions", shell]);
        let unit = String::from_utf8(printed(program, &["jobs", "unit"])?).context("reading the unit")?;
        let mut fleet_units = Vec::new();
        for name in UNITS {
            let path = workspace.join("contrib/systemd").join(name);
            let text = fs::read(&path).with_context(|| format!("reading {}", path.display()))?;
            fleet_units.push(NamedText { name: name.to_owned(), text });
        }
        let mut documents = vec![NamedText { name: NOTICES.to_owned(), text: notices.into_bytes() }];
        for name in DOCUMENTS {
            let path = workspace.join(name);
            let text = fs::read(&path).with_context(|| format!("reading {}", path.display()))?;
            documents.push(NamedText { name: name.to_owned(), text });
        }
        Ok(Self {
            manual: manual(program)?,
            bash: completions("bash")?,
            zsh: completions("zsh")?,
            fish: completions("fish")?,
            unit: unit_for(&unit, INSTALLED_AT)?.into_bytes(),
            fleet_units,
            documents,
        })
    }

    /// Returns the program and all files with it, at their places in `layout`.
    pub(super) fn files(&self, program: &[u8], layout: &Layout) -> Result<Vec<ArchiveFile>> {
        let file = |path: &str, mode, data: &[u8]| ArchiveFile {
            path: format!("{}{path}", layout.prefix),
            mode,
            data: data.to_vec(),
        };
        let mut files = vec![
            file("bin/hakobu", 0o755, program),
            file("share/bash-completion/completions/hakobu", 0o644, &self.bash),
            file(&format!("{}/_hakobu", layout.zsh_directory), 0o644, &self.zsh),
            file("share/fish/vendor_completions.d/hakobu.fish", 0o644, &self.fish),
            file("lib/systemd/system/hakobu-jobs.service", 0o644, &self.unit),
        ];
        for unit in &self.fleet_units {
            files.push(file(&format!("lib/systemd/system/{}", unit.name), 0o644, &unit.text));
        }
        for page in &self.manual {
            let path = format!("share/man/man1/{}", page.name);
            files.push(match layout.packs_manual {
                true => file(&format!("{path}.gz"), 0o644, &gzip(&page.text)?),
                false => file(&path, 0o644, &page.text),
            });
        }
        files.extend(self.documents(layout));
        Ok(files)
    }

    /// Returns the licences and the changelog, at their places in `layout`.
    pub(super) fn documents(&self, layout: &Layout) -> Vec<ArchiveFile> {
        let prefix = layout.prefix;
        let file = |document: &NamedText| ArchiveFile {
            path: format!("{prefix}{DOCUMENT_DIRECTORY}/{}", document.name),
            mode: 0o644,
            data: document.text.clone(),
        };
        self.documents.iter().map(file).collect()
    }

    /// Returns the text of a document.
    pub(super) fn document(&self, name: &str) -> Result<&[u8]> {
        let found = self.documents.iter().find(|document| document.name == name);
        Ok(&found.with_context(|| format!("there is no document {name}"))?.text)
    }
}

/// Returns the page of the program, and those of all commands that it lists.
fn manual(program: &Path) -> Result<Vec<NamedText>> {
    let text = printed(program, &["man"])?;
    let commands = commands(&String::from_utf8_lossy(&text));
    ensure!(!commands.is_empty(), "the manual lists no commands");
    let mut pages = vec![NamedText { name: MAIN_PAGE.to_owned(), text }];
    for command in commands {
        let text = printed(program, &["man", &command])?;
        pages.push(NamedText { name: format!("hakobu-{command}.1"), text });
    }
    Ok(pages)
}

/// Returns the commands to whose pages a page refers, each on a line of its own: `hakobu\-copy(1)`.
fn commands(page: &str) -> Vec<String> {
    let lines = page.lines().map(|line| line.replace("\\-", "-"));
    let command = |line: String| Some(line.strip_prefix("hakobu-")?.strip_suffix("(1)")?.to_owned());
    lines.filter_map(command).collect()
}

/// Returns the output of the program. It does not depend on the settings of this machine.
fn printed(program: &Path, arguments: &[&str]) -> Result<Vec<u8>> {
    let saying = || format!("{} {}", program.display(), arguments.join(" "));
    let output = Command::new(program).args(arguments).env_clear().output().with_context(saying)?;
    ensure!(
        output.status.success() && !output.stdout.is_empty(),
        "{} failed, {}: {}",
        saying(),
        output.status,
        String::from_utf8_lossy(&output.stderr).trim()
    );
    Ok(output.stdout)
}

/// Returns the unit for a program at `path`. It names the program that printed it before.
fn unit_for(unit: &str, path: &str) -> Result<String> {
    const START: &str = "ExecStart=-";
    const END: &str = " jobs resume --all";
    let is_command = |line: &&str| line.starts_with(START) && line.ends_with(END);
    ensure!(unit.lines().filter(is_command).count() == 1, "the unit has not one line {START}PROGRAM{END}");
    let line = |line: &str| match is_command(&line) {
        true => format!("{START}{path}{END}\n"),
        false => format!("{line}\n"),
    };
    Ok(unit.lines().map(line).collect())
}

#[cfg(test)]
impl Contents {
    /// Returns contents for tests.
    pub(super) fn example() -> Self {
        let text = |name: &str| NamedText { name: name.to_owned(), text: name.as_bytes().to_vec() };
        Self {
            manual: vec![text("hakobu.1"), text("hakobu-copy.1")],
            bash: b"bash".to_vec(),
            zsh: b"zsh".to_vec(),
            fish: b"fish".to_vec(),
            unit: b"unit".to_vec(),
            fleet_units: UNITS.iter().map(|name| text(name)).collect(),
            documents: [NOTICES].iter().chain(&DOCUMENTS).map(|name| text(name)).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_unit_starts_the_installed_program() {
        let unit = "[Service]\nExecStart=-\"/my builds/hakobu\" jobs resume --all\nTimeoutStopSec=90\n";
        let expected = "[Service]\nExecStart=-/usr/bin/hakobu jobs resume --all\nTimeoutStopSec=90\n";
        assert_eq!(unit_for(unit, INSTALLED_AT).unwrap(), expected);
        assert!(unit_for("[Service]\nExecStart=/bin/true\n", INSTALLED_AT).is_err());
    }

    #[test]
    fn the_commands_of_the_manual_are_found() {
        let page = ".TP\nhakobu\\-copy(1)\nBring over\n.TP\nhakobu\\-make\\-data(1)\nsee hakobu\\-x(1) too\n";
        assert_eq!(commands(page), ["copy", "make-data"]);
    }

    #[test]
    fn each_layout_has_every_file_at_its_place() {
        let contents = Contents::example();
        let layout = Layout { prefix: "usr/", zsh_directory: "share/zsh/x", packs_manual: true };
        let paths = |layout| -> Vec<_> {
            contents.files(b"program", layout).unwrap().into_iter().map(|file| file.path).collect()
        };
        let (packaged, unpacked) = (paths(&layout), paths(&TARBALL_LAYOUT));
        for path in [
            "usr/bin/hakobu",
            "usr/share/zsh/x/_hakobu",
            "usr/share/man/man1/hakobu-copy.1.gz",
            "usr/lib/systemd/system/hakobu-jobs.service",
            "usr/lib/systemd/system/hakobu-broker.service",
            "usr/share/doc/hakobu/THIRD-PARTY-LICENSES",
            "usr/share/doc/hakobu/CHANGELOG.md",
        ] {
            assert!(packaged.iter().any(|found| found == path), "{path} is not in {packaged:?}");
        }
        assert!(unpacked.iter().any(|path| path == "share/man/man1/hakobu.1"), "{unpacked:?}");
        assert_eq!(packaged.len(), unpacked.len());
    }
}
