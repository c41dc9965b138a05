//! The RPM package: an obsolete lead, a header with digests, a header that describes the files, and the files.
//!
//! It is written without a library: the existing one (`rpm`) enables features of packages that are linked into
//! hakobu, and brings 22 packages with it. `scripts/check-dist` checks the result with `rpm` itself.

mod cpio;
mod header;

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result};

use super::contents::{Contents, DOCUMENT_DIRECTORY, Layout, NOTICES};
use super::program::TargetMachine;
use super::release::{LONG_DESCRIPTION, Release};
use super::sums::sha256;
use super::tarball::{ArchiveFile, gzip};
use cpio::CpioEntry;
use header::{TagValue, header};

const LAYOUT: Layout =
    Layout { prefix: "usr/", zsh_directory: "share/zsh/site-functions", packs_manual: true };

/// Tags of the regions that cover whole headers.
const SIGNATURES: u32 = 62;
const IMMUTABLE: u32 = 63;

/// Bits of a file's mode.
const REGULAR: u32 = 0o100_000;
const DIRECTORY: u32 = 0o040_000;
/// Flags of files.
const DOCUMENT: u32 = 1 << 1;
const LICENCE: u32 = 1 << 7;
/// Flags of dependencies: on exactly this version, and on what rpm itself can do, in this version or an earlier one.
const EQUAL: u32 = 1 << 3;
const RPM_CAN: u32 = 1 << 24 | 1 << 3 | 1 << 1;
/// The number of SHA-256 in OpenPGP.
const SHA256: u32 = 8;

/// Returns the version with the number of the package behind it: `0.2.0-1`.
pub(super) fn version(release: &Release) -> String {
    format!("{}-1", release.packaged_version())
}

/// A file or a directory of the package.
#[derive(Debug)]
struct PackageFile {
    /// The directory, with a slash at both ends.
    directory: String,
    name: String,
    /// Kind and permission bits.
    mode: u32,
    flags: u32,
    data: Vec<u8>,
}

impl PackageFile {
    fn new(file: ArchiveFile) -> Self {
        let (directory, name) = file.path.rsplit_once('/').unwrap_or_default();
        let is_document = directory.ends_with(DOCUMENT_DIRECTORY);
        let flags = match is_document {
            true if name.starts_with("LICENSE") || name == NOTICES => LICENCE,
            true => DOCUMENT,
            false => 0,
        };
        let (directory, name) = (format!("/{directory}/"), name.to_owned());
        Self { directory, name, mode: REGULAR | file.mode, flags, data: file.data }
    }

    fn path(&self) -> String {
        format!("{}{}", self.directory, self.name)
    }

    fn cpio_entry(&self) -> CpioEntry<'_> {
        CpioEntry { path: self.path(), mode: self.mode, data: &self.data }
    }

    fn is_directory(&self) -> bool {
        self.mode & DIRECTORY != 0
    }
}

/// Returns the package.
///
/// # Errors
/// A file cannot be packed, or is larger than the format allows.
pub(super) fn package(
    release: &Release,
    machine: &TargetMachine,
    contents: &Contents,
    program: &[u8],
) -> Result<Vec<u8>> {
    let files = files(contents.files(program, &LAYOUT)?);
    let epoch = u32::try_from(release.epoch).context("the time of the release is out of range")?;
    let entries: Vec<_> = files.iter().map(PackageFile::cpio_entry).collect();
    let archive = cpio::archive(&entries, epoch);
    let unpacked = size(archive.len())?;
    let payload = gzip(&archive)?;

    let mut tags = about(release, machine, epoch);
    tags.extend(about_files(&files, epoch)?);
    tags.extend(dependencies(release));
    tags.extend(about_payload(&payload));
    let header = header(IMMUTABLE, &tags);
    let signature = signature(&header, size(header.len() + payload.len())?, unpacked);
    Ok([lead(release), signature, header, payload].concat())
}

/// Returns the files, sorted by path, and the directory that belongs to the package.
fn files(files: Vec<ArchiveFile>) -> Vec<PackageFile> {
    let mut files: Vec<_> = files.into_iter().map(PackageFile::new).collect();
    let own = ArchiveFile { path: format!("usr/{DOCUMENT_DIRECTORY}"), mode: 0o755, data: Vec::new() };
    files.push(PackageFile { mode: DIRECTORY | 0o755, ..PackageFile::new(own) });
    files.sort_by_cached_key(PackageFile::path);
    files
}

