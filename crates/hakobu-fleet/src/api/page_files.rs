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
<p>This program was built without the page. <code>cargo xtask ui --program</code> builds both. Everything that the page does, <code>hakobu fleet</code> and the API do too: see \
<a href=\"/api/v1/openapi.json\">the description of the API</a>.</p>
</html>
";

/// Returns a file of the page. What is no call and no file is an error.
pub async fn page_file(uri: Uri, headers: HeaderMap) -> Response {
    file_among(FILES, uri.path(), &headers)
}

fn file_among(files: &[PageFile], path: &str, headers: &HeaderMap) -> Response {
    let path = if path == "/" { "/index.html" } else { path };
    match files.iter().find(|(name, ..)| *name == path) {
        Some(file) => answer(file, headers),
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

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(files: &[PageFile], path: &str) -> (StatusCode, String) {
        let response = file_among(files, path, &HeaderMap::new());
        let status = response.status();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let body = runtime.block_on(axum::body::to_bytes(response.into_body(), 1 << 20)).unwrap();
        (status, String::from_utf8(body.to_vec()).unwrap())
    }

    #[test]
    fn a_program_without_the_page_names_the_one_command_that_builds_both() {
        let (status, html) = shown(&[], "/");
        assert_eq!(status, StatusCode::OK);
        let commands: Vec<_> = html.match_indices("<code>cargo ").collect();
        assert_eq!(commands.len(), 1, "{html}");
        assert!(html.contains("<code>cargo xtask ui --program</code> builds both"), "{html}");
        assert_eq!(shown(&[], "/assets/page.js").0, StatusCode::NOT_FOUND);
        let file: PageFile = ("/index.html", b"page", b"");
        assert_eq!(shown(&[file], "/"), (StatusCode::OK, "page".to_owned()));
    }
}
