//! The files of the page, which are part of the program if they were built with it.

use axum::http::{HeaderMap, HeaderValue, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};

use super::problem::ApiError;

/// The path, the content, and the content compressed with gzip.
type PageFile = (&'static str, &'static [u8], &'static [u8]);

/// The files.
static FILES: &[PageFile] = include!(concat!(env!("OUT_DIR"), "/page_files.rs"));

/// Shown in place of the page by a program that was built without it.
const NO_PAGE: &str = "<!doctype html>
<html lang=\"en\">
<title>hakobu fleet</title>
<h1>hakobu fleet</h1>
<p>This program was built without the page. To build both, run <code>cargo xtask ui</code> and then \
<code>cargo build --release</code>. Everything that the page does, <code>hakobu fleet</code> and the API do too: see \
<a href=\"/api/v1/openapi.json\">the description of the API</a>.</p>
</html>
";

/// Returns a file of the page. What is no call and no file is an error.
pub async fn page_file(uri: Uri, headers: HeaderMap) -> Response {
    let path = if uri.path() == "/" { "/index.html" } else { uri.path() };
    match FILES.iter().find(|(name, ..)| *name == path) {
        Some(file) => answer(file, &headers),
        None if path == "/index.html" => {
            ([(header::CONTENT_TYPE, "text/html; charset=utf-8")], NO_PAGE).into_response()
        }
        None => ApiError::new(StatusCode::NOT_FOUND, "not_found", "there is nothing at this address")
            .hint("GET /api/v1/openapi.json describes all calls")
            .into_response(),
    }
}

fn answer((name, plain, packed): &PageFile, headers: &HeaderMap) -> Response {
    let takes_gzip = headers
        .get(header::ACCEPT_ENCODING)
        .and_then(|value| value.to_str().ok())
        .is_some_and(|value| value.split(',').any(|coding| coding.trim().split(';').next() == Some("gzip")));
    let mut response = if takes_gzip { packed.into_response() } else { plain.into_response() };
    let answer = response.headers_mut();
    answer.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type(name)));
    answer.insert(header::VARY, HeaderValue::from_static("Accept-Encoding"));
    if takes_gzip {
        answer.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    }
    // Files below assets have the hash of their content in their names.
    let lasts = match name.starts_with("/assets/") {
        true => "public, max-age=31536000, immutable",
        false => "no-cache",
    };
    answer.insert(header::CACHE_CONTROL, HeaderValue::from_static(lasts));
    response
}

fn content_type(name: &str) -> &'static str {
    match name.rsplit('.').next() {
        Some("html") => "text/html; charset=utf-8",
        Some("js") => "text/javascript; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("svg") => "image/svg+xml",
        Some("png") => "image/png",
        Some("ico") => "image/x-icon",
        Some("woff2") => "font/woff2",
        Some("json") => "application/json",
        Some("txt") => "text/plain; charset=utf-8",
        _ => "application/octet-stream",
    }
}
