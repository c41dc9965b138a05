//! Base64, as reports and metadata of objects have it.

/// Decodes base64.
pub fn from_base64(text: &str) -> Vec<u8> {
    let (mut bytes, mut bits, mut count) = (Vec::new(), 0_u32, 0);
    for letter in text.bytes() {
        let value = match letter {
            b'A'..=b'Z' => letter - b'A',
            b'a'..=b'z' => letter - b'a' + 26,
            b'0'..=b'9' => letter - b'0' + 52,
            b'+' | b'-' => 62,
            b'/' | b'_' => 63,
            _ => continue,
        };
        bits = (bits << 6 | u32::from(value)) & 0xff_ffff;
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count) as u8);
        }
    }
    bytes
}

/// Encodes base64.
pub fn to_base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for group in bytes.chunks(3) {
        let byte = |index: usize| u32::from(group.get(index).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for letter in 0..4 {
            let value = (bits >> (18 - 6 * letter) & 63) as usize;
            text.push(if letter <= group.len() { char::from(LETTERS[value]) } else { '=' });
        }
    }
    text
}

#[test]
fn bytes_come_back() {
    for (bytes, text) in [(&b""[..], ""), (b"\xff", "/w=="), (b"a\xfe", "Yf4="), (b"abc\0", "YWJjAA==")] {
        assert_eq!(to_base64(bytes), text);
        assert_eq!(from_base64(text), bytes);
    }
}
