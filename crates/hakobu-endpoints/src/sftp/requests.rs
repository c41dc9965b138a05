//! The requests of SFTP version 3, each with its answer.

use hakobu_core::entry::EntryMetadata;
use hakobu_core::{Error, ErrorKind, Result};

use super::connection::{PendingReply, SftpConnection};
use super::wire::{Attrs, FieldReader, Handle, NamedEntry, Reply, RequestType, malformed, open, status};

/// The reason why a server did not fulfil a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ServerRefusal {
    /// The entry does not exist, or the path leads through something that is not a directory.
    NotFound,
    /// The account lacks permission.
    Denied,
    /// The server does not know the request.
    Unsupported,
    /// The system does not accept a name or number.
    Invalid,
    /// Any other failure; version 3 does not distinguish them.
    Other,
    /// The connection failed.
    Fatal(Error),
}

/// The result of a request.
pub(crate) type RequestResult<T = ()> = std::result::Result<T, ServerRefusal>;

impl From<Error> for ServerRefusal {
    fn from(error: Error) -> Self {
        ServerRefusal::Fatal(error)
    }
}

impl ServerRefusal {
    /// Converts the refusal to an error, which says so if version 3 does not tell the reason.
    pub(crate) fn error(self, during: &'static str) -> Error {
        let (kind, words) = match self {
            ServerRefusal::NotFound => (ErrorKind::NotFound, "no such file or directory"),
            ServerRefusal::Denied => (ErrorKind::PermissionDenied, "permission denied"),
            ServerRefusal::Unsupported => (ErrorKind::Unsupported, "the sftp server cannot do that"),
            ServerRefusal::Invalid => {
                (ErrorKind::Unsupported, "the remote system does not accept this name or value")
            }
            ServerRefusal::Other => {
                (ErrorKind::Io, "the sftp server says that it failed; the protocol does not tell why")
            }
            ServerRefusal::Fatal(error) => return error,
        };
        Error::new(kind, during, words)
    }

    fn of_status(code: u32) -> Self {
        match code {
            status::NO_SUCH_FILE => ServerRefusal::NotFound,
            status::PERMISSION_DENIED => ServerRefusal::Denied,
            status::UNSUPPORTED => ServerRefusal::Unsupported,
            status::BAD_MESSAGE => ServerRefusal::Invalid,
            status::NO_CONNECTION | status::CONNECTION_LOST => ServerRefusal::Fatal(Error::new(
                ErrorKind::ConnectionLost,
                "talking to the sftp server",
                "it lost its own connection to what it serves",
            )),
            _ => ServerRefusal::Other,
        }
    }
}

/// Waits for an answer that is only a status.
pub(crate) async fn done(answer: PendingReply) -> RequestResult {
    match answer.await? {
        Reply::Status { code: status::OK, .. } => Ok(()),
        Reply::Status { code, .. } => Err(ServerRefusal::of_status(code)),
        _ => Err(unexpected().into()),
    }
}

async fn handle(answer: PendingReply) -> RequestResult<Handle> {
    match answer.await? {
        Reply::Handle(handle) => Ok(handle),
        Reply::Status { code, .. } if code != status::OK => Err(ServerRefusal::of_status(code)),
        _ => Err(unexpected().into()),
    }
}

/// Waits for attributes. Returns `None` if the kind of the entry is missing or unknown.
pub(crate) async fn attrs(answer: PendingReply) -> RequestResult<Option<EntryMetadata>> {
    match answer.await? {
        Reply::Attrs(attrs) => Ok(attrs.metadata()),
        Reply::Status { code, .. } if code != status::OK => Err(ServerRefusal::of_status(code)),
        _ => Err(unexpected().into()),
    }
}

/// Waits for bytes. Returns an empty vector at the end of the file.
pub(crate) async fn data(answer: PendingReply, asked_bytes: usize) -> RequestResult<Vec<u8>> {
    match answer.await? {
        Reply::Data(bytes) if bytes.len() > asked_bytes || bytes.is_empty() => {
            Err(malformed("more bytes than were asked for, or none").into())
        }
        Reply::Data(bytes) => Ok(bytes),
        Reply::Status { code: status::EOF, .. } => Ok(Vec::new()),
        Reply::Status { code, .. } if code != status::OK => Err(ServerRefusal::of_status(code)),
        _ => Err(unexpected().into()),
    }
}

