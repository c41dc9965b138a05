//! Pages of keys: ListObjectsV2.

use hakobu_core::{ErrorKind, Result};
use http::Method;

use super::bucket::LIMITS;
use super::request::{S3Lane, S3Request};
use super::spelling::{decode, time_of};
use super::xml::{XmlEvent, read_xml};
use crate::object::api::{ListCursor, ListQuery, ListStart, ListedObject, ObjectPage};
use crate::object::counts::RequestKind;

const LISTING: &str = "listing";
/// The storage class that is not worth mentioning.
const USUAL_CLASS: &str = "STANDARD";
/// The storage classes whose objects must be restored before they can be read.
const ARCHIVES: [&str; 2] = ["GLACIER", "DEEP_ARCHIVE"];

/// Returns the storage class if it is not the usual one, and true if it is an archive.
pub(super) fn storage_class(name: &str) -> (Option<String>, bool) {
    let class = (!name.is_empty() && name != USUAL_CLASS).then(|| name.to_owned());
    (class, ARCHIVES.contains(&name))
}

/// A page that is being read.
#[derive(Default)]
struct PageReader {
    page: ObjectPage,
    object: Option<ListedObject>,
    has_time: bool,
    is_truncated: bool,
    is_encoded: bool,
    token: Option<String>,
    is_restored: bool,
}

impl PageReader {
    /// Takes an event; `None` if it is none of a page.
    fn take(&mut self, event: XmlEvent<'_>) -> Option<()> {
        match event {
            XmlEvent::Open { name: "Contents", depth: 2 } => {
                self.object = Some(ListedObject::default());
                (self.has_time, self.is_restored) = (false, false);
            }
            XmlEvent::Open { .. } => {}
            XmlEvent::Close { name, depth: 2, text } => match name {
                "Contents" => {
                    let mut object = self.object.take()?;
                    object.is_archived &= !self.is_restored;
                    if !self.has_time || object.key.is_empty() {
                        return None;
                    }
                    self.page.objects.push(object);
                }
                "IsTruncated" => self.is_truncated = text.trim() == "true",
                "EncodingType" => self.is_encoded = text == "url",
                "NextContinuationToken" => self.token = Some(text.to_owned()),
                _ => {}
            },
            XmlEvent::Close { name, depth: 3, text } => match (&mut self.object, name) {
                (Some(object), "Key") => object.key = text.to_owned(),
                (Some(object), "Size") => object.size_bytes = text.parse().ok()?,
                (Some(object), "ETag") => object.version.etag = (!text.is_empty()).then(|| text.to_owned()),
                (Some(object), "LastModified") => (object.uploaded, self.has_time) = (time_of(text)?, true),
                (Some(object), "StorageClass") => {
                    (object.storage_class, object.is_archived) = storage_class(text);
                }
                (None, "Prefix") => self.page.prefixes.push(text.to_owned()),
                _ => {}
            },
            XmlEvent::Close { name: "RestoreExpiryDate", .. } => self.is_restored = true,
            XmlEvent::Close { .. } => {}
        }
        Some(())
    }

