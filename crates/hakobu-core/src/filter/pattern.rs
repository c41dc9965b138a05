//! Translation of patterns, as git and rsync interpret them, for the matcher, which interprets some of them
//! differently.
//!
//! The matcher knows no classes such as `[:alpha:]`, takes `\` within brackets literally and braces as alternatives,
//! lets `[!a]` match a slash, and does not support non-ASCII letters in brackets. Therefore a line is parsed here
//! according to gitignore(5) and git's `wildmatch`, and written again with elements that both interpret in the same
//! way. A pattern that can match nothing is rejected, because its author expects it to have an effect.

use std::iter::Peekable;
use std::str::Chars;

/// The maximum number of non-ASCII letters in a set.
const OTHERS_MAX: usize = 512;

/// An element of a parsed pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Token {
    Literal(char),
    Slash,
    /// `*` or `?`, which the matcher interprets in the same way.
    Wild(char),
    Set(Set),
}

/// A set in brackets.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Set {
    negated: bool,
    ascii: [bool; 128],
    /// Non-ASCII letters.
    others: Vec<char>,
}

/// Translates a line for the matcher. Returns `None` for a comment or an empty line.
///
/// # Errors
/// The reason why the pattern can match nothing, in words.
pub(super) fn translated(line: &str) -> Result<Option<String>, String> {
    if line.starts_with('#') || line.trim_matches(' ').is_empty() {
        return Ok(None);
    }
    let (include, pattern) = line.strip_prefix('!').map_or((false, line), |rest| (true, rest));
    let mut tokens = tokens(pattern)?;
    let only_directories = tokens.last() == Some(&Token::Slash);
    if only_directories {
        tokens.pop();
    }
    let from_top = tokens.first() == Some(&Token::Slash);
    if from_top {
        tokens.remove(0);
    }
    check_names(&tokens)?;
    let mut text = String::with_capacity(line.len() + 8);
    if include {
        text.push('!');
    }
    if from_top {
        text.push('/');
    } else if !tokens.contains(&Token::Slash) {
        // This means the same, and keeps a slash in a set from being taken for a separator of names.
        text.push_str("**/");
    }
    for token in &tokens {
        write(token, &mut text);
    }
    if only_directories {
        text.push('/');
    }
    Ok(Some(text))
}

/// Rejects names that cannot occur in a path below the root.
fn check_names(tokens: &[Token]) -> Result<(), String> {
    for name in tokens.split(|token| *token == Token::Slash) {
        match name {
            [] => return Err("it has an empty name in it, so it matches nothing".to_owned()),
            [Token::Literal('.')] | [Token::Literal('.'), Token::Literal('.')] => {
                return Err("paths have no . and .. in them, so it matches nothing".to_owned());
            }
            _ => {}
        }
    }
    Ok(())
}

fn tokens(pattern: &str) -> Result<Vec<Token>, String> {
    let mut tokens = Vec::with_capacity(pattern.len());
    // Trailing blanks are ignored, unless a backslash precedes them.
    let mut counted = 0;
    let mut chars = pattern.chars().peekable();
    while let Some(letter) = chars.next() {
        let token = match letter {
            '\\' => match chars.next() {
                None => return Err("the backslash at its end stands before nothing".to_owned()),
                Some('/') => Token::Slash,
                Some(letter) => Token::Literal(letter),
            },
            '/' => Token::Slash,
            '*' | '?' => Token::Wild(letter),
            '[' => Token::Set(set(&mut chars)?),
            letter => Token::Literal(letter),
        };
        tokens.push(token);
        if letter != ' ' {
            counted = tokens.len();
        }
    }
    tokens.truncate(counted);
    Ok(tokens)
}

/// Parses a set after its opening bracket.
fn set(chars: &mut Peekable<Chars<'_>>) -> Result<Set, String> {
    let unclosed = || "a bracket is not closed; \\[ stands for a bracket".to_owned();
    let mut set = Set { negated: false, ascii: [false; 128], others: Vec::new() };
    if matches!(chars.peek(), Some('!' | '^')) {
        set.negated = true;
        chars.next();
    }
    let (mut first, mut before) = (true, None);
    loop {
        let letter = chars.next().ok_or_else(unclosed)?;
        let mut ahead = chars.clone();
        match letter {
            ']' if !first => break,
            '[' if matches!(chars.peek(), Some('.' | '=')) => {
                return Err("[. .] and [= =] are not supported".to_owned());
            }
            '[' if chars.peek() == Some(&':') && class_name(&mut ahead).is_some() => {
                ahead = chars.clone();
                let name = class_name(&mut ahead).unwrap_or_default();
                set.add_class(&name)?;
                (*chars, before) = (ahead, None);
            }
            '-' if before.is_some() && chars.peek().is_some_and(|next| *next != ']') => {
                let mut end = chars.next().ok_or_else(unclosed)?;
                if end == '\\' {
                    end = chars.next().ok_or_else(unclosed)?;
                }
                set.add_range(before.take().unwrap_or(end), end)?;
            }
            letter => {
                let letter = if letter == '\\' { chars.next().ok_or_else(unclosed)? } else { letter };
                set.add_range(letter, letter)?;
                before = Some(letter);
            }
        }
        first = false;
    }
    // No name contains a slash.
    set.ascii[usize::from(b'/')] = set.negated;
    if set.negated && !set.others.is_empty() {
        return Err(
            "brackets that exclude letters beyond ASCII are not supported, as names are bytes".to_owned()
        );
    }
    if !set.negated && set.others.is_empty() && !set.ascii.contains(&true) {
        return Err("brackets that hold no more than a slash match nothing".to_owned());
    }
    Ok(set)
}