/// Waits for some entries of a directory. Returns an empty vector if there are no more.
pub(crate) async fn names(answer: PendingReply) -> RequestResult<Vec<NamedEntry>> {
    match answer.await? {
        Reply::Names(names) if names.is_empty() => Err(malformed("a part of a listing without names").into()),
        Reply::Names(names) => Ok(names),
        Reply::Status { code: status::EOF, .. } => Ok(Vec::new()),
        Reply::Status { code, .. } if code != status::OK => Err(ServerRefusal::of_status(code)),
        _ => Err(unexpected().into()),
    }
}

async fn one_name(answer: PendingReply) -> RequestResult<Vec<u8>> {
    match &names(answer).await?[..] {
        [one] => Ok(one.name.clone()),
        _ => Err(malformed("one name was asked for").into()),
    }
}

/// The free space and other facts of a file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileSystemSpace {
    pub(crate) free_bytes: u64,
    /// The number of free inodes; `None` if the file system does not count them.
    pub(crate) free_inodes: Option<u64>,
    pub(crate) read_only: bool,
    /// The ID of the file system, or 0 if the system does not report it.
    pub(crate) system: u64,
}

fn room(extended: &[u8], root: bool) -> Result<FileSystemSpace> {
    let mut reader = FieldReader(extended);
    let _block_bytes = reader.long()?;
    let unit_bytes = reader.long()?;
    let _blocks = reader.long()?;
    let (free, free_for_all) = (reader.long()?, reader.long()?);
    let files = reader.long()?;
    let (_free_files, files_for_all) = (reader.long()?, reader.long()?);
    let system = reader.long()?;
    let flags = reader.long()?;
    let blocks = if root { free } else { free_for_all };
    Ok(FileSystemSpace {
        free_bytes: blocks.saturating_mul(unit_bytes),
        free_inodes: (files > 0).then_some(files_for_all),
        read_only: flags & 1 != 0,
        system,
    })
}

impl SftpConnection {
    pub(crate) async fn open(&self, path: &[u8], how: u32, mode: Option<u32>) -> RequestResult<Handle> {
        let attrs = Attrs { mode, ..Attrs::default() };
        handle(self.ask(RequestType::Open, |packet| {
            packet.string(path).number(how).attrs(&attrs);
        }))
        .await
    }

    /// Opens a file for reading.
    pub(crate) async fn open_to_read(&self, path: &[u8]) -> RequestResult<Handle> {
        self.open(path, open::READ, None).await
    }

    pub(crate) async fn open_directory(&self, path: &[u8]) -> RequestResult<Handle> {
        handle(self.ask(RequestType::OpenDir, |packet| {
            packet.string(path);
        }))
        .await
    }

    pub(crate) fn close(&self, handle: &Handle) -> PendingReply {
        self.ask(RequestType::Close, |packet| {
            packet.string(&handle.0);
        })
    }

    pub(crate) fn read(&self, handle: &Handle, offset: u64, length: usize) -> PendingReply {
        self.ask(RequestType::Read, |packet| {
            packet.string(&handle.0).long(offset).number(length as u32);
        })
    }

    pub(crate) fn write(&self, handle: &Handle, offset: u64, bytes: &[u8]) -> PendingReply {
        self.ask(RequestType::Write, |packet| {
            packet.string(&handle.0).long(offset).string(bytes);
        })
    }

    pub(crate) fn read_directory(&self, handle: &Handle) -> PendingReply {
        self.ask(RequestType::ReadDir, |packet| {
            packet.string(&handle.0);
        })
    }

    /// Requests the attributes of an entry without following a symbolic link.
    pub(crate) fn look(&self, path: &[u8]) -> PendingReply {
        self.with_path(RequestType::LStat, path)
    }

    /// Requests the attributes of an entry, or of the target of a symbolic link.
    pub(crate) fn look_through(&self, path: &[u8]) -> PendingReply {
        self.with_path(RequestType::Stat, path)
    }

    pub(crate) fn look_open(&self, handle: &Handle) -> PendingReply {
        self.with_path(RequestType::FStat, &handle.0)
    }

    /// Sets attributes of the entry at a path, following symbolic links.
    pub(crate) fn set_through(&self, path: &[u8], attrs: &Attrs) -> PendingReply {
        self.ask(RequestType::SetStat, |packet| {
            packet.string(path).attrs(attrs);
        })
    }

    pub(crate) fn set_open(&self, handle: &Handle, attrs: &Attrs) -> PendingReply {
        self.ask(RequestType::FSetStat, |packet| {
            packet.string(&handle.0).attrs(attrs);
        })
    }

