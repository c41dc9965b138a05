//! The places that secrets are read from.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use hakobu_core::error::{Error, ErrorKind, Result};

use crate::key_file::SealingKeys;
use crate::relationship::CredentialReference;
use crate::secret_bytes::{SECRET_BYTES_MAX, SecretBytes};

/// The operation that errors of this module name.
const DURING: &str = "reading the secret";

/// The places from which secrets may be read that somebody else names: a folder, and variables of the environment. Nothing
/// else of the machine can be read by a request.
#[derive(Clone, Debug, Default)]
pub struct SecretPlaces {
    /// The folder. Links within it may not lead out of it.
    pub folder: Option<PathBuf>,
    /// The names of variables. One that ends with `*` stands for all that begin so.
    pub variables: Vec<String>,
}

impl SecretPlaces {
    /// Reads a referenced secret, as [`read_secret`] does, if it is in one of the places. The path of a file may be relative to
    /// the folder.
    ///
    /// # Errors
    /// `Refused` if it is elsewhere, and those of [`read_secret`].
    pub fn read(
        &self,
        reference: &CredentialReference,
        purpose: &str,
        keys: Option<&SealingKeys>,
    ) -> Result<SecretBytes> {
        match reference {
            CredentialReference::File(path) => read_file(&self.file(path)?),
            CredentialReference::Environment(name) => {
                self.check_variable(name).and_then(|()| read_variable(name))
            }
            CredentialReference::Sealed(_) => read_secret(reference, purpose, keys),
        }
    }

    /// Returns the file, without links.
    fn file(&self, path: &str) -> Result<PathBuf> {
        let refused = |words: &str| Error::new(ErrorKind::Refused, DURING, words.to_owned()).at(path);
        let folder = self.folder.as_deref();
        let folder = folder.ok_or_else(|| refused("there is no folder that secrets may be read from"))?;
        let place = folder.as_os_str().as_encoded_bytes();
        let whole = folder.canonicalize().map_err(|error| Error::io(DURING, &error).at(place))?;
        let file = folder.join(path).canonicalize();
        let is_within = |file: &Path| file.starts_with(&whole);
        // Whether a file is there is not told of places elsewhere.
        let hint = format!("put the file into {}", folder.display());
        match file {
            Ok(file) if is_within(&file) => Ok(file),
            Err(error) if is_plain(path) => Err(Error::io(DURING, &error).at(path).hint(hint)),
            _ => Err(refused("secrets are read from one folder only").hint(hint)),
        }
    }

    fn check_variable(&self, name: &str) -> Result<()> {
        let is_named = self.variables.iter().any(|variable| match variable.strip_suffix('*') {
            Some(begin) => name.starts_with(begin),
            None => name == variable,
        });
        let refused = || {
            let words = "this variable of the environment may not be read";
            let error = Error::new(ErrorKind::Refused, DURING, words).at(name);
            match self.variables.is_empty() {
                true => error.hint("none may be read here"),
                false => error.hint(format!("possible are: {}", self.variables.join(", "))),
            }
        };
        if is_named { Ok(()) } else { Err(refused()) }
    }
}

/// Returns true for a path below the folder by its words.
fn is_plain(path: &str) -> bool {
    let mut parts = Path::new(path).components();
    parts.all(|part| matches!(part, std::path::Component::Normal(_)))
}

/// Reads a referenced secret. `purpose` is the one that a sealed secret was sealed for, and `keys` those of the key file,
/// where there is one. A line end after the secret in a file is left out.
///
/// # Errors
/// `NotFound`, `PermissionDenied`, `Usage` or `Unauthenticated`; neither the secret nor the sealed text is quoted.
pub fn read_secret(
    reference: &CredentialReference,
    purpose: &str,
    keys: Option<&SealingKeys>,
) -> Result<SecretBytes> {
    match reference {
        CredentialReference::File(path) => read_file(Path::new(path)),
        CredentialReference::Environment(name) => read_variable(name),
        CredentialReference::Sealed(text) => match keys {
            Some(keys) => keys.open(text, purpose),
            None => Err(Error::new(ErrorKind::Usage, DURING, "it is sealed, and there is no key file")
                .hint("start hakobu serve with --key-file")),
        },
    }
}

fn read_file(path: &Path) -> Result<SecretBytes> {
    let place = path.as_os_str().as_encoded_bytes();
    let refused = |words: String| Error::new(ErrorKind::Usage, DURING, words).at(place);
    if !path.is_absolute() {
        return Err(refused("the path of a secret must begin with /".to_owned()));
    }
    let io = |error: std::io::Error| Error::io(DURING, &error).at(place);
    // A pipe would be waited for.
    if !std::fs::metadata(path).map_err(io)?.is_file() {
        return Err(refused("this is no regular file".to_owned()));
    }
    let file = File::open(path).map_err(io)?;
    let metadata = file.metadata().map_err(io)?;
    // Kubernetes gives its secrets to a group; everybody is too many.
    if metadata.mode() & 0o007 != 0 {
        let error =
            refused(format!("every user of the machine may use it (mode {:o})", metadata.mode() & 0o777));
        return Err(error.hint("take the right away with chmod o= FILE"));
    }
    // With this capacity it is not moved, which would leave a copy behind.
    let mut bytes = Vec::with_capacity(SECRET_BYTES_MAX + 1);
    let read = file.take(SECRET_BYTES_MAX as u64 + 1).read_to_end(&mut bytes);
    let bytes = SecretBytes::new(bytes);
    read.map_err(io)?;
    let content = bytes.expose();
    if content.len() > SECRET_BYTES_MAX {
        return Err(refused(format!("it has more than {SECRET_BYTES_MAX} bytes")));
    }
    let line = content.strip_suffix(b"\r\n").or_else(|| content.strip_suffix(b"\n")).unwrap_or(content);
    match line.is_empty() {
        true => Err(refused("it is empty".to_owned())),
        false => Ok(SecretBytes::new(line.to_vec())),
    }
}

