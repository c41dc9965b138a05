//! The key file of a control plane, and secrets sealed with it.
//!
//! The file has one key a line, the current one first: `hakobu-key-1 KEY-ID KEY`. A sealed text is `hks1.KEY-ID.BYTES`: a
//! nonce, the secret in AES-256-GCM, and the tag. It is bound to its purpose, so that it opens nowhere else.

use std::fs::{File, OpenOptions, Permissions};
use std::io::{Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use aws_lc_rs::rand;
use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use hakobu_core::error::{Error, ErrorKind, Result};

use crate::lease_token::LeaseKey;
use crate::private_file::is_open_to_others;
use crate::sealing::{KEY_BYTES, open_bytes, seal_bytes};
use crate::secret_bytes::{SECRET_BYTES_MAX, SecretBytes};

/// The maximum number of keys: the current one, and those that sealed texts may still have.
pub const KEYS_MAX: usize = 8;
/// The maximum length of a sealed text, which is kept as a reference to credentials.
pub const SEALED_BYTES_MAX: usize = crate::relationship::CREDENTIAL_BYTES_MAX;
/// The word in front of each key.
const KEY_FORM: &str = "hakobu-key-1";
/// The word in front of each sealed text.
const SEALED_FORM: &str = "hks1";
/// The use of the key in sealed texts.
const SEALED_CONTEXT: &str = "hakobu sealed secret 1";
const KEY_ID_CONTEXT: &str = "hakobu 2026-11-28 fleet key ID";
/// The use of a key in its mark.
const KEY_MARK_CONTEXT: &str = "hakobu 2026-11-28 fleet key mark";
const FILE_BYTES_MAX: u64 = 4 << 10;
const CREATING: &str = "creating the key file";
const READING: &str = "reading the key file";
const SEALING: &str = "sealing a secret";
const OPENING: &str = "opening a sealed secret";

/// A key with its ID, which is no secret.
struct SealingKey {
    id: String,
    key: SecretBytes,
}

impl SealingKey {
    fn new(key: SecretBytes) -> Self {
        let hash = blake3::derive_key(KEY_ID_CONTEXT, key.expose());
        Self { id: hash.iter().take(4).map(|byte| format!("{byte:02x}")).collect(), key }
    }

    fn generate() -> Result<Self> {
        let mut key = SecretBytes::new(vec![0; KEY_BYTES]);
        rand::fill(key.expose_mut())
            .map_err(|_| Error::new(ErrorKind::Io, CREATING, "the system gives no random numbers"))?;
        Ok(Self::new(key))
    }

    /// Returns the mark: the ID, and a hash that is long enough to be that of no other key.
    fn mark(&self) -> String {
        let hash = blake3::derive_key(KEY_MARK_CONTEXT, self.key.expose());
        let hash: String = hash.iter().take(16).map(|byte| format!("{byte:02x}")).collect();
        format!("{} {hash}", self.id)
    }

    fn line(&self) -> SecretBytes {
        let key = SecretBytes::new(BASE64_URL_SAFE_NO_PAD.encode(self.key.expose()).into_bytes());
        let mut line = format!("{KEY_FORM} {} ", self.id).into_bytes();
        line.reserve_exact(key.expose().len() + 1);
        line.extend_from_slice(key.expose());
        line.push(b'\n');
        SecretBytes::new(line)
    }

    /// Parses a line. Nothing of it is quoted.
    fn parse(line: &str) -> Option<Self> {
        let mut words = line.split(' ');
        let (form, id, key) = (words.next()?, words.next()?, words.next()?);
        let key = SecretBytes::new(BASE64_URL_SAFE_NO_PAD.decode(key).ok()?);
        let is_key = form == KEY_FORM && words.next().is_none() && key.expose().len() == KEY_BYTES;
        let key = Self::new(key);
        // The ID tells a damaged key from another one.
        (is_key && key.id == id).then_some(key)
    }
}

/// The keys of a key file, the current one first.
pub struct SealingKeys(Vec<SealingKey>);

impl std::fmt::Debug for SealingKeys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.0.iter().map(|key| &key.id)).finish()
    }
}

impl SealingKeys {
    /// Makes a key file with one key, which only its owner may read. An existing file is left alone.
    ///
    /// # Errors
    /// `Conflict` if there is one.
    pub fn create(path: &Path) -> Result<Self> {
        let keys = Self(vec![SealingKey::generate()?]);
        // Two processes may do this at a time.
        let draft = keys.write_draft(path, &format!(".{}.new", std::process::id()))?;
        let placed = std::fs::hard_link(&draft, path);
        let _ = std::fs::remove_file(&draft);
        placed.map_err(|error| match error.kind() {
            std::io::ErrorKind::AlreadyExists => {
                let words = "there is one already; secrets sealed with it would be lost";
                Error::new(ErrorKind::Conflict, CREATING, words).at(bytes_of(path))
            }
            _ => Error::io(CREATING, &error).at(bytes_of(path)),
        })?;
        sync_folder(path)?;
        Ok(keys)
    }

