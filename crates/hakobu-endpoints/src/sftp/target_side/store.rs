//! The operation `Store`: writes the entries of a pack, many of them at a time.

use futures_util::stream::{self, StreamExt};
use hakobu_core::content::ContentSum;
use hakobu_core::endpoint::TargetOutcome;
use hakobu_core::losses::Losses;
use hakobu_core::pack::{FileContent, PACK_BYTES_MAX, PackContent, PackReader, PackRecord, RecordHead};
use hakobu_core::path::EntryPath;
use hakobu_core::zeros::{BlockStretch, stretches};
use hakobu_core::{Error, ErrorKind, Result};

use super::writer_context::{OwnerAnswer, SftpEntryLosses, SftpWriterContext, now_s};
use crate::local::errno::place;
use crate::sftp::requests::{attrs, done};
use crate::sftp::wire::Attrs;

/// The number of entries of a pack that are pending at a time.
const ENTRIES_AT_ONCE: usize = 256;

/// An entry with the index of its directory.
struct PackItem<'a> {
    index: u32,
    directory: usize,
    head: RecordHead<'a>,
    content: PackContent<'a>,
}

impl SftpWriterContext {
    /// Writes all records of a pack. The outcome lists the entries that failed by index.
    ///
    /// # Errors
    /// If the bytes are not a valid pack, or a failure would affect every further entry.
    pub(super) async fn store(&self, pack: &[u8]) -> Result<TargetOutcome> {
        let (directories, items) = read(pack)?;
        let content = |item: &PackItem<'_>| match item.content {
            PackContent::File(content) => content.bytes.len() as u64,
            _ => 0,
        };
        let content_bytes = items.iter().map(content).sum();
        self.shared.allowance.take(&self.shared.grant, content_bytes)?;
        let mut blocked = Vec::with_capacity(directories.len());
        for directory in &directories {
            blocked.push(match self.directory(directory).await {
                Ok(()) => None,
                Err(error) if error.is_fatal() => return Err(error.at(directory)),
                Err(error) => Some(error.at(directory)),
            });
        }
        let (mut failures, mut losses, mut stored_bytes, mut fatal) =
            (Vec::new(), Losses::default(), 0, None);
        let places: Vec<_> = items.iter().map(|item| (item.index, item.directory)).collect();
        let mut put = Vec::with_capacity(items.len());
        for item in items {
            put.push(self.item(&directories, &blocked, item));
        }
        let mut all = stream::iter(put).buffered(ENTRIES_AT_ONCE);
        while let Some((item, done)) = all.next().await {
            let name = place(&directories[item.directory], item.head.name);
            match done {
                Ok(lost) => {
                    losses.merge(&lost, true, || name.clone());
                    stored_bytes += content(&item);
                }
                Err(error) if error.is_fatal() => drop(fatal.get_or_insert(error.at(&name))),
                Err(error) => failures.push((item.index, error.at(&name))),
            }
        }
        drop(all);
        // Somebody may have put a symbolic link on a path meanwhile.
        for (number, directory) in
            directories.iter().enumerate().filter(|(number, _)| blocked[*number].is_none())
        {
            let Err(error) = self.sftp_root.glanced(directory, self.sftp_root.glance(directory)).await else {
                continue;
            };
            if error.is_fatal() {
                fatal.get_or_insert(error);
                break;
            }
            for (index, _) in places.iter().filter(|(_, directory)| *directory == number) {
                if !failures.iter().any(|(failed, _)| failed == index) {
                    failures.push((*index, error.clone()));
                }
            }
        }
        self.shared.allowance.give_back(&self.shared.grant, content_bytes - stored_bytes);
        if let Some(error) = fatal {
            return Err(error);
        }
        for directory in &directories {
            self.sync_directory(directory).await?;
        }
        Ok(TargetOutcome::PackWritten { failures, losses: losses.finish() })
    }

    async fn item<'a>(
        &self,
        directories: &[EntryPath],
        blocked: &[Option<Error>],
        item: PackItem<'a>,
    ) -> (PackItem<'a>, Result<SftpEntryLosses>) {
        let done = match &blocked[item.directory] {
            Some(error) => Err(error.clone()),
            None => self.entry(&directories[item.directory], &item.head, item.content).await,
        };
        (item, done)
    }

    async fn entry(
        &self,
        directory: &EntryPath,
        head: &RecordHead<'_>,
        content: PackContent<'_>,
    ) -> Result<SftpEntryLosses> {
        let path = directory.join(head.name)?;
        self.shared.grant.check_write(&path)?;
        let stored = self.put(&path, head, content).await;
        match stored {
            // Another process has removed or replaced the directory.
            Err(error) if error.kind == ErrorKind::NotFound => {
                self.sftp_root.forget(directory);
                self.directory(directory).await?;
                self.put(&path, head, content).await
            }
            other => other,
        }
    }

    async fn put(
        &self,
        path: &EntryPath,
        head: &RecordHead<'_>,
        content: PackContent<'_>,
    ) -> Result<SftpEntryLosses> {
        let draft = self.begin_draft(path);
        let made = match content {
            PackContent::File(content) => self.file(&draft, head, content).await,
            PackContent::Symlink(text) => self.link(&draft, head, text).await,
            PackContent::Special(kind, _) => {
                let words = format!("an sftp server makes no such thing as {}", kind.words());
                return Err(Error::new(ErrorKind::Unsupported, "making the entry", words));
            }
        };
        let placed = match made {
            Ok(lost) => self.put_in_place(&draft, path, head.replaces).await.map(|()| lost),
            Err(error) => Err(error),
        };
        if placed.is_err() {
            self.discard(&draft).await;
        }
        placed
    }

    /// Writes a draft. All requests that need its handle are sent at once. It gets its final name only when all have
    /// succeeded, because a full disk would otherwise leave a torn file in place of an intact one.
    async fn file(
        &self,
        draft: &[u8],
        head: &RecordHead<'_>,
        content: FileContent<'_>,
    ) -> Result<SftpEntryLosses> {
        let bytes = content.bytes;
        let (sftp_root, connection) = (&self.sftp_root, &self.sftp_root.server.connection);
        let _permit = self.permits.take().await;
        let handle = match self.create(draft).await {
            Ok(handle) => handle,
            Err(refusal) => return Err(sftp_root.write_error("making the file", refusal, 0).await),
        };
        let mut sum = ContentSum::default();
        let writes: Vec<_> = parts(bytes, head.sparse, sftp_root.server.write_bytes)
            .map(|(offset, part)| {
                sum.add(offset as u64, part);
                connection.write(&handle, offset as u64, part)
            })
            .collect();
        let size_bytes = head.sparse.then_some(bytes.len() as u64);
        let lost = self.settle_open(&handle, &head.attributes, size_bytes, true).await;
        for write in writes {
            if let Err(refusal) = done(write).await {
                return Err(sftp_root.write_error("writing", refusal, bytes.len() as u64).await);
            }
        }
        content.check(sum)?;
        lost
    }

    async fn link(&self, draft: &[u8], head: &RecordHead<'_>, text: &[u8]) -> Result<SftpEntryLosses> {
        let (sftp_root, connection) = (&self.sftp_root, &self.sftp_root.server.connection);
        let during = "making the link";
        if let Err(refusal) = done(connection.make_link(text, draft)).await {
            return Err(sftp_root.write_error(during, refusal, 1).await);
        }
        let mut lost = SftpEntryLosses::new();
        if !sftp_root.server.abilities.sets_links {
            let is = attrs(connection.look(draft)).await.map_err(|refusal| refusal.error(during))?;
            let owner = (head.attributes.uid, head.attributes.gid);
            if is.is_none_or(|is| (is.uid, is.gid) != owner) {
                lost.push(hakobu_core::losses::LossKind::Owner);
            }
            return Ok(lost);
        }
        let owner: OwnerAnswer = self.settle_owner(
            &head.attributes,
            || connection.look(draft),
            |attrs| connection.set_here(draft, attrs),
        );
        let times = Attrs { mode: None, ..Attrs::settled(&head.attributes, 0, now_s()) };
        let settled = connection.set_here(draft, &times);
        owner.keeps(&head.attributes, &mut lost).await.map_err(|refusal| refusal.error(during))?;
        done(settled).await.map_err(|refusal| refusal.error("setting the attributes"))?;
        Ok(lost)
    }
}