fn read_variable(name: &str) -> Result<SecretBytes> {
    use std::os::unix::ffi::OsStringExt;
    let refused = |words: &str| Error::new(ErrorKind::NotFound, DURING, words.to_owned()).at(name);
    let is_name = !name.is_empty() && !name.bytes().any(|byte| matches!(byte, 0 | b'='));
    let value = is_name.then(|| std::env::var_os(name)).flatten();
    let Some(value) = value.filter(|value| !value.is_empty()) else {
        return Err(refused("the variable of the environment is not set")
            .hint("set it where the broker or hakobu serve is started"));
    };
    let bytes = SecretBytes::new(value.into_vec());
    match bytes.expose().len() > SECRET_BYTES_MAX {
        true => Err(refused("the variable of the environment is too long")),
        false => Ok(bytes),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn file(content: &[u8], mode: u32) -> (tempfile::TempDir, CredentialReference) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("secret");
        std::fs::write(&path, content).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        let reference = CredentialReference::File(path.to_str().unwrap().to_owned());
        (folder, reference)
    }

    fn read(reference: &CredentialReference) -> Result<SecretBytes> {
        read_secret(reference, "test", None)
    }

    #[test]
    fn a_file_gives_its_content_without_the_last_line_end() {
        for (content, is) in
            [(&b"open sesame\n"[..], &b"open sesame"[..]), (b"a\n\n", b"a\n"), (b"a\r\n", b"a")]
        {
            let (_folder, reference) = file(content, 0o640);
            assert_eq!(read(&reference).unwrap().expose(), is);
        }
        let (_folder, reference) = file(&vec![b'x'; SECRET_BYTES_MAX], 0o600);
        assert!(read(&reference).is_ok());
        let (_folder, reference) = file(&vec![b'x'; SECRET_BYTES_MAX + 1], 0o600);
        assert!(read(&reference).unwrap_err().detail.contains("more than"));
    }

    #[test]
    fn a_file_for_everybody_is_no_secret() {
        let (_folder, reference) = file(b"secret", 0o644);
        let error = read(&reference).unwrap_err();
        assert!(error.detail.contains("mode 644") && error.reason().contains("chmod o="), "{error}");
        assert!(!error.to_string().contains("sesame"));
    }

    #[test]
    fn a_missing_secret_is_named_with_its_place() {
        let (folder, reference) = file(b"\n", 0o600);
        assert!(read(&reference).unwrap_err().detail.contains("empty"));
        let of = |path: &str| read(&CredentialReference::File(path.to_owned())).unwrap_err();
        assert_eq!(of("/nonexistent/secret").kind, ErrorKind::NotFound);
        assert!(of("secret").detail.contains("begin with /"));
        assert!(of(folder.path().to_str().unwrap()).detail.contains("regular file"));
        let variable = read(&CredentialReference::Environment("HAKOBU_TEST_UNSET".to_owned())).unwrap_err();
        assert_eq!((variable.kind, &variable.at[..]), (ErrorKind::NotFound, &b"HAKOBU_TEST_UNSET"[..]));
        assert!(read(&CredentialReference::Environment("A=B".to_owned())).is_err());
        let sealed = read(&CredentialReference::Sealed("hks1.x.y".to_owned())).unwrap_err();
        assert!(sealed.reason().contains("--key-file") && !sealed.to_string().contains("hks1"), "{sealed}");
    }

    #[test]
    fn nothing_beside_the_places_is_read() {
        let (folder, _) = file(b"open sesame\n", 0o600);
        let (elsewhere, outside) = file(b"other\n", 0o600);
        std::os::unix::fs::symlink(elsewhere.path().join("secret"), folder.path().join("link")).unwrap();
        std::os::unix::fs::symlink("secret", folder.path().join("inner")).unwrap();
        let places = SecretPlaces {
            folder: Some(folder.path().to_owned()),
            variables: vec!["PATH".to_owned(), "HOM*".to_owned()],
        };
        let read = |reference: &CredentialReference| places.read(reference, "test", None);
        let named = |path: &str| CredentialReference::File(path.to_owned());
        let absolute = folder.path().join("secret");
        for path in ["secret", "inner", "./secret", absolute.to_str().unwrap()] {
            assert_eq!(read(&named(path)).unwrap().expose(), b"open sesame", "{path}");
        }
        let up = format!("../{}/secret", elsewhere.path().file_name().unwrap().to_str().unwrap());
        for path in ["link", "/etc/passwd", "/nonexistent", "../nonexistent", &up] {
            assert_eq!(read(&named(path)).unwrap_err().kind, ErrorKind::Refused, "{path}");
        }
        assert_eq!(read(&outside).unwrap_err().kind, ErrorKind::Refused);
        assert_eq!(read(&named("nonexistent")).unwrap_err().kind, ErrorKind::NotFound);
        let variable = |name: &str| read(&CredentialReference::Environment(name.to_owned()));
        assert!(variable("PATH").is_ok() && variable("HOME").is_ok());
        assert_eq!(variable("CARGO").unwrap_err().kind, ErrorKind::Refused);
        let nowhere = SecretPlaces::default();
        assert_eq!(nowhere.read(&outside, "test", None).unwrap_err().kind, ErrorKind::Refused);
    }

    #[test]
    fn a_variable_is_read() {
        let path = read(&CredentialReference::Environment("PATH".to_owned())).unwrap();
        assert_eq!(path.expose_text().unwrap(), std::env::var("PATH").unwrap());
        assert_eq!(format!("{path:?}"), "SecretBytes");
    }
}
