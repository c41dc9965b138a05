//! Names of files as parts of S3 keys, as docs/book/object-stores.md spells them.

/// Quotes the character after it, or is followed by two hexadecimal digits.
const QUOTE: char = '\u{201b}';

/// Returns the spelling of a path or a name.
pub fn spelled(path: &[u8]) -> String {
    let mut out = String::new();
    for chunk in path.utf8_chunks() {
        for character in chunk.valid().chars() {
            match character {
                QUOTE | '\u{2401}'..='\u{241f}' => out.extend([QUOTE, character]),
                '\u{1}'..='\u{1f}' => out.extend(char::from_u32(0x2400 + u32::from(character))),
                '\u{fffe}' | '\u{ffff}' => {
                    let mut bytes = [0; 4];
                    character.encode_utf8(&mut bytes).bytes().for_each(|byte| add_byte(&mut out, byte));
                }
                _ => out.push(character),
            }
        }
        chunk.invalid().iter().for_each(|byte| add_byte(&mut out, *byte));
    }
    out
}

fn add_byte(out: &mut String, byte: u8) {
    out.push(QUOTE);
    out.push_str(&format!("{byte:02X}"));
}

/// Returns the name that a part of a key stands for, or `None` if no name is spelled like this.
pub fn read(spelling: &str) -> Option<Vec<u8>> {
    let mut name = Vec::new();
    let mut characters = spelling.chars();
    while let Some(character) = characters.next() {
        let mut plain = |character: char| {
            name.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
        };
        match character {
            QUOTE => match characters.next()? {
                quoted @ (QUOTE | '\u{2401}'..='\u{241f}') => plain(quoted),
                first => {
                    let value = first.to_digit(16)? * 16 + characters.next()?.to_digit(16)?;
                    name.push(u8::try_from(value).ok()?);
                }
            },
            '\u{2401}'..='\u{241f}' => name.push(u8::try_from(u32::from(character) - 0x2400).ok()?),
            _ => plain(character),
        }
    }
    (spelled(&name) == spelling).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::{read, spelled};

    #[test]
    fn the_table_of_the_book() {
        let rows: [(&[u8], &str); 7] = [
            (b"a\xff", "a‛FF"),
            ("‛".as_bytes(), "‛‛"),
            (b"\n\r\x01", "␊␍␁"),
            ("␁".as_bytes(), "‛␁"),
            (b"\x7f\\.", "\x7f\\."),
            ("\u{fffe}".as_bytes(), "‛EF‛BF‛BE"),
            ("日本".as_bytes(), "日本"),
        ];
        for (name, spelling) in rows {
            assert_eq!(spelled(name), spelling);
            assert_eq!(read(spelling).as_deref(), Some(name), "{spelling}");
        }
        assert_eq!(read("x‛y"), None);
        assert_eq!(read("‛61"), None, "that is spelled without a quote");
    }
}
