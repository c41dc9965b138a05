//! Quoting for a shell.

use std::fmt::Write;

/// Returns a word quoted for a shell.
pub fn quoted(word: &[u8]) -> String {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"/._-+=:,@%".contains(byte);
    if !word.is_empty() && word.iter().all(plain) {
        return String::from_utf8_lossy(word).into_owned();
    }
    if word.iter().all(|byte| (0x20..0x7f).contains(byte) && *byte != b'\'') {
        return format!("'{}'", String::from_utf8_lossy(word));
    }
    let mut text = String::from("$'");
    for byte in word {
        match byte {
            b'\'' | b'\\' => text.extend(['\\', char::from(*byte)]),
            0x20..0x7f => text.push(char::from(*byte)),
            byte => {
                let _ = write!(text, "\\x{byte:02x}");
            }
        }
    }
    text + "'"
}