    /// Decodes names, and returns the page; the cause if it is none of this query.
    fn finish(mut self, query: &ListQuery<'_>) -> Result<ObjectPage, &'static str> {
        let objects = self.page.objects.iter_mut().map(|object| &mut object.key);
        for name in objects.chain(&mut self.page.prefixes) {
            if self.is_encoded {
                *name = decode(name).ok_or("a key is encoded wrongly")?;
            }
            if !name.starts_with(query.prefix) {
                return Err("a key does not begin with the prefix that was asked for");
            }
        }
        if self.page.objects.len() + self.page.prefixes.len() > LIMITS.list_page {
            return Err("a page has more entries than were asked for");
        }
        if self.is_truncated {
            let token = self.token.filter(|token| !token.is_empty());
            self.page.next = Some(ListCursor(token.ok_or("a page says that more follow, and not where")?));
        }
        if let Some(until) = query.until {
            let (objects, prefixes) = (self.page.objects.len(), self.page.prefixes.len());
            self.page.objects.retain(|object| object.key.as_str() < until);
            self.page.prefixes.retain(|prefix| prefix.as_str() < until);
            if (self.page.objects.len(), self.page.prefixes.len()) != (objects, prefixes) {
                self.page.next = None;
            }
        }
        Ok(self.page)
    }
}

impl S3Lane {
    pub(super) async fn list(&self, query: ListQuery<'_>) -> Result<ObjectPage> {
        let entries = query.entries.clamp(1, LIMITS.list_page);
        let mut request = S3Request::new(RequestKind::List, Method::GET, LISTING)
            .query("encoding-type", "url")
            .query("list-type", "2")
            .query("max-keys", entries.to_string());
        if !query.prefix.is_empty() {
            request = request.query("prefix", query.prefix);
        }
        if query.delimiter {
            request = request.query("delimiter", "/");
        }
        request = match query.start {
            ListStart::First => request,
            ListStart::After(key) => request.query("start-after", key),
            ListStart::Cursor(ListCursor(token)) => request.query("continuation-token", token.as_str()),
        };
        let answer = self.perform(&request).await.map_err(|failure| self.error(&request, failure))?;
        let wrong = |cause: &str| self.error_of(ErrorKind::Protocol, LISTING, query.prefix, cause);
        let mut reader = PageReader::default();
        let read = read_xml(&answer.body, "ListBucketResult", |event| {
            reader.take(event).ok_or_else(|| wrong("an entry of the store's answer cannot be read"))
        });
        read.map_err(|error| error.at(self.bucket.location_of(query.prefix)))?;
        reader.finish(&query).map_err(wrong)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(document: &str, query: &ListQuery<'_>) -> Result<ObjectPage, &'static str> {
        let mut reader = PageReader::default();
        let wrong = || hakobu_core::Error::new(ErrorKind::Protocol, "", "");
        read_xml(document.as_bytes(), "ListBucketResult", |event| reader.take(event).ok_or_else(wrong))
            .map_err(|_| "unreadable")?;
        reader.finish(query)
    }

    fn query(prefix: &str) -> ListQuery<'_> {
        ListQuery { prefix, delimiter: true, start: ListStart::First, until: None, entries: 1000 }
    }

    fn object(key: &str) -> String {
        format!(
            "<Contents><Key>{key}</Key><LastModified>2026-11-27T10:00:00.000Z</LastModified><Size>7</Size></Contents>"
        )
    }

    fn result(content: &str) -> String {
        format!(
            "<ListBucketResult xmlns=\"u\"><Prefix>p/</Prefix><EncodingType>url</EncodingType>{content}</ListBucketResult>"
        )
    }

    #[test]
    fn entries_are_read_with_all_that_is_listed() {
        let content = "<IsTruncated>true</IsTruncated><NextContinuationToken>t+1</NextContinuationToken>\
            <Contents><Key>p/a%20b%2Bc</Key><ETag>&quot;e&quot;</ETag><Size>12</Size><StorageClass>GLACIER</StorageClass>\
            <LastModified>2026-11-27T10:00:00.000Z</LastModified><Owner><ID>i</ID></Owner></Contents>\
            <CommonPrefixes><Prefix>p/d%2F</Prefix></CommonPrefixes>";
        let page = page(&result(content), &query("p/")).unwrap();
        let object = &page.objects[0];
        assert_eq!((object.key.as_str(), object.size_bytes, object.is_archived), ("p/a b+c", 12, true));
        assert_eq!(object.version.etag.as_deref(), Some("\"e\""));
        assert_eq!(page.prefixes, ["p/d/"]);
        assert_eq!(page.next, Some(ListCursor("t+1".to_owned())));
    }

    #[test]
    fn a_listing_ends_before_the_key_asked_for() {
        let content = format!(
            "<IsTruncated>true</IsTruncated><NextContinuationToken>t</NextContinuationToken>{}{}",
            object("p/a"),
            object("p/b")
        );
        let until =
            |until| page(&result(&content), &ListQuery { until: Some(until), ..query("p/") }).unwrap();
        assert_eq!((until("p/b").objects.len(), until("p/b").next), (1, None));
        assert!(until("p/c").objects.len() == 2 && until("p/c").next.is_some());
    }

    #[test]
    fn answers_that_are_none_to_this_query_are_refused() {
        for content in [
            object("../x"),
            object("q/a"),
            object("p/%ff"),
            object("p/%2"),
            object(""),
            object("p/a").replace("2026", "x"),
            object("p/a").replace("<Size>7", "<Size>-7"),
            "<CommonPrefixes><Prefix>q/</Prefix></CommonPrefixes>".to_owned(),
            "<IsTruncated>true</IsTruncated>".to_owned(),
            object("p/a").repeat(1001),
        ] {
            assert!(page(&result(&content), &query("p/")).is_err(), "{:.80}", content);
        }
        assert!(page(&result(&object("p/a").repeat(1000)), &query("p/")).is_ok());
    }
}
