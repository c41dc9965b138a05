//! Names of files as parts of keys, as docs/book/object-stores.md spells them.

use super::environment::object_store::TortureStoreKind;

/// Quotes the character after it, or is followed by two hexadecimal digits.
const QUOTE: char = '\u{201b}';

/// Returns the spelling of a path.
pub fn spelled(kind: TortureStoreKind, path: &[u8]) -> String {
    let names: Vec<String> = path.split(|byte| *byte == b'/').map(|name| spelled_name(kind, name)).collect();
    names.join("/")
}

/// Returns the spelling of a name.
fn spelled_name(kind: TortureStoreKind, name: &[u8]) -> String {
    let is_azure = kind == TortureStoreKind::Azurite;
    let mut out = String::new();
    let mut rest = name.len();
    for chunk in name.utf8_chunks() {
        for character in chunk.valid().chars() {
            rest -= character.len_utf8();
            match character {
                QUOTE => out.extend([QUOTE, character]),
                '\n' | '\r' => out.extend(char::from_u32(0x2400 + u32::from(character))),
                '␊' | '␍' => out.extend([QUOTE, character]),
                '\u{2401}'..='\u{241f}' if kind != TortureStoreKind::FakeGcs => {
                    out.extend([QUOTE, character]);
                }
                '\u{1}'..='\u{1f}' if kind != TortureStoreKind::FakeGcs => {
                    out.extend(char::from_u32(0x2400 + u32::from(character)));
                }
                '\u{fffe}' | '\u{ffff}' if kind == TortureStoreKind::Versitygw => {
                    add_bytes(&mut out, character);
                }
                '\u{7f}' if is_azure => out.push('␡'),
                '\\' if is_azure => out.push('＼'),
                '␡' | '＼' if is_azure => out.extend([QUOTE, character]),
                '.' if is_azure && rest == 0 => out.push('．'),
                '．' if is_azure && rest == 0 => out.extend([QUOTE, character]),
                _ if is_azure && !is_in_url(character) => add_bytes(&mut out, character),
                _ => out.push(character),
            }
        }
        rest -= chunk.invalid().len();
        chunk.invalid().iter().for_each(|byte| add_byte(&mut out, *byte));
    }
    out
}

/// Returns true for a character that RFC 3987 allows, and for ASCII.
fn is_in_url(character: char) -> bool {
    let number = u32::from(character);
    character.is_ascii()
        || matches!(number, 0xa0..=0xd7ff | 0xf900..=0xfdcf | 0xfdf0..=0xffef)
        || (0x1_0000..0xe_0000).contains(&number) && number & 0xffff < 0xfffe
        || (0xe_1000..=0xe_fffd).contains(&number)
}

fn add_bytes(out: &mut String, character: char) {
    let mut bytes = [0; 4];
    character.encode_utf8(&mut bytes).bytes().for_each(|byte| add_byte(out, byte));
}

fn add_byte(out: &mut String, byte: u8) {
    out.push(QUOTE);
    out.push_str(&format!("{byte:02X}"));
}

/// Returns the name that a part of a key stands for, or `None` if no name is spelled like this.
pub fn read(kind: TortureStoreKind, spelling: &str) -> Option<Vec<u8>> {
    let mut name = Vec::new();
    let mut characters = spelling.chars();
    while let Some(character) = characters.next() {
        let mut plain = |character: char| {
            name.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
        };
        match character {
            QUOTE => {
                let first = characters.next()?;
                match first.to_digit(16) {
                    None => plain(first),
                    Some(high) => {
                        name.push(u8::try_from(high * 16 + characters.next()?.to_digit(16)?).ok()?);
                    }
                }
            }
            '␊' | '␍' => name.push(u8::try_from(u32::from(character) - 0x2400).ok()?),
            '\u{2401}'..='\u{241f}' if kind != TortureStoreKind::FakeGcs => {
                name.push(u8::try_from(u32::from(character) - 0x2400).ok()?);
            }
            '␡' if kind == TortureStoreKind::Azurite => name.push(0x7f),
            '＼' if kind == TortureStoreKind::Azurite => name.push(b'\\'),
            '．' if kind == TortureStoreKind::Azurite && characters.as_str().is_empty() => name.push(b'.'),
            _ => plain(character),
        }
    }
    (spelled_name(kind, &name) == spelling).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::{TortureStoreKind, read, spelled};

    #[test]
    fn the_table_of_the_book() {
        let rows: [(&[u8], &str, &str, &str); 12] = [
            (b"a\xff", "a‛FF", "a‛FF", "a‛FF"),
            ("‛".as_bytes(), "‛‛", "‛‛", "‛‛"),
            (b"\n\r", "␊␍", "␊␍", "␊␍"),
            (b"\x01", "␁", "␁", "\x01"),
            ("␁".as_bytes(), "‛␁", "‛␁", "␁"),
            ("␊".as_bytes(), "‛␊", "‛␊", "‛␊"),
            (b"\x7f\\", "\x7f\\", "␡＼", "\x7f\\"),
            ("＼".as_bytes(), "＼", "‛＼", "＼"),
            (b"a.b.", "a.b.", "a.b．", "a.b."),
            ("\u{fffe}".as_bytes(), "‛EF‛BF‛BE", "‛EF‛BF‛BE", "\u{fffe}"),
            ("\u{e000}".as_bytes(), "\u{e000}", "‛EE‛80‛80", "\u{e000}"),
            ("日本".as_bytes(), "日本", "日本", "日本"),
        ];
        for (name, s3, azure, gcs) in rows {
            for (kind, spelling) in TortureStoreKind::ALL.into_iter().zip([s3, azure, gcs]) {
                assert_eq!(spelled(kind, name), spelling);
                assert_eq!(read(kind, spelling).as_deref(), Some(name), "{spelling}");
            }
        }
        assert_eq!(read(TortureStoreKind::Versitygw, "x‛y"), None);
        assert_eq!(read(TortureStoreKind::Versitygw, "‛61"), None, "that is spelled without a quote");
    }
}
