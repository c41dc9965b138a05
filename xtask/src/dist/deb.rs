//! The Debian package: an `ar` archive with the format version, the control files for dpkg, and the files.

use anyhow::{Context, Result};

use super::contents::{Contents, DOCUMENT_DIRECTORY, Layout};
use super::program::TargetMachine;
use super::release::{LONG_DESCRIPTION, Release};
use super::tarball::{ArchiveFile, gzip, tar};

const LAYOUT: Layout =
    Layout { prefix: "usr/", zsh_directory: "share/zsh/vendor-completions", packs_manual: true };
/// The beginning of paths in the archives, because dpkg takes the files relative to the root.
const TOP: &str = "./";

/// Returns the version with the number of the package behind it: `0.2.0-1`.
pub(super) fn version(release: &Release) -> String {
    format!("{}-1", release.packaged_version())
}

/// Returns the package.
///
/// # Errors
/// When a file cannot be packed.
pub(super) fn package(
    release: &Release,
    machine: &TargetMachine,
    contents: &Contents,
    program: &[u8],
) -> Result<Vec<u8>> {
    let mut files = contents.files(program, &LAYOUT)?;
    files.push(ArchiveFile {
        path: format!("{}{DOCUMENT_DIRECTORY}/copyright", LAYOUT.prefix),
        mode: 0o644,
        data: copyright(&String::from_utf8_lossy(contents.document("LICENSE-MIT")?)).into_bytes(),
    });
    let control = ArchiveFile {
        path: "control".to_owned(),
        mode: 0o644,
        data: control(release, machine, &files).into_bytes(),
    };
    let mut archive = ar::Builder::new(Vec::new());
    for (name, data) in [
        ("debian-binary", b"2.0\n".to_vec()),
        ("control.tar.gz", gzip(&tar(&[control], TOP, release.epoch)?)?),
        ("data.tar.gz", gzip(&tar(&files, TOP, release.epoch)?)?),
    ] {
        let mut header = ar::Header::new(name.as_bytes().to_vec(), data.len() as u64);
        header.set_mtime(release.epoch);
        header.set_mode(0o100_644);
        archive.append(&header, data.as_slice()).with_context(|| format!("adding {name} to the package"))?;
    }
    archive.into_inner().context("closing the package")
}

/// Returns the control file. The package recommends ssh, which copies on one machine do not need.
fn control(release: &Release, machine: &TargetMachine, files: &[ArchiveFile]) -> String {
    // dpkg counts in KiB and rounds each file up.
    let size_kib: usize = files.iter().map(|file| file.data.len().div_ceil(1024)).sum();
    format!(
        "Package: hakobu\n\
         Version: {}\n\
         Architecture: {}\n\
         Maintainer: The hakobu contributors\n\
         Installed-Size: {size_kib}\n\
         Recommends: openssh-client\n\
         Section: net\n\
         Priority: optional\n\
         Description: {}\n{}",
        version(release),
        machine.debian,
        release.description,
        continued(LONG_DESCRIPTION),
    )
}

/// Returns a text of several lines as the continuation of a field.
fn continued(text: &str) -> String {
    text.lines().map(|line| if line.is_empty() { " .\n".to_owned() } else { format!(" {line}\n") }).collect()
}

/// Returns the copyright file. Licences that every Debian system has are only named.
fn copyright(mit: &str) -> String {
    let mit = continued(mit);
    format!(
        "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\n\
         Upstream-Name: hakobu\n\
         Comment: The licences of what is linked into the program are in THIRD-PARTY-LICENSES.\n\
         \n\
         Files: *\n\
         Copyright: The hakobu contributors\n\
         License: Expat or Apache-2.0\n\
         \n\
         License: Expat\n\
         {mit}\
         \n\
         License: Apache-2.0\n \
         The text is in /usr/share/common-licenses/Apache-2.0.\n"
    )
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use flate2::read::GzDecoder;

    use super::super::program::MACHINES;
    use super::*;

    fn parts() -> Vec<(String, Vec<u8>)> {
        let package = package(&Release::example(), &MACHINES[0], &Contents::example(), b"program").unwrap();
        let mut archive = ar::Archive::new(package.as_slice());
        let mut parts = Vec::new();
        while let Some(part) = archive.next_entry() {
            let mut part = part.unwrap();
            assert_eq!(part.header().mtime(), Release::example().epoch);
            let name = String::from_utf8(part.header().identifier().to_vec()).unwrap();
            let mut data = Vec::new();
            part.read_to_end(&mut data).unwrap();
            parts.push((name, data));
        }
        parts
    }

    #[test]
    fn dpkg_finds_the_parts_in_order() {
        let parts = parts();
        let names: Vec<_> = parts.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["debian-binary", "control.tar.gz", "data.tar.gz"]);
        assert_eq!(parts[0].1, b"2.0\n");
        let mut files = tar::Archive::new(GzDecoder::new(parts[2].1.as_slice()));
        let paths: Vec<_> = files
            .entries()
            .unwrap()
            .map(|entry| String::from_utf8(entry.unwrap().path_bytes().into_owned()).unwrap())
            .collect();
        for path in ["./", "./usr/bin/hakobu", "./usr/share/doc/hakobu/copyright"] {
            assert!(paths.iter().any(|found| found == path), "{path} is not in {paths:?}");
        }
    }

    #[test]
    fn every_line_of_the_control_file_is_a_field_or_goes_on_one() {
        let files = [ArchiveFile { path: "x".to_owned(), mode: 0o644, data: vec![0; 1025] }];
        let control = control(&Release::example(), &MACHINES[1], &files);
        for line in control.lines() {
            assert!(line.starts_with(' ') || line.contains(": "), "{line}");
        }
        for field in ["Version: 0.2.0~rc.1-1\n", "Architecture: arm64\n", "Installed-Size: 2\n"] {
            assert!(control.contains(field), "{field} is not in {control}");
        }
    }

    #[test]
    fn licences_are_paragraphs_as_debian_reads_them() {
        let copyright = copyright("MIT License\n\nPermission");
        assert!(
            copyright.contains("License: Expat\n MIT License\n .\n Permission\n\nLicense: Apache"),
            "{copyright}"
        );
    }
}
