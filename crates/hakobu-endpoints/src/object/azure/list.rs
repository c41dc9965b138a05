//! Pages of keys: List Blobs.

use std::time::UNIX_EPOCH;

use hakobu_core::entry::FileTime;
use hakobu_core::{Error, ErrorKind, Result};
use http::Method;

use super::container::LIMITS;
use super::get::{INSPECTING, is_folder};
use super::request::{AzureLane, AzureRequest};
use super::spelling::{etag_of, md5_of};
use crate::object::api::{
    ListCursor, ListQuery, ListStart, ListedObject, ObjectHead, ObjectPage, StoredChecksum,
};
use crate::object::counts::RequestKind;
use crate::object::s3::spelling::decode;
use crate::object::s3::xml::{XmlEvent, read_events};

const LISTING: &str = "listing";
const ROOT: &str = "EnumerationResults";
/// The tier whose blobs must be restored before they can be read.
const ARCHIVE: &str = "Archive";

/// Returns the access tier unless it is the account's own, and true if it is the archive.
pub(super) fn tier(name: &str, is_inferred: bool) -> (Option<String>, bool) {
    ((!name.is_empty() && !is_inferred).then(|| name.to_owned()), name == ARCHIVE)
}

/// A part of a blob's description.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum BlobSection {
    #[default]
    Other,
    Properties,
    Metadata,
}

/// A page that is being read.
#[derive(Default)]
struct BlobPageReader {
    page: ObjectPage,
    blob: Option<ListedObject>,
    metadata: Vec<(String, String)>,
    section: BlobSection,
    has_time: bool,
    is_directory: bool,
    is_inferred: bool,
    /// True if the name is encoded as in a URL, because XML lacks a character of it.
    is_encoded: bool,
}

impl BlobPageReader {
    /// Takes an event; `None` if it is none of a page.
    fn take(&mut self, event: XmlEvent<'_>, is_encoded: bool) -> Option<()> {
        match event {
            XmlEvent::Open { name: "Blob", depth: 3 } => {
                self.blob = Some(ListedObject::default());
                self.metadata = Vec::new();
                (self.has_time, self.is_directory, self.is_inferred) = (false, false, false);
            }
            XmlEvent::Open { name, depth: 4 } => {
                self.is_encoded = is_encoded;
                self.section = match name {
                    "Properties" => BlobSection::Properties,
                    "Metadata" => BlobSection::Metadata,
                    _ => BlobSection::Other,
                };
            }
            XmlEvent::Open { .. } => {}
            XmlEvent::Close { name: "Blob", depth: 3, .. } => self.end_blob()?,
            XmlEvent::Close { name: "NextMarker", depth: 2, text } => {
                self.page.next = (!text.is_empty()).then(|| ListCursor(text.to_owned()));
            }
            XmlEvent::Close { name: "Name", depth: 4, text } => {
                let name = if self.is_encoded { decode(text)? } else { text.to_owned() };
                match &mut self.blob {
                    Some(blob) => blob.key = name,
                    None => self.page.prefixes.push(name),
                }
            }
            XmlEvent::Close { name, depth: 5, text } => self.property(name, text)?,
            XmlEvent::Close { .. } => {}
        }
        Some(())
    }

    fn property(&mut self, name: &str, text: &str) -> Option<()> {
        let Some(blob) = &mut self.blob else { return Some(()) };
        match (self.section, name) {
            (BlobSection::Metadata, name) => self.metadata.push((name.to_ascii_lowercase(), text.to_owned())),
            (BlobSection::Properties, "Content-Length") => blob.size_bytes = text.trim().parse().ok()?,
            (BlobSection::Properties, "Etag") => blob.version.etag = etag_of(text),
            (BlobSection::Properties, "Last-Modified") => {
                let since = httpdate::parse_http_date(text.trim()).ok()?.duration_since(UNIX_EPOCH).ok()?;
                blob.uploaded = FileTime { seconds: since.as_secs() as i64, nanoseconds: 0 };
                self.has_time = true;
            }
            (BlobSection::Properties, "Content-MD5") => {
                blob.checksum = md5_of(text).map(StoredChecksum::Md5);
            }
            (BlobSection::Properties, "AccessTier") => {
                (blob.storage_class, blob.is_archived) = tier(text, false);
            }
            (BlobSection::Properties, "AccessTierInferred") => self.is_inferred = text.trim() == "true",
            (BlobSection::Properties, "ResourceType") => self.is_directory = text.trim() == "directory",
            _ => {}
        }
        Some(())
    }