    /// Reads a key file.
    ///
    /// # Errors
    /// `Refused` if others may read it, `Usage` if it is none.
    pub fn load(path: &Path) -> Result<Self> {
        let io = |error: std::io::Error| Error::io(READING, &error).at(bytes_of(path));
        let wrong = |kind, words: String| Error::new(kind, READING, words).at(bytes_of(path));
        if !std::fs::metadata(path).map_err(io)?.is_file() {
            return Err(wrong(ErrorKind::Usage, "this is no regular file".to_owned()));
        }
        let file = File::open(path).map_err(io)?;
        let mode = file.metadata().map_err(io)?.mode();
        if is_open_to_others(path, mode) {
            let words = format!("other users may use it (mode {:o})", mode & 0o777);
            return Err(wrong(ErrorKind::Refused, words).hint("take the rights away with chmod 600 FILE"));
        }
        let mut text = SecretBytes::new(vec![0; FILE_BYTES_MAX as usize + 1]);
        let mut length = 0;
        let mut file = file.take(FILE_BYTES_MAX + 1);
        loop {
            match file.read(&mut text.expose_mut()[length..]).map_err(io)? {
                0 => break,
                read => length += read,
            }
        }
        let none = || {
            let words = format!("this is no key file, or it is damaged: each line is \"{KEY_FORM} ID KEY\"");
            wrong(ErrorKind::Usage, words)
                .hint("put back the copy of the key file, or name the right one with --key-file")
        };
        if length as u64 > FILE_BYTES_MAX {
            return Err(none());
        }
        let text = std::str::from_utf8(&text.expose()[..length]).map_err(|_| none())?;
        let keys = text.lines().map(SealingKey::parse).collect::<Option<Vec<_>>>().ok_or_else(none)?;
        match keys.len() {
            0 => Err(none()),
            1..=KEYS_MAX => Ok(Self(keys)),
            _ => Err(wrong(ErrorKind::Usage, format!("it has more than {KEYS_MAX} keys"))),
        }
    }

    /// Reads the key file, and makes it if it is missing.
    ///
    /// # Errors
    /// As [`SealingKeys::load`] and [`SealingKeys::create`].
    pub fn load_or_create(path: &Path) -> Result<Self> {
        match Self::load(path) {
            Err(error) if error.kind == ErrorKind::NotFound => Self::create(path),
            loaded => loaded,
        }
    }

    /// Puts a new key in front. Secrets are sealed with it from now on, and those before it open as long as their keys are
    /// in the file. The file is replaced in one step.
    ///
    /// # Errors
    /// `Refused` if the file is full.
    pub fn rotate(path: &Path) -> Result<Self> {
        let mut keys = Self::load(path)?;
        if keys.0.len() == KEYS_MAX {
            let words = format!("the file has {KEYS_MAX} keys, and no more are possible");
            let error = Error::new(ErrorKind::Refused, CREATING, words).at(bytes_of(path));
            return Err(error.hint("seal all secrets anew, and remove the last lines"));
        }
        keys.0.insert(0, SealingKey::generate()?);
        keys.replace(path)?;
        Ok(keys)
    }

    /// Returns the mark of the current key, which tells nothing about the key but which one it is.
    ///
    /// # Errors
    /// `Usage` if there is no key.
    pub fn mark(&self) -> Result<String> {
        match &self.0[..] {
            [current, ..] => Ok(current.mark()),
            [] => Err(Error::new(ErrorKind::Usage, SEALING, "there is no key")),
        }
    }

    /// Returns true if a mark is that of one of the keys.
    pub fn has_mark(&self, mark: &str) -> bool {
        self.0.iter().any(|key| key.mark() == mark)
    }

    /// Returns the key of the leases' tokens. Control planes that share a ledger share the key file, too.
    ///
    /// # Errors
    /// `Usage` if there is no key.
    pub fn lease_key(&self) -> Result<LeaseKey> {
        let [current, ..] = &self.0[..] else {
            return Err(Error::new(ErrorKind::Usage, SEALING, "there is no key"));
        };
        Ok(LeaseKey::new(current.key.expose()))
    }