fn size(size: usize) -> Result<u32> {
    u32::try_from(size).context("the package is too large for its format")
}

fn text(text: impl Into<String>) -> TagValue {
    TagValue::Text(text.into())
}

/// Returns the tags that describe the package.
fn about(release: &Release, machine: &TargetMachine, epoch: u32) -> BTreeMap<u32, TagValue> {
    BTreeMap::from([
        (100, TagValue::Texts(vec!["C".to_owned()])),
        (1000, text("hakobu")),
        (1001, text(release.packaged_version())),
        (1002, text("1")),
        (1004, TagValue::Localized(release.description.clone())),
        (1005, TagValue::Localized(LONG_DESCRIPTION.to_owned())),
        (1006, TagValue::Numbers(vec![epoch])),
        (1007, text("localhost")),
        (1014, text(&release.licence)),
        (1016, TagValue::Localized("Unspecified".to_owned())),
        (1021, text("linux")),
        (1022, text(machine.name)),
        // Without this tag it would be a source package.
        (1044, text(format!("hakobu-{}.src.rpm", version(release)))),
        (1064, text("cargo xtask dist")),
        (5062, text("utf-8")),
    ])
}

/// Returns the tags that describe the files, each with a value for each file.
fn about_files(files: &[PackageFile], epoch: u32) -> Result<BTreeMap<u32, TagValue>> {
    let sizes = files.iter().map(|file| size(file.data.len())).collect::<Result<Vec<_>>>()?;
    let directories: BTreeSet<_> = files.iter().map(|file| file.directory.clone()).collect();
    let directories: Vec<_> = directories.into_iter().collect();
    let directory =
        |file: &PackageFile| directories.iter().take_while(|one| **one != file.directory).count() as u32;
    let digest = |file: &PackageFile| if file.is_directory() { String::new() } else { sha256(&file.data) };
    let numbers =
        |number: &dyn Fn(&PackageFile) -> u32| TagValue::Numbers(files.iter().map(number).collect());
    let texts = |text: &dyn Fn(&PackageFile) -> String| TagValue::Texts(files.iter().map(text).collect());
    Ok(BTreeMap::from([
        (1009, TagValue::Numbers(vec![sizes.iter().sum()])),
        (1028, TagValue::Numbers(sizes)),
        (1030, TagValue::Numbers16(files.iter().map(|file| file.mode as u16).collect())),
        (1033, TagValue::Numbers16(vec![0; files.len()])),
        (1034, numbers(&|_| epoch)),
        (1035, texts(&digest)),
        (1036, texts(&|_| String::new())),
        (1037, numbers(&|file| file.flags)),
        (1039, texts(&|_| "root".to_owned())),
        (1040, texts(&|_| "root".to_owned())),
        // Everything is verified.
        (1045, numbers(&|_| u32::MAX)),
        (1095, numbers(&|_| 1)),
        (1096, TagValue::Numbers((1..=files.len() as u32).collect())),
        (1097, texts(&|_| String::new())),
        (1116, numbers(&directory)),
        (1117, texts(&|file| file.name.clone())),
        (1118, TagValue::Texts(directories.clone())),
        (5011, TagValue::Numbers(vec![SHA256])),
    ]))
}

/// Returns the tags of provided and required packages. ssh is only recommended: copies on one machine do not need it.
fn dependencies(release: &Release) -> BTreeMap<u32, TagValue> {
    let texts = |texts: &[&str]| TagValue::Texts(texts.iter().map(|text| (*text).to_owned()).collect());
    let forms = ["rpmlib(CompressedFileNames)", "rpmlib(FileDigests)", "rpmlib(PayloadFilesHavePrefix)"];
    BTreeMap::from([
        (1047, texts(&["hakobu"])),
        (1048, TagValue::Numbers(vec![RPM_CAN; forms.len()])),
        (1049, texts(&forms)),
        (1050, texts(&["3.0.4-1", "4.6.0-1", "4.0-1"])),
        (1112, TagValue::Numbers(vec![EQUAL])),
        (1113, texts(&[&version(release)])),
        (5046, texts(&["openssh-clients"])),
        (5047, texts(&[""])),
        (5048, TagValue::Numbers(vec![0])),
    ])
}

