//! The content type of an object, derived from the extension of its name.
//!
//! A table of the common ones instead of a crate with all that are registered, for the size of the program.

use hakobu_core::entry::EntryKind;

/// The content type of bytes about which nothing is known.
pub const UNKNOWN: &str = "application/octet-stream";
/// The content type of the marker of a directory, as s3fs and others write it.
pub const DIRECTORY: &str = "application/x-directory";

/// Extensions in lower case, sorted, with their types.
const TYPES: &[(&str, &str)] = &[
    ("7z", "application/x-7z-compressed"),
    ("aac", "audio/aac"),
    ("avi", "video/x-msvideo"),
    ("avif", "image/avif"),
    ("avro", "application/avro"),
    ("bmp", "image/bmp"),
    ("bz2", "application/x-bzip2"),
    ("c", "text/x-c"),
    ("cfg", "text/plain"),
    ("conf", "text/plain"),
    ("css", "text/css"),
    ("csv", "text/csv"),
    ("deb", "application/vnd.debian.binary-package"),
    ("doc", "application/msword"),
    ("docx", "application/vnd.openxmlformats-officedocument.wordprocessingml.document"),
    ("epub", "application/epub+zip"),
    ("flac", "audio/flac"),
    ("geojson", "application/geo+json"),
    ("gif", "image/gif"),
    ("gz", "application/gzip"),
    ("h", "text/x-c"),
    ("heic", "image/heic"),
    ("htm", "text/html"),
    ("html", "text/html"),
    ("ico", "image/vnd.microsoft.icon"),
    ("ics", "text/calendar"),
    ("ini", "text/plain"),
    ("jar", "application/java-archive"),
    ("java", "text/x-java"),
    ("jpeg", "image/jpeg"),
    ("jpg", "image/jpeg"),
    ("js", "text/javascript"),
    ("json", "application/json"),
    ("jsonl", "application/jsonl"),
    ("jxl", "image/jxl"),
    ("log", "text/plain"),
    ("m3u8", "application/vnd.apple.mpegurl"),
    ("m4a", "audio/mp4"),
    ("m4v", "video/mp4"),
    ("markdown", "text/markdown"),
    ("md", "text/markdown"),
    ("mjs", "text/javascript"),
    ("mkv", "video/matroska"),
    ("mov", "video/quicktime"),
    ("mp3", "audio/mpeg"),
    ("mp4", "video/mp4"),
    ("mpeg", "video/mpeg"),
    ("mpg", "video/mpeg"),
    ("odp", "application/vnd.oasis.opendocument.presentation"),
    ("ods", "application/vnd.oasis.opendocument.spreadsheet"),
    ("odt", "application/vnd.oasis.opendocument.text"),
    ("oga", "audio/ogg"),
    ("ogg", "audio/ogg"),
    ("ogv", "video/ogg"),
    ("opus", "audio/ogg"),
    ("otf", "font/otf"),
    ("parquet", "application/vnd.apache.parquet"),
    ("pdf", "application/pdf"),
    ("png", "image/png"),
    ("ppt", "application/vnd.ms-powerpoint"),
    ("pptx", "application/vnd.openxmlformats-officedocument.presentationml.presentation"),
    ("ps", "application/postscript"),
    ("py", "text/x-python"),
    ("rar", "application/vnd.rar"),
    ("rs", "text/x-rust"),
    ("rtf", "application/rtf"),
    ("sh", "application/x-sh"),
    ("sql", "application/sql"),
    ("svg", "image/svg+xml"),
    ("tar", "application/x-tar"),
    ("text", "text/plain"),
    ("tgz", "application/gzip"),
    ("tif", "image/tiff"),
    ("tiff", "image/tiff"),
    ("toml", "application/toml"),
    ("ts", "video/mp2t"),
    ("tsv", "text/tab-separated-values"),
    ("ttf", "font/ttf"),
    ("txt", "text/plain"),
    ("wasm", "application/wasm"),
    ("wav", "audio/wav"),
    ("weba", "audio/webm"),
    ("webm", "video/webm"),
    ("webmanifest", "application/manifest+json"),
    ("webp", "image/webp"),
    ("woff", "font/woff"),
    ("woff2", "font/woff2"),
    ("xhtml", "application/xhtml+xml"),
    ("xls", "application/vnd.ms-excel"),
    ("xlsx", "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"),
    ("xml", "application/xml"),
    ("xz", "application/x-xz"),
    ("yaml", "application/yaml"),
    ("yml", "application/yaml"),
    ("zip", "application/zip"),
    ("zst", "application/zstd"),
];
/// The maximum length of an extension in the table.
const EXTENSION_BYTES_MAX: usize = 11;

/// Returns the content type of the object of an entry with this name.
pub fn content_type(name: &[u8], kind: EntryKind) -> &'static str {
    match kind {
        EntryKind::Directory => DIRECTORY,
        EntryKind::File => by_extension(name).unwrap_or(UNKNOWN),
        _ => UNKNOWN,
    }
}

fn by_extension(name: &[u8]) -> Option<&'static str> {
    let dot = name.iter().rposition(|byte| *byte == b'.').filter(|dot| *dot > 0)?;
    let extension = name.get(dot + 1..).filter(|it| it.len() <= EXTENSION_BYTES_MAX)?.to_ascii_lowercase();
    let index = TYPES.binary_search_by(|(known, _)| known.as_bytes().cmp(&extension)).ok()?;
    Some(TYPES[index].1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_sorted_and_in_lower_case() {
        assert!(TYPES.is_sorted_by(|one, other| one.0 < other.0));
        let longest = TYPES.iter().map(|(extension, _)| extension.len()).max();
        assert_eq!(longest, Some(EXTENSION_BYTES_MAX));
        for (extension, content_type) in TYPES {
            assert!(extension.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit()));
            assert!(content_type.is_ascii() && content_type.split_once('/').is_some());
        }
    }

    #[test]
    fn the_last_extension_of_a_file_decides() {
        for (name, expected) in [
            (&b"photo.JPG"[..], "image/jpeg"),
            (b"a.tar.gz", "application/gzip"),
            (b"x.webmanifest", "application/manifest+json"),
            (b"README", UNKNOWN),
            (b".html", UNKNOWN),
            (b"end.", UNKNOWN),
            (b"a.\xff\xfe", UNKNOWN),
            (b"a.unknownextension", UNKNOWN),
        ] {
            assert_eq!(content_type(name, EntryKind::File), expected, "{name:?}");
        }
        assert_eq!(content_type(b"d.zip", EntryKind::Directory), DIRECTORY);
        assert_eq!(content_type(b"l.zip", EntryKind::Symlink), UNKNOWN);
    }
}
