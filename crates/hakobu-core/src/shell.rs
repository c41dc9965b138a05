//! Words for a shell: quotes output that users paste, and splits words that they typed.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use crate::path::lossy;

/// A command line that a shell reads back as exactly these arguments.
pub fn quote_all<T: AsRef<OsStr>>(arguments: impl IntoIterator<Item = T>) -> String {
    let words: Vec<String> = arguments.into_iter().map(quote).collect();
    words.join(" ")
}

/// One argument for a shell: as it is where that is safe, else in single quotes, and as `$'…'`
/// where it has bytes that must not reach a terminal.
pub fn quote(argument: impl AsRef<OsStr>) -> String {
    let argument = argument.as_ref();
    let bytes = argument.as_bytes();
    // `~` expands at the beginning of a word only, `=` matters in a command's name only.
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"%+,-./:=@_".contains(byte);
    if !bytes.is_empty() && bytes.iter().all(plain) {
        return String::from_utf8_lossy(bytes).into_owned();
    }
    let escaped = lossy(bytes);
    if argument.to_str() == Some(&escaped) {
        return format!("'{}'", escaped.replace('\'', r"'\''"));
    }
    let mut words = String::from("$'");
    for &byte in bytes {
        match byte {
            b'\'' | b'\\' => words.extend(['\\', char::from(byte)]),
            b'\n' => words.push_str("\\n"),
            b'\t' => words.push_str("\\t"),
            // Three octal digits end by themselves, whatever follows.
            0x20..=0x7e => words.push(char::from(byte)),
            _ => words.push_str(&format!("\\{byte:03o}")),
        }
    }
    words.push('\'');
    words
}

/// Splits a command as rsync splits `-e`: at blanks, with single and double quotes. Nothing is
/// expanded and a backslash is a character like any other.
///
/// # Errors
/// A quote that is not closed, or no word at all, in words.
pub fn split(command: impl AsRef<OsStr>) -> Result<Vec<OsString>, &'static str> {
    let mut words: Vec<OsString> = Vec::new();
    let mut word: Option<Vec<u8>> = None;
    let mut quote: Option<u8> = None;
    for &byte in command.as_ref().as_bytes() {
        match (quote, byte) {
            (Some(open), _) if byte == open => quote = None,
            (None, b'\'' | b'"') => {
                quote = Some(byte);
                word.get_or_insert_default();
            }
            (None, b' ' | b'\t' | b'\n') => words.extend(word.take().map(OsString::from_vec)),
            _ => word.get_or_insert_default().push(byte),
        }
    }
    if quote.is_some() {
        return Err("a quote is not closed");
    }
    words.extend(word.map(OsString::from_vec));
    if words.first().is_none_or(|program| program.is_empty()) {
        return Err("the command is empty");
    }
    Ok(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shell_reads_back_what_was_quoted() {
        let hostile: [&[u8]; 14] = [
            b"plain",
            b"",
            b"two words",
            b"it's",
            b"~",
            b"~/x",
            b"$HOME",
            b"a*b?",
            b"\x1b[2J",
            b"a\nb\t",
            b"\xff\xfe1",
            b"\\x",
            "\u{904b}\u{3076}".as_bytes(),
            b"'\n'\\'",
        ];
        let arguments: Vec<&OsStr> = hostile.iter().map(|bytes| OsStr::from_bytes(bytes)).collect();
        let line = quote_all(&arguments);
        assert!(!line.contains(char::is_control), "{line:?}");
        let script = format!("printf '%s\\0' {line}");
        let output = std::process::Command::new("bash").args(["-c", &script]).output().unwrap();
        let expected: Vec<u8> = hostile.iter().flat_map(|bytes| [bytes, &b"\0"[..]].concat()).collect();
        assert_eq!(output.stdout, expected, "{line}");
        assert_eq!(quote(OsStr::new("host:/a-b_c.d")), "host:/a-b_c.d");
    }

    #[test]
    fn ssh_commands_are_split_as_rsync_does() {
        let words = |text: &str| split(OsStr::new(text));
        assert_eq!(words("ssh -p 22").unwrap(), ["ssh", "-p", "22"]);
        assert_eq!(words(" ssh  -i 'my key' -o\"A B\" '' ").unwrap(), ["ssh", "-i", "my key", "-oA B", ""]);
        assert_eq!(words(r#"ssh "it's""#).unwrap(), ["ssh", "it's"]);
        for bad in ["", "  ", "ssh 'x", "''"] {
            assert!(words(bad).is_err(), "{bad:?}");
        }
    }
}