/// Returns the tags that describe the archive of files.
fn about_payload(payload: &[u8]) -> BTreeMap<u32, TagValue> {
    BTreeMap::from([
        (1124, text("cpio")),
        (1125, text("gzip")),
        (1126, text("9")),
        (5092, TagValue::Texts(vec![sha256(payload)])),
        (5093, TagValue::Numbers(vec![SHA256])),
    ])
}

/// Returns the header with the digest and the sizes, padded to a multiple of eight bytes.
fn signature(packed_header: &[u8], size: u32, unpacked: u32) -> Vec<u8> {
    let tags = BTreeMap::from([
        (273, text(sha256(packed_header))),
        (1000, TagValue::Numbers(vec![size])),
        (1007, TagValue::Numbers(vec![unpacked])),
    ]);
    let mut signature = header(SIGNATURES, &tags);
    signature.resize(signature.len().next_multiple_of(8), 0);
    signature
}

/// Returns the first 96 bytes, which say that the package has version 3 of the format and a signature.
fn lead(release: &Release) -> Vec<u8> {
    let mut lead = vec![0xed, 0xab, 0xee, 0xdb, 3, 0, 0, 0, 0, 1];
    let name = format!("hakobu-{}", version(release));
    lead.extend(name.bytes().chain(std::iter::repeat(0)).take(65));
    lead.extend([0, 0, 1, 0, 5]);
    lead.resize(96, 0);
    lead
}

#[cfg(test)]
mod tests {
    use super::super::program::MACHINES;
    use super::*;

    #[test]
    fn the_parts_follow_each_other() {
        let package = package(&Release::example(), &MACHINES[0], &Contents::example(), b"program").unwrap();
        let number = |at: usize| u32::from_be_bytes(package[at..at + 4].try_into().unwrap()) as usize;
        assert_eq!(&package[..4], b"\xed\xab\xee\xdb");
        assert_eq!(&package[10..26], b"hakobu-0.2.0~rc.");
        assert_eq!(package[78..80], [0, 5]);
        let signature = 96;
        let after = |at: usize| at + 16 + number(at + 8) * 16 + number(at + 12);
        let header = after(signature).next_multiple_of(8);
        for at in [signature, header] {
            assert_eq!(&package[at..at + 4], b"\x8e\xad\xe8\x01", "at {at}");
        }
        let payload = after(header);
        assert_eq!(package[payload..payload + 2], [0x1f, 0x8b]);
        let digest = sha256(&package[header..payload]);
        let text = String::from_utf8_lossy(&package[signature..header]).into_owned();
        assert!(text.contains(&digest), "the digest of the header");
        let text = String::from_utf8_lossy(&package[header..payload]).into_owned();
        assert!(text.contains(&sha256(&package[payload..])), "the digest of the files");
    }

    #[test]
    fn licences_stay_where_documents_are_left_out() {
        let files = files(Contents::example().files(b"program", &LAYOUT).unwrap());
        let flags = |name: &str| files.iter().find(|file| file.name == name).unwrap().flags;
        assert_eq!([flags("LICENSE-MIT"), flags(NOTICES)], [LICENCE; 2]);
        assert_eq!([flags("CHANGELOG.md"), flags("_hakobu")], [DOCUMENT, 0]);
        let own: Vec<_> = files.iter().filter(|file| file.is_directory()).collect();
        assert_eq!(own.len(), 1);
        assert_eq!((own[0].directory.as_str(), own[0].name.as_str()), ("/usr/share/doc/", "hakobu"));
    }

    #[test]
    fn every_tag_of_files_has_a_value_for_each() {
        let files = files(Contents::example().files(b"program", &LAYOUT).unwrap());
        for (tag, value) in about_files(&files, 1).unwrap() {
            let count = match value {
                TagValue::Numbers(numbers) => numbers.len(),
                TagValue::Numbers16(numbers) => numbers.len(),
                TagValue::Texts(texts) => texts.len(),
                other => panic!("{other:?}"),
            };
            assert!(count == files.len() || [1009, 1118, 5011].contains(&tag), "{tag} has {count} values");
        }
    }
}