    /// Seals a secret for a purpose, such as the relationship that it belongs to and its part in it.
    ///
    /// # Errors
    /// `Usage` if it is too long to be kept.
    pub fn seal(&self, purpose: &str, secret: &SecretBytes) -> Result<String> {
        let [current, ..] = &self.0[..] else {
            return Err(Error::new(ErrorKind::Usage, SEALING, "there is no key"));
        };
        if secret.expose().len() > SECRET_BYTES_MAX {
            return Err(too_long());
        }
        let bytes = seal_bytes(&current.key, &[SEALED_CONTEXT, &current.id, purpose], secret)
            .ok_or_else(|| Error::new(ErrorKind::Io, SEALING, "the cipher failed"))?;
        let text = format!("{SEALED_FORM}.{}.{}", current.id, BASE64_URL_SAFE_NO_PAD.encode(bytes));
        if text.len() > SEALED_BYTES_MAX { Err(too_long()) } else { Ok(text) }
    }

    /// Opens a sealed text.
    ///
    /// # Errors
    /// `NotFound` if its key is not in the file, `Corrupt` if it was changed or is for another purpose.
    pub fn open(&self, text: &str, purpose: &str) -> Result<SecretBytes> {
        let (id, bytes) = parts(text).ok_or_else(|| {
            Error::new(ErrorKind::Usage, OPENING, "this is no sealed text: it begins with hks1.")
        })?;
        let Some(key) = self.0.iter().find(|key| key.id == id) else {
            let words = format!("the key {id} is not in the key file");
            return Err(Error::new(ErrorKind::NotFound, OPENING, words).hint("set the secret again"));
        };
        open_bytes(&key.key, &[SEALED_CONTEXT, &key.id, purpose], &bytes).ok_or_else(|| {
            let words = "it was changed, or is the secret of something else";
            Error::new(ErrorKind::Corrupt, OPENING, words).hint("set the secret again")
        })
    }

    fn write_new(&self, path: &Path) -> std::io::Result<()> {
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
        // A mask may have taken rights away.
        file.set_permissions(Permissions::from_mode(0o600))?;
        for key in &self.0 {
            file.write_all(key.line().expose())?;
        }
        file.sync_all()
    }

    fn replace(&self, path: &Path) -> Result<()> {
        let draft = self.write_draft(path, ".new")?;
        std::fs::rename(&draft, path).map_err(|error| Error::io(CREATING, &error).at(bytes_of(path)))?;
        sync_folder(path)
    }

    /// Writes the whole file under another name, so that nothing has its final name before it is complete.
    fn write_draft(&self, path: &Path, ending: &str) -> Result<PathBuf> {
        let mut draft = path.as_os_str().to_owned();
        draft.push(ending);
        let draft = PathBuf::from(draft);
        let io = |error: std::io::Error| Error::io(CREATING, &error).at(bytes_of(path));
        // An earlier attempt may have left one.
        match std::fs::remove_file(&draft) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(io(error)),
            _ => {}
        }
        if let Err(error) = self.write_new(&draft) {
            let _ = std::fs::remove_file(&draft);
            return Err(io(error));
        }
        Ok(draft)
    }
}

/// Returns the ID of the key with which a text is sealed.
pub fn key_of_sealed(text: &str) -> Option<&str> {
    parts(text).map(|(id, _)| id)
}

/// Returns the key's ID and the bytes of a sealed text.
fn parts(text: &str) -> Option<(&str, Vec<u8>)> {
    let (form, rest) = text.split_once('.')?;
    let (id, bytes) = rest.split_once('.')?;
    let is_id = id.len() == 8 && id.bytes().all(|byte| byte.is_ascii_hexdigit());
    (form == SEALED_FORM && is_id && text.len() <= SEALED_BYTES_MAX).then_some(())?;
    Some((id, BASE64_URL_SAFE_NO_PAD.decode(bytes).ok()?))
}

fn too_long() -> Error {
    Error::new(ErrorKind::Usage, SEALING, "the secret is too long")
        .hint("put it into a file, and name the file")
}

fn bytes_of(path: &Path) -> &[u8] {
    path.as_os_str().as_encoded_bytes()
}