/// Parses the name in `:alpha:]`, after the bracket. Anything that does not end like this is a set that contains a
/// bracket.
fn class_name(chars: &mut Peekable<Chars<'_>>) -> Option<String> {
    chars.next_if_eq(&':')?;
    let mut name = String::new();
    while let Some(letter) = chars.next_if(|letter| letter.is_ascii_alphanumeric()) {
        name.push(letter);
    }
    chars.next_if_eq(&':')?;
    chars.next_if_eq(&']')?;
    Some(name)
}

impl Set {
    fn add_class(&mut self, name: &str) -> Result<(), String> {
        let is_in: fn(&u8) -> bool = match name {
            "alnum" => u8::is_ascii_alphanumeric,
            "alpha" => u8::is_ascii_alphabetic,
            "blank" => |byte| matches!(byte, b' ' | b'\t'),
            "cntrl" => u8::is_ascii_control,
            "digit" => u8::is_ascii_digit,
            "graph" => u8::is_ascii_graphic,
            "lower" => u8::is_ascii_lowercase,
            "print" => |byte| byte.is_ascii_graphic() || *byte == b' ',
            "punct" => u8::is_ascii_punctuation,
            "space" => |byte| matches!(byte, b' ' | b'\t'..=b'\r'),
            "upper" => u8::is_ascii_uppercase,
            "xdigit" => u8::is_ascii_hexdigit,
            _ => return Err(format!("there is no class [:{name}:]")),
        };
        for byte in (0..128).filter(is_in) {
            self.ascii[usize::from(byte)] = true;
        }
        Ok(())
    }

    fn add_range(&mut self, begin: char, end: char) -> Result<(), String> {
        if begin > end {
            return Err(format!("the range {begin}-{end} is the wrong way round, so it matches nothing"));
        }
        for letter in begin..=end {
            match self.ascii.get_mut(letter as usize) {
                Some(place) => *place = true,
                None if self.others.len() < OTHERS_MAX => self.others.push(letter),
                None => return Err(format!("brackets hold at most {OTHERS_MAX} letters beyond ASCII")),
            }
        }
        Ok(())
    }
}

fn write(token: &Token, text: &mut String) {
    match token {
        Token::Slash => text.push('/'),
        Token::Wild(letter) => text.push(*letter),
        // The matcher strips trailing whitespace, except for a space with a backslash.
        Token::Literal(letter) if letter.is_whitespace() && *letter != ' ' => {
            text.extend(['{', *letter, '}']);
        }
        Token::Literal(letter) => {
            if letter.is_ascii_punctuation() || *letter == ' ' {
                text.push('\\');
            }
            text.push(*letter);
        }
        Token::Set(set) if set.others.is_empty() => write_ascii(set, text),
        Token::Set(set) => {
            text.push('{');
            if set.ascii.contains(&true) {
                write_ascii(set, text);
                text.push(',');
            }
            for (index, letter) in set.others.iter().enumerate() {
                text.extend((index > 0).then_some(','));
                text.push(*letter);
            }
            text.push('}');
        }
    }
}

/// Writes a set so that every element stands for itself only: a closing bracket comes first, a hyphen last, and a
/// character that would negate the set never first.
fn write_ascii(set: &Set, text: &mut String) {
    let has = |letter: u8| set.ascii[usize::from(letter)];
    let is_plain = |letter: u8| has(letter) && !matches!(letter, b']' | b'-' | b'^' | b'!' | b'\\');
    if !set.negated && (0..128).all(|letter| !has(letter) || matches!(letter, b'^' | b'!')) {
        return text.push_str(match (has(b'^'), has(b'!')) {
            (true, true) => "{\\^,\\!}",
            (true, false) => "\\^",
            _ => "\\!",
        });
    }
    text.push('[');
    if set.negated {
        text.push('!');
    }
    if has(b']') {
        text.push(']');
    }
    let mut letter = 0;
    while letter < 128 {
        if !is_plain(letter) {
            letter += 1;
            continue;
        }
        let begin = letter;
        while letter < 127 && is_plain(letter + 1) {
            letter += 1;
        }
        text.push(char::from(begin));
        if letter > begin {
            text.extend(['-', char::from(letter)]);
        }
        letter += 1;
    }
    if has(b'\\') {
        text.push('\\');
    }
    // A negation character must follow something, be it a hyphen that comes first.
    let only_hyphen_before = !set.negated && text.ends_with('[') && has(b'-');
    if only_hyphen_before {
        text.push('-');
    }
    for letter in [b'^', b'!'].into_iter().filter(|letter| has(*letter)) {
        text.push(char::from(letter));
    }
    if has(b'-') && !only_hyphen_before {
        text.push('-');
    }
    text.push(']');
}