/// Returns the directories and entries of a pack, which is validated as a whole before anything is written.
fn read(pack: &[u8]) -> Result<(Vec<EntryPath>, Vec<PackItem<'_>>)> {
    let malformed = |words| Error::new(ErrorKind::Protocol, "reading a pack", words);
    if pack.len() > PACK_BYTES_MAX {
        return Err(malformed("it is too large"));
    }
    let (mut directories, mut items, mut index) = (Vec::new(), Vec::new(), 0);
    let mut reader = PackReader::new(pack);
    while let Some(record) = reader.read()? {
        match record {
            PackRecord::Directory { path } => directories.push(path),
            PackRecord::Entry(head, content) => {
                let here = directories.len().checked_sub(1);
                let directory = here.ok_or_else(|| malformed("a record before its directory"))?;
                items.push(PackItem { index, directory, head, content });
                index += 1;
            }
        }
    }
    Ok((directories, items))
}

/// Returns the parts of a file to write, of a size that the server accepts. Sparse files skip blocks of zeros.
fn parts(bytes: &[u8], sparse: bool, max: usize) -> impl Iterator<Item = (usize, &[u8])> {
    let all = (!sparse).then_some(BlockStretch { offset: 0, bytes, is_zero: false });
    let some = sparse.then(|| stretches(0, bytes)).into_iter().flatten();
    all.into_iter().chain(some).filter(|stretch| !stretch.is_zero).flat_map(move |stretch| {
        let parts = stretch.bytes.chunks(max).enumerate();
        parts.map(move |(index, part)| (stretch.offset as usize + index * max, part))
    })
}
