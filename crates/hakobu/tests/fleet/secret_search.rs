//! Searches files and texts for a secret: as it is, in hexadecimal digits, and in base64 at any offset.

use std::fs;
use std::path::Path;

use crate::trees;

const ALPHABETS: [&[u8; 64]; 2] = [
    b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/",
    b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_",
];

/// The forms of a secret.
pub struct SecretForms(Vec<Vec<u8>>);

impl SecretForms {
    /// Returns the forms of a part of a secret. It has no characters that JSON, URLs or logs escape.
    pub fn new(part: &str) -> Self {
        assert!(part.len() >= 16 && part.bytes().all(|byte| byte.is_ascii_alphanumeric()));
        let hex = part.bytes().map(|byte| format!("{byte:02x}")).collect::<String>();
        let mut forms = vec![part.as_bytes().to_vec(), hex.to_uppercase().into_bytes(), hex.into_bytes()];
        for offset in 0..3 {
            // Up to a whole number of groups; characters at the ends depend on what stands beside.
            let whole = &part.as_bytes()[offset..];
            let whole = &whole[..whole.len() / 3 * 3];
            forms.extend(ALPHABETS.map(|alphabet| base64(whole, alphabet)));
        }
        Self(forms)
    }

    /// Returns true if the bytes contain the secret.
    pub fn are_in(&self, bytes: &[u8]) -> bool {
        self.0.iter().any(|form| contains(bytes, form))
    }

    /// Fails if a file, or one below a folder, contains the secret. Returns the number of bytes that were searched.
    #[track_caller]
    pub fn assert_not_below(&self, folder: &Path) -> usize {
        let mut searched = 0;
        let paths = if folder.is_dir() { trees::paths(folder) } else { vec![folder.to_owned()] };
        for path in paths {
            if fs::symlink_metadata(&path).is_ok_and(|metadata| metadata.is_file()) {
                let bytes = fs::read(&path).unwrap();
                assert!(!self.are_in(&bytes), "{} contains the secret", path.display());
                searched += bytes.len();
            }
        }
        searched
    }
}

/// Returns true if a file below a folder contains the bytes.
pub fn is_below(folder: &Path, bytes: &[u8]) -> bool {
    trees::paths(folder).iter().any(|path| fs::read(path).is_ok_and(|content| contains(&content, bytes)))
}

fn contains(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}

/// Returns whole groups of three bytes in base64.
fn base64(bytes: &[u8], alphabet: &[u8; 64]) -> Vec<u8> {
    let group = |group: &[u8]| {
        let bits = group.iter().fold(0_usize, |bits, byte| bits << 8 | usize::from(*byte));
        [18, 12, 6, 0].map(|shift| alphabet[bits >> shift & 63])
    };
    bytes.chunks_exact(3).flat_map(group).collect()
}

#[test]
fn a_secret_is_found_in_each_form() {
    let forms = SecretForms::new("abcdefghijklmnopqrs");
    for text in [
        "xabcdefghijklmnopqrsx",
        "5f6162636465666768696a6b6c6d6e6f7071727320",
        "6162636465666768696A6B6C6D6E6F70717273",
        // `printf abcdefghijklmnopqrs | base64`, and with one and two characters before.
        "YWJjZGVmZ2hpamtsbW5vcHFycw==",
        "LWFiY2RlZmdoaWprbG1ub3BxcnMt",
        "LS1hYmNkZWZnaGlqa2xtbm9wcXJzLS0=",
    ] {
        assert!(forms.are_in(text.as_bytes()), "{text}");
    }
    assert!(!forms.are_in(b"abcdefghijklmnopqr"));
}
