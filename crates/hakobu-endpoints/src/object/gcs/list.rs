//! Pages of keys.

use hakobu_core::{ErrorKind, Result};
use http::Method;
use serde::Deserialize;

use super::bucket::LIMITS;
use super::compose::is_temporary;
use super::refusal::GcsRefusal;
use super::request::{GcsFailure, GcsLane, GcsRequest};
use super::resource::{FIELDS, ObjectResource};
use crate::object::api::{ListCursor, ListQuery, ListStart, ObjectPage};
use crate::object::counts::RequestKind;

const LISTING: &str = "listing";

/// A page in an answer.
#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct ResourcePage {
    items: Vec<ObjectResource>,
    prefixes: Vec<String>,
    next_page_token: Option<String>,
}

impl GcsLane {
    pub(super) async fn list(&self, query: ListQuery<'_>) -> Result<ObjectPage> {
        let wrong = |cause: &str| self.error_of(ErrorKind::Protocol, LISTING, query.prefix, cause);
        let entries = query.entries.clamp(1, LIMITS.list_page);
        let page = self.page(&query, entries).await?;
        if page.items.len() + page.prefixes.len() > entries {
            return Err(wrong("a page has more entries than were asked for"));
        }
        let mut found = ObjectPage { prefixes: page.prefixes, ..ObjectPage::default() };
        for item in page.items {
            let object =
                item.listed().ok_or_else(|| wrong("an entry of the store's answer cannot be read"))?;
            found.objects.push(object);
        }
        let mut keys = found.objects.iter().map(|object| &object.key).chain(&found.prefixes);
        if keys.any(|key| !key.starts_with(query.prefix)) {
            return Err(wrong("a key does not begin with the prefix that was asked for"));
        }
        // A listing begins at a key, and a lane wants what is after it.
        if let ListStart::After(after) = query.start {
            found.objects.retain(|object| object.key.as_str() > after);
            found.prefixes.retain(|prefix| prefix.as_str() > after || after.starts_with(prefix.as_str()));
        }
        found.objects.retain(|object| !is_temporary(&object.key));
        found.next = page.next_page_token.filter(|token| !token.is_empty()).map(ListCursor);
        Ok(found)
    }

    /// Returns the objects of a page, those of unfinished uploads included.
    pub(super) async fn all_below(&self, prefix: &str) -> Result<Vec<ObjectResource>> {
        let wrong = |cause: &str| self.error_of(ErrorKind::Protocol, LISTING, prefix, cause);
        let (mut all, mut cursor) = (Vec::new(), None);
        for _ in 0..PAGES_MAX {
            let start = cursor.as_ref().map_or(ListStart::First, ListStart::Cursor);
            let entries = LIMITS.list_page;
            let page = self
                .page(&ListQuery { prefix, delimiter: false, start, until: None, entries }, entries)
                .await?;
            if page.items.iter().any(|item| !item.name.starts_with(prefix)) {
                return Err(wrong("a key does not begin with the prefix that was asked for"));
            }
            all.extend(page.items);
            match page.next_page_token.filter(|token| !token.is_empty()).map(ListCursor) {
                None => return Ok(all),
                next if next == cursor => break,
                next => cursor = next,
            }
        }
        Err(wrong("the list does not end"))
    }

    async fn page(&self, query: &ListQuery<'_>, entries: usize) -> Result<ResourcePage> {
        let mut request =
            GcsRequest::new(RequestKind::List, Method::GET, LISTING, self.bucket.target.objects())
                .query("maxResults", entries.to_string())
                .query("fields", format!("items({FIELDS}),prefixes,nextPageToken"));
        if !query.prefix.is_empty() {
            request = request.query("prefix", query.prefix);
        }
        if query.delimiter {
            request = request.query("delimiter", "/");
        }
        if let Some(until) = query.until {
            request = request.query("endOffset", until);
        }
        request = match query.start {
            ListStart::First => request,
            ListStart::After(key) => request.query("startOffset", key),
            ListStart::Cursor(ListCursor(token)) => request.query("pageToken", token.as_str()),
        };
        let answer = self.perform(&request).await.map_err(|failure| match failure {
            // Nothing else can be missing.
            GcsFailure::Refused { refusal, may_be_done }
                if refusal.status == 404 && !refusal.reason.is_empty() =>
            {
                let refusal = GcsRefusal { reason: "NoSuchBucket".to_owned(), ..refusal };
                self.error(&request, GcsFailure::Refused { refusal, may_be_done })
            }
            failure => self.error(&request, failure),
        })?;
        serde_json::from_slice(&answer.body).map_err(|_| {
            let cause = "the answer is no page of objects";
            self.error_of(ErrorKind::Protocol, LISTING, query.prefix, cause)
        })
    }
}

/// The most pages of parts that unfinished uploads may have.
const PAGES_MAX: usize = 10_000;