    /// Sets attributes of an entry without following a symbolic link. This requires OpenSSH 8.0 or newer.
    pub(crate) fn set_here(&self, path: &[u8], attrs: &Attrs) -> PendingReply {
        self.ask(RequestType::Extended, |packet| {
            packet.string(b"lsetstat@openssh.com").string(path).attrs(attrs);
        })
    }

    pub(crate) fn remove(&self, path: &[u8]) -> PendingReply {
        self.with_path(RequestType::Remove, path)
    }

    pub(crate) fn remove_directory(&self, path: &[u8]) -> PendingReply {
        self.with_path(RequestType::RmDir, path)
    }

    pub(crate) fn make_directory(&self, path: &[u8], mode: u32) -> PendingReply {
        let attrs = Attrs { mode: Some(mode), ..Attrs::default() };
        self.ask(RequestType::MkDir, |packet| {
            packet.string(path).attrs(&attrs);
        })
    }

    /// Renames an entry if the new name does not exist.
    pub(crate) fn rename(&self, from: &[u8], to: &[u8]) -> PendingReply {
        self.ask(RequestType::Rename, |packet| {
            packet.string(from).string(to);
        })
    }

    /// Renames an entry atomically, replacing an existing entry.
    pub(crate) fn rename_over(&self, from: &[u8], to: &[u8]) -> PendingReply {
        self.ask(RequestType::Extended, |packet| {
            packet.string(b"posix-rename@openssh.com").string(from).string(to);
        })
    }

    pub(crate) fn hard_link(&self, from: &[u8], to: &[u8]) -> PendingReply {
        self.ask(RequestType::Extended, |packet| {
            packet.string(b"hardlink@openssh.com").string(from).string(to);
        })
    }

    /// Creates a symbolic link. OpenSSH swaps the two paths of the draft standard, and other servers follow it.
    pub(crate) fn make_link(&self, text: &[u8], at: &[u8]) -> PendingReply {
        self.ask(RequestType::SymLink, |packet| {
            packet.string(text).string(at);
        })
    }

    pub(crate) async fn read_link(&self, path: &[u8]) -> RequestResult<Vec<u8>> {
        one_name(self.with_path(RequestType::ReadLink, path)).await
    }

    /// Returns the absolute path, with symbolic links resolved as far as the server does that.
    pub(crate) async fn real_path(&self, path: &[u8]) -> RequestResult<Vec<u8>> {
        one_name(self.with_path(RequestType::RealPath, path)).await
    }

    /// Flushes an open file or directory to stable storage.
    pub(crate) fn sync(&self, handle: &Handle) -> PendingReply {
        self.ask_sync(|packet| {
            packet.string(b"fsync@openssh.com").string(&handle.0);
        })
    }

    pub(crate) async fn room(&self, path: &[u8], root: bool) -> RequestResult<FileSystemSpace> {
        let answer = self.ask(RequestType::Extended, |packet| {
            packet.string(b"statvfs@openssh.com").string(path);
        });
        match answer.await? {
            Reply::Extended(bytes) => Ok(room(&bytes, root)?),
            Reply::Status { code, .. } if code != status::OK => Err(ServerRefusal::of_status(code)),
            _ => Err(unexpected().into()),
        }
    }

    /// Returns the maximum length of a read and of a write in bytes, and the maximum number of handles, if reported.
    pub(crate) async fn limits(&self) -> RequestResult<(u64, u64, u64)> {
        let answer = self.ask(RequestType::Extended, |packet| {
            packet.string(b"limits@openssh.com");
        });
        match answer.await? {
            Reply::Extended(bytes) => {
                let mut reader = FieldReader(&bytes);
                let _packet = reader.long()?;
                Ok((reader.long()?, reader.long()?, reader.long()?))
            }
            Reply::Status { code, .. } if code != status::OK => Err(ServerRefusal::of_status(code)),
            _ => Err(unexpected().into()),
        }
    }

    fn with_path(&self, ask: RequestType, path: &[u8]) -> PendingReply {
        self.ask(ask, |packet| {
            packet.string(path);
        })
    }
}

/// Returns the error for an entry whose type or size the server does not report, so that it cannot be processed.
pub(crate) fn unclear(during: &'static str) -> Error {
    let words = "the SFTP server does not report its type or its size";
    Error::new(ErrorKind::Unsupported, during, words)
}

fn unexpected() -> Error {
    malformed("an unexpected answer")
}