    fn end_blob(&mut self) -> Option<()> {
        let mut blob = self.blob.take().filter(|blob| self.has_time && !blob.key.is_empty())?;
        if self.is_inferred {
            blob.storage_class = None;
        }
        if (self.is_directory || is_folder(&self.metadata)) && !blob.key.ends_with('/') {
            blob.key.push('/');
        }
        blob.metadata = Some(std::mem::take(&mut self.metadata));
        // Other programs may have stored a directory under both of its names.
        if !blob.key.ends_with('/') || self.page.objects.iter().rev().all(|other| other.key != blob.key) {
            self.page.objects.push(blob);
        }
        Some(())
    }

    /// Returns the page; the cause if it is none of this query.
    fn finish(mut self, query: &ListQuery<'_>) -> Result<ObjectPage, &'static str> {
        if self.page.objects.len() + self.page.prefixes.len() > LIMITS.list_page {
            return Err("a page has more entries than were asked for");
        }
        let keys = self.page.objects.iter().map(|object| &object.key).chain(&self.page.prefixes);
        if !keys.into_iter().all(|key| key.starts_with(query.prefix)) {
            return Err("a key does not begin with the prefix that was asked for");
        }
        if !query.delimiter {
            self.page.prefixes.clear();
        }
        Ok(self.page)
    }
}

impl AzureLane {
    pub(super) async fn list(&self, query: ListQuery<'_>) -> Result<ObjectPage> {
        let entries = query.entries.clamp(1, LIMITS.list_page);
        let mut request = AzureRequest::new(RequestKind::List, Method::GET, LISTING)
            .query("comp", "list")
            .query("include", "metadata")
            .query("maxresults", entries.to_string())
            .query("restype", "container");
        if !query.prefix.is_empty() {
            request = request.query("prefix", query.prefix);
        }
        if query.delimiter {
            request = request.query("delimiter", "/");
        }
        request = match query.start {
            ListStart::First => request,
            ListStart::After(_) => {
                let cause = "Azure does not list from a key on";
                return Err(Error::new(ErrorKind::Unsupported, LISTING, cause));
            }
            ListStart::Cursor(ListCursor(marker)) => request.query("marker", marker.as_str()),
        };
        let answer = self.perform(&request).await.map_err(|failure| self.error(&request, failure))?;
        let wrong = |cause: &str| self.error_of(ErrorKind::Protocol, LISTING, query.prefix, cause);
        let mut reader = BlobPageReader::default();
        let read = read_events(&answer.body, ROOT, |event, opened| {
            let is_encoded = opened.is_some_and(|opened| opened.has("Encoded", "true"));
            reader
                .take(event, is_encoded)
                .ok_or_else(|| wrong("an entry of the store's answer cannot be read"))
        });
        read.map_err(|error| error.at(self.container.location_of(query.prefix)))?;
        let mut page = reader.finish(&query).map_err(wrong)?;
        let is_empty = page.objects.is_empty() && page.prefixes.is_empty() && page.next.is_none();
        if is_empty && query.prefix.ends_with('/') && matches!(query.start, ListStart::First) {
            // Its own object does not begin with this prefix.
            page.objects.extend(self.own_object(query.prefix).await?);
        }
        Ok(page)
    }

    /// Returns the object of a directory as a listing would show it.
    async fn own_object(&self, key: &str) -> Result<Option<ListedObject>> {
        if super::request::check_key(key, INSPECTING).is_err() {
            return Ok(None);
        }
        let listed = |head: ObjectHead| ListedObject {
            key: key.to_owned(),
            size_bytes: head.size_bytes,
            uploaded: head.uploaded,
            version: head.version,
            storage_class: head.storage_class,
            is_archived: head.is_archived,
            metadata: Some(head.metadata),
            checksum: head.checksum,
            md5: None,
        };
        Ok(self.head(key).await?.map(listed))
    }
}

#[cfg(test)]
mod tests {
    use hakobu_core::listing::Detail;

    use super::*;
    use crate::object::entry::listed;

    fn page(document: &str, query: &ListQuery<'_>) -> Result<ObjectPage, &'static str> {
        let mut reader = BlobPageReader::default();
        let wrong = || Error::new(ErrorKind::Protocol, "", "");
        read_events(document.as_bytes(), ROOT, |event, opened| {
            reader.take(event, opened.is_some_and(|opened| opened.has("Encoded", "true"))).ok_or_else(wrong)
        })
        .map_err(|_| "unreadable")?;
        reader.finish(query)
    }

    fn query(prefix: &str) -> ListQuery<'_> {
        ListQuery { prefix, delimiter: true, start: ListStart::First, until: None, entries: 5000 }
    }

