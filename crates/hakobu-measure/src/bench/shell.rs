//! Quotes text for shells of unknown kind.
//!
//! The login shell on the host may be sh, bash, zsh, csh, tcsh or fish. It only ever gets `sh -c '…'`, and the text
//! inside the quotes contains nothing that any of these shells interprets. Paths in such scripts are plain. A scratch
//! directory without a plain path is accessed by a symbolic link that has one.

/// Quotes a word for a POSIX shell, in single quotes.
#[must_use]
pub fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// Returns true if every shell leaves these characters unchanged, within quotes and without.
#[must_use]
pub fn is_plain(text: &str) -> bool {
    !text.is_empty()
        && !text.starts_with('-')
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"/._-+,:@%".contains(&byte))
}

/// Returns a command for a login shell of any kind; `None` if the script has characters that one of them would
/// interpret.
#[must_use]
pub fn for_any_login_shell(script: &str) -> Option<String> {
    let read_by_some = |letter: char| matches!(letter, '\'' | '\n' | '\\' | '!');
    (!script.contains(read_by_some)).then(|| format!("sh -c '{script}'"))
}

/// Joins words in the syntax of `--ssh`: separated by spaces, with single and double quotes and nothing else.
#[must_use]
pub fn joined(words: &[String]) -> String {
    let quote = |word: &String| {
        if is_plain(word) || (word.starts_with('-') && is_plain(&word[1..])) {
            return word.clone();
        }
        // Single quotes are put within double quotes, everything else within single quotes.
        let pieces: Vec<String> = word.split('\'').map(|piece| format!("'{piece}'")).collect();
        pieces.join("\"'\"")
    };
    words.iter().map(quote).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn a_shell_reads_back_what_was_quoted() {
        for word in ["a", "two words", "it's", "$HOME `x` \\ \" !", "", "-n", "a\nb"] {
            let output = Command::new("sh").args(["-c", &format!("printf %s. {}", quoted(word))]).output();
            assert_eq!(output.unwrap().stdout, format!("{word}.").as_bytes());
        }
    }

    #[test]
    fn login_shells_of_all_kinds_get_no_letter_of_their_own() {
        let line = for_any_login_shell("gzip -d | dd of=/dev/null \"$X\"").unwrap();
        assert_eq!(line, "sh -c 'gzip -d | dd of=/dev/null \"$X\"'");
        for bad in ["it's", "a\nb", "a\\b", "if ! x"] {
            assert_eq!(for_any_login_shell(bad), None, "{bad}");
        }
    }

    #[test]
    fn what_is_plain_is_a_path_or_a_host() {
        for plain in ["/dev/shm/hakobu-bench.aB3", "me@host", "::1", "a-b_c%2"] {
            assert!(is_plain(plain), "{plain}");
        }
        for odd in ["", "-x", "a b", "a'b", "a\"b", "$x", "a\\b", "a!b", "*", "~", "a;b", "ü"] {
            assert!(!is_plain(odd), "{odd}");
        }
    }

    #[test]
    fn words_of_a_command_are_joined_for_a_splitter_without_backslashes() {
        let words = ["ssh", "-F", "/my conf", "-o", "X=it's \"it\"", ""].map(str::to_owned);
        assert_eq!(joined(&words), "ssh -F '/my conf' -o 'X=it'\"'\"'s \"it\"' ''");
    }
}
