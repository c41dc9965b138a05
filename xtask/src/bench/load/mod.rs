//! `cargo xtask bench load`: a bare generator of requests to S3, as a ceiling for what a client can reach.
//!
//! It sends the requests that the work needs, over some connections with a thread each, and does nothing else: it reads
//! no files, checks no content, keeps no attributes and writes nothing.

mod connection;
mod sign;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use anyhow::{Context, Result, bail, ensure};
use clap::{Args, ValueEnum};

use connection::{LoadConnection, LoadRequest, header};
use sign::LoadSigner;

/// The size of parts and ranges in bytes.
const PART_BYTES: u64 = 8 << 20;

/// The requests that are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum LoadKind {
    /// A PUT for each file of a tree.
    Put,
    /// A GET for each file of a tree.
    Get,
    /// One object in parts.
    Upload,
    /// One object in ranges.
    Ranges,
}

/// Send requests to a store and do nothing else
#[derive(Debug, Args)]
pub struct LoadArgs {
    /// The requests that are sent
    kind: LoadKind,
    /// The bucket and the prefix, or the key
    #[arg(long)]
    at: String,
    /// The address and port of the server
    #[arg(long)]
    server: String,
    /// The tree with the names and sizes of the objects
    #[arg(long)]
    tree: Option<PathBuf>,
    /// The size of the one object
    #[arg(long, default_value_t = 0)]
    bytes: u64,
    /// The number of connections
    #[arg(long, default_value_t = 16)]
    connections: usize,
}

/// One request of the load.
struct LoadItem {
    key: String,
    offset: u64,
    bytes: u64,
}

/// The state that the connections share.
struct RequestLoad<'a> {
    args: &'a LoadArgs,
    signer: &'a LoadSigner,
    items: &'a [LoadItem],
    next: AtomicU64,
    content: Vec<u8>,
    upload: Option<String>,
    /// The ETags of the parts.
    parts: Mutex<Vec<(u64, String)>>,
}

/// Sends the requests.
///
/// # Errors
/// Returns an error if one fails.
pub fn run(args: &LoadArgs) -> Result<()> {
    let variable = |name: &str| std::env::var(name).with_context(|| format!("{name} is not set"));
    let signer = LoadSigner::new(&variable("AWS_ACCESS_KEY_ID")?, &variable("AWS_SECRET_ACCESS_KEY")?);
    let items = items(args)?;
    let largest = items.iter().map(|item| item.bytes).max().unwrap_or(0);
    let sends = matches!(args.kind, LoadKind::Put | LoadKind::Upload);
    let content = vec![0x5a; if sends { usize::try_from(largest)? } else { 0 }];
    let path = format!("/{}", args.at);
    let mut upload = None;
    if args.kind == LoadKind::Upload {
        let mut first = LoadConnection::open(&args.server, &signer)?;
        let request =
            LoadRequest { method: "POST", path: &path, query: "uploads=", headers: "", content: &[] };
        let answer = first.perform(&request)?;
        let text = String::from_utf8_lossy(&answer.body).into_owned();
        let (_, rest) = text.split_once("<UploadId>").context("an upload without an ID")?;
        upload = Some(rest.split('<').next().unwrap_or_default().to_owned());
    }
    let parts = Mutex::default();
    let load =
        RequestLoad { args, signer: &signer, items: &items, next: AtomicU64::new(0), content, upload, parts };
    thread::scope(|scope| {
        let threads: Vec<_> = (0..args.connections).map(|_| scope.spawn(|| load.work())).collect();
        threads.into_iter().try_for_each(|thread| match thread.join() {
            Ok(result) => result,
            Err(_) => bail!("a connection failed"),
        })
    })?;
    load.complete(&path)
}

impl RequestLoad<'_> {
    /// Sends requests until there are no more.
    fn work(&self) -> Result<()> {
        let mut connection = LoadConnection::open(&self.args.server, self.signer)?;
        loop {
            let index = self.next.fetch_add(1, Ordering::Relaxed);
            let Some(item) = self.items.get(index as usize) else { return Ok(()) };
            let path = format!("/{}", item.key);
            let content = &self.content[..self.content.len().min(item.bytes as usize)];
            let request = LoadRequest { method: "PUT", path: &path, query: "", headers: "", content };
            match self.args.kind {
                LoadKind::Put => drop(connection.perform(&request)?),
                LoadKind::Get | LoadKind::Ranges => {
                    let range = format!("Range: bytes={}-{}\r\n", item.offset, item.offset + item.bytes - 1);
                    let headers = if self.args.kind == LoadKind::Get { "" } else { &range };
                    let answer = connection.perform(&LoadRequest {
                        method: "GET",
                        headers,
                        content: &[],
                        ..request
                    })?;
                    ensure!(answer.body_bytes == item.bytes, "{path}: {} bytes", answer.body_bytes);
                }
                LoadKind::Upload => {
                    let number = index + 1;
                    let upload = self.upload.as_deref().unwrap_or_default();
                    let query = format!("partNumber={number}&uploadId={upload}");
                    let answer = connection.perform(&LoadRequest { query: &query, ..request })?;
                    let etag = header(&answer.head, "etag").context("a part without an ETag")?;
                    if let Ok(mut parts) = self.parts.lock() {
                        parts.push((number, etag.to_owned()));
                    }
                }
            }
        }
    }

    /// Completes the upload, if there is one.
    fn complete(&self, path: &str) -> Result<()> {
        let Some(upload) = &self.upload else { return Ok(()) };
        let mut parts = self.parts.lock().map(|parts| parts.clone()).unwrap_or_default();
        parts.sort_unstable();
        let list: String = parts
            .iter()
            .map(|(number, etag)| {
                format!("<Part><PartNumber>{number}</PartNumber><ETag>{etag}</ETag></Part>")
            })
            .collect();
        let text = format!("<CompleteMultipartUpload>{list}</CompleteMultipartUpload>");
        let (query, content) = (format!("uploadId={upload}"), text.as_bytes());
        let mut last = LoadConnection::open(&self.args.server, self.signer)?;
        last.perform(&LoadRequest { method: "POST", path, query: &query, headers: "", content }).map(drop)
    }
}

/// Returns the requests in their order.
fn items(args: &LoadArgs) -> Result<Vec<LoadItem>> {
    if let LoadKind::Upload | LoadKind::Ranges = args.kind {
        let offsets = (0..args.bytes.div_ceil(PART_BYTES)).map(|part| part * PART_BYTES);
        let item = |offset| {
            let bytes = PART_BYTES.min(args.bytes - offset);
            LoadItem { key: args.at.clone(), offset, bytes }
        };
        return Ok(offsets.map(item).collect());
    }
    let mut items = Vec::new();
    add_files(args.tree.as_deref().context("--tree is needed")?, &args.at, &mut items)?;
    Ok(items)
}

fn add_files(directory: &Path, prefix: &str, items: &mut Vec<LoadItem>) -> Result<()> {
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let name = entry.file_name().into_string().ok().context("a name that is no text")?;
        let key = format!("{prefix}/{name}");
        match entry.metadata()? {
            found if found.is_dir() => add_files(&entry.path(), &key, items)?,
            found => items.push(LoadItem { key, offset: 0, bytes: found.len() }),
        }
    }
    Ok(())
}