    fn blob(name: &str, more: &str) -> String {
        format!(
            "<Blob><Name>{name}</Name><Properties><Last-Modified>Fri, 27 Nov 2026 10:00:00 GMT</Last-Modified>\
             <Etag>0x8DC</Etag><Content-Length>7</Content-Length><AccessTier>Hot</AccessTier>\
             <AccessTierInferred>true</AccessTierInferred></Properties>{more}</Blob>"
        )
    }

    fn result(content: &str, next: &str) -> String {
        format!(
            "<?xml version=\"1.0\"?><EnumerationResults ContainerName=\"c\"><Prefix>p/</Prefix>\
             <Blobs>{content}</Blobs><NextMarker>{next}</NextMarker></EnumerationResults>"
        )
    }

    #[test]
    fn names_of_one_file_have_one_content() {
        let object = |key: &str, md5: Option<u8>| ListedObject {
            key: key.to_owned(),
            size_bytes: 9,
            metadata: Some(vec![("hakobu_inode".to_owned(), "1-2".to_owned())]),
            checksum: md5.map(|byte| StoredChecksum::Md5([byte; 16])),
            ..ListedObject::default()
        };
        let inode = |md5| {
            let listed = listed(&LIMITS, &object("a", md5), Detail::default());
            listed.0.inode.expect("the metadata names one")
        };
        assert_eq!((inode(None), inode(Some(1))), (inode(None), inode(Some(1))));
        // Another program replaced the content and kept the metadata.
        assert!(inode(None) != inode(Some(1)) && inode(Some(1)) != inode(Some(2)));
    }

    #[test]
    fn entries_are_read_with_all_that_is_listed() {
        let content = [
            blob("p/a &amp; b", "<Metadata><Mtime>1</Mtime><Name>x</Name></Metadata>"),
            blob("p/dir", "<Metadata><hdi_isfolder>true</hdi_isfolder></Metadata>"),
            blob("p/cold", "").replace("Hot", "Archive").replace(">true<", ">false<"),
            "<BlobPrefix><Name>p/d/</Name></BlobPrefix>".to_owned(),
            "<BlobPrefix><Name Encoded=\"true\">p/%EF%BF%BE/</Name></BlobPrefix>".to_owned(),
            blob("p/100%25", ""),
        ];
        let page = page(&result(&content.concat(), "m"), &query("p/")).unwrap();
        let keys: Vec<&str> = page.objects.iter().map(|object| object.key.as_str()).collect();
        assert_eq!(keys, ["p/a & b", "p/dir/", "p/cold", "p/100%25"]);
        let first = &page.objects[0];
        assert_eq!(
            (first.size_bytes, first.uploaded.seconds, &first.storage_class),
            (7, 1_795_773_600, &None)
        );
        assert_eq!(first.version.etag.as_deref(), Some("\"0x8DC\""));
        let metadata =
            [("mtime", "1"), ("name", "x")].map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(first.metadata.as_deref(), Some(&metadata[..]));
        assert!(page.objects[2].is_archived && page.objects[2].storage_class.as_deref() == Some("Archive"));
        assert_eq!(page.prefixes, ["p/d/", "p/\u{fffe}/"]);
        assert_eq!(page.next, Some(ListCursor("m".to_owned())));
    }

    #[test]
    fn a_directory_under_both_of_its_names_is_one() {
        let folder = "<Metadata><hdi_isfolder>true</hdi_isfolder></Metadata>";
        let content = [blob("p/d", folder), blob("p/d/", ""), blob("p/e", "")].concat();
        let page = page(&result(&content, ""), &query("p/")).unwrap();
        assert_eq!(page.objects.len(), 2);
        assert!(page.objects[0].metadata.as_ref().is_some_and(|metadata| metadata.len() == 1));
        assert_eq!(page.next, None);
    }

    #[test]
    fn answers_that_are_none_to_this_query_are_refused() {
        for content in [
            blob("../x", ""),
            blob("q/a", ""),
            blob("", ""),
            blob("p/a", "").replace("Fri, 27 Nov", "x"),
            blob("p/a", "").replace(">7<", ">-7<"),
            "<BlobPrefix><Name>q/</Name></BlobPrefix>".to_owned(),
            "<BlobPrefix><Name Encoded=\"true\">p/%ff</Name></BlobPrefix>".to_owned(),
            blob("p/a", "").repeat(5001),
        ] {
            assert!(page(&result(&content, ""), &query("p/")).is_err(), "{:.80}", content);
        }
        assert!(page(&result(&blob("p/a", "").repeat(5000), ""), &query("p/")).is_ok());
    }
}