/// Makes a new name in a folder durable.
fn sync_folder(path: &Path) -> Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let synced = File::open(folder).and_then(|folder| folder.sync_all());
    synced.map_err(|error| Error::io(CREATING, &error).at(bytes_of(path)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secret(text: &str) -> SecretBytes {
        SecretBytes::new(text.as_bytes().to_vec())
    }

    fn file() -> (tempfile::TempDir, std::path::PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key");
        (folder, path)
    }

    #[test]
    fn a_key_file_is_for_its_owner_and_made_once() {
        let (_folder, path) = file();
        let keys = SealingKeys::create(&path).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        assert_eq!(SealingKeys::create(&path).unwrap_err().kind, ErrorKind::Conflict);
        assert_eq!(std::fs::read_dir(path.parent().unwrap()).unwrap().count(), 1, "no draft is left");
        let again = SealingKeys::load_or_create(&path).unwrap();
        let sealed = keys.seal("a", &secret("open sesame")).unwrap();
        assert_eq!(again.open(&sealed, "a").unwrap().expose(), b"open sesame");
        let shown = format!("{again:?}");
        let line = std::fs::read_to_string(&path).unwrap();
        assert!(line.starts_with("hakobu-key-1 ") && !shown.contains(line.split(' ').nth(2).unwrap().trim()));
        std::fs::set_permissions(&path, Permissions::from_mode(0o640)).unwrap();
        let error = SealingKeys::load(&path).unwrap_err();
        assert!(error.kind == ErrorKind::Refused && error.reason().contains("chmod 600"), "{error}");
    }

    #[test]
    fn a_damaged_key_file_is_told_without_quoting_it() {
        let (_folder, path) = file();
        SealingKeys::create(&path).unwrap();
        let line = std::fs::read_to_string(&path).unwrap();
        let key = line.split(' ').nth(2).unwrap();
        let other = if key.starts_with('A') { "B" } else { "A" };
        let typed = line.replace(key, &format!("{other}{}", &key[1..]));
        for wrong in [
            "",
            "\n",
            "hakobu-key-2 x y\n",
            &typed,
            &line.repeat(KEYS_MAX + 1),
            &"x".repeat(5000),
            &line[..30],
        ] {
            std::fs::write(&path, wrong).unwrap();
            let error = SealingKeys::load(&path).unwrap_err();
            assert!(error.kind == ErrorKind::Usage && !error.to_string().contains(&key[1..10]), "{error}");
        }
        std::fs::write(&path, line.repeat(KEYS_MAX)).unwrap();
        assert!(SealingKeys::load(&path).is_ok());
    }

    #[test]
    fn a_sealed_text_opens_only_for_its_purpose_and_unchanged() {
        let (_folder, path) = file();
        let keys = SealingKeys::create(&path).unwrap();
        let sealed = keys.seal("relationship a", &secret("open sesame")).unwrap();
        assert_ne!(sealed, keys.seal("relationship a", &secret("open sesame")).unwrap());
        assert_eq!(keys.open(&sealed, "relationship b").unwrap_err().kind, ErrorKind::Corrupt);
        for place in 0..sealed.len() {
            let mut changed: Vec<char> = sealed.chars().collect();
            changed[place] = if changed[place] == 'A' { 'B' } else { 'A' };
            let changed: String = changed.into_iter().collect();
            assert!(changed == sealed || keys.open(&changed, "relationship a").is_err(), "{place}");
        }
        for wrong in ["", "hks1", "hks1.", "hks1..", "hks2.00000000.AAAA", "hks1.00000000.AAAA", "hks1.zz.AA"]
        {
            assert!(keys.open(wrong, "a").is_err(), "{wrong}");
        }
        let short = format!("hks1.{}.AAAA", &sealed[5..13]);
        assert_eq!(keys.open(&short, "a").unwrap_err().kind, ErrorKind::Corrupt);
        let most = SEALED_BYTES_MAX / 4 * 3 - 64;
        assert!(keys.seal("a", &SecretBytes::new(vec![1; most])).is_ok());
        assert!(keys.seal("a", &SecretBytes::new(vec![1; SEALED_BYTES_MAX])).is_err());
    }

    #[test]
    fn keys_are_rotated_and_old_ones_removed() {
        let (folder, path) = file();
        let first = SealingKeys::create(&path).unwrap();
        let old = first.seal("a", &secret("x")).unwrap();
        // A draft of an attempt that was cut off is in nobody's way.
        std::fs::write(folder.path().join("key.new"), "half").unwrap();
        let both = SealingKeys::rotate(&path).unwrap();
        assert_eq!(both.open(&old, "a").unwrap().expose(), b"x");
        let new = both.seal("b", &secret("x")).unwrap();
        assert_eq!(first.open(&new, "b").unwrap_err().kind, ErrorKind::NotFound);
        let lines = std::fs::read_to_string(&path).unwrap();
        std::fs::write(&path, lines.lines().next().unwrap().to_owned() + "\n").unwrap();
        let last = SealingKeys::load(&path).unwrap();
        assert_eq!(last.open(&new, "b").unwrap().expose(), b"x");
        assert!(last.open(&old, "a").is_err());
        assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        for _ in 1..KEYS_MAX {
            SealingKeys::rotate(&path).unwrap();
        }
        assert_eq!(SealingKeys::rotate(&path).unwrap_err().kind, ErrorKind::Refused);
    }
}
