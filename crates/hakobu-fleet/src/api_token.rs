//! Tokens as people and programs hold them: `hkb_`, 256 random bits, and a checksum, so that a typing error is told from a
//! token that is not valid.

use aws_lc_rs::rand;
use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use hakobu_core::error::{Error, ErrorKind, Result};

use crate::secret_bytes::SecretBytes;
use crate::token::TokenHash;

/// The beginning of all tokens, by which scanners of source code find them.
pub const TOKEN_PREFIX: &str = "hkb_";
/// The number of random bytes.
const RANDOM_BYTES: usize = 32;
/// The number of bytes of the checksum.
const CHECKSUM_BYTES: usize = 4;
/// The number of characters behind the prefix: 36 bytes in base64.
const BODY_CHARACTERS: usize = 48;
/// The use of the checksum.
const CHECKSUM_CONTEXT: &str = "hakobu 2026-11-28 fleet token checksum";

/// A token. It is shown once, to whoever asked for it.
pub struct ApiToken(SecretBytes);

/// The fault of a text that is no token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenFault {
    /// It does not begin like one.
    Prefix,
    /// Characters are missing, or there are too many.
    Length,
    /// Characters are wrong, or in another order.
    Checksum,
}

impl TokenFault {
    /// Describes the fault and the remedy. The token is not quoted.
    pub fn words(self) -> &'static str {
        match self {
            Self::Prefix => "this is no token: tokens begin with hkb_",
            Self::Length => {
                "the token is incomplete, or has something behind it: copy all 52 characters of it"
            }
            Self::Checksum => "the token has a typing error: copy it again",
        }
    }
}

impl From<TokenFault> for Error {
    fn from(fault: TokenFault) -> Self {
        Self::new(ErrorKind::Unauthenticated, "reading the token", fault.words())
    }
}

impl ApiToken {
    /// Makes a new token.
    ///
    /// # Errors
    /// `Io` if the system has no random numbers.
    pub fn generate() -> Result<Self> {
        let mut bytes = SecretBytes::new(vec![0; RANDOM_BYTES]);
        rand::fill(bytes.expose_mut())
            .map_err(|_| Error::new(ErrorKind::Io, "making a token", "the system gives no random numbers"))?;
        Ok(Self(bytes))
    }

    /// Parses a token. Space around it is left out.
    ///
    /// # Errors
    /// The fault.
    pub fn parse(text: &str) -> Result<Self, TokenFault> {
        let body = text.trim().strip_prefix(TOKEN_PREFIX).ok_or(TokenFault::Prefix)?;
        if body.len() != BODY_CHARACTERS {
            return Err(TokenFault::Length);
        }
        let bytes = BASE64_URL_SAFE_NO_PAD.decode(body).map_err(|_| TokenFault::Checksum)?;
        let bytes = SecretBytes::new(bytes);
        let (random, sum) = bytes.expose().split_at_checked(RANDOM_BYTES).ok_or(TokenFault::Length)?;
        // The checksum is no secret.
        match sum == checksum(random) {
            true => Ok(Self(SecretBytes::new(random.to_vec()))),
            false => Err(TokenFault::Checksum),
        }
    }

    /// Returns the text to show once.
    pub fn text(&self) -> SecretBytes {
        let bytes = SecretBytes::new([self.0.expose(), &checksum(self.0.expose())].concat());
        let mut text = TOKEN_PREFIX.to_owned();
        BASE64_URL_SAFE_NO_PAD.encode_string(bytes.expose(), &mut text);
        SecretBytes::new(text.into_bytes())
    }

    /// Returns the hash, which is all that the ledger has of it.
    pub fn hash(&self) -> TokenHash {
        TokenHash::of(self.0.expose())
    }
}

impl std::fmt::Debug for ApiToken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ApiToken")
    }
}

fn checksum(random: &[u8]) -> [u8; CHECKSUM_BYTES] {
    let hash = blake3::derive_key(CHECKSUM_CONTEXT, random);
    std::array::from_fn(|index| hash[index])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn text(token: &ApiToken) -> String {
        String::from_utf8(token.text().expose().to_vec()).unwrap()
    }

    #[test]
    fn tokens_are_random_and_read_again() {
        let (one, two) = (ApiToken::generate().unwrap(), ApiToken::generate().unwrap());
        assert_ne!(one.hash(), two.hash());
        let shown = text(&one);
        assert_eq!((shown.len(), &shown[..4]), (52, "hkb_"));
        assert!(ApiToken::parse(&format!(" {shown}\n")).unwrap().hash() == one.hash());
        assert_eq!(format!("{one:?}"), "ApiToken");
    }

    #[test]
    fn a_typing_error_is_told_from_a_wrong_token() {
        let shown = text(&ApiToken::generate().unwrap());
        let fault = |text: &str| ApiToken::parse(text).unwrap_err();
        assert_eq!(fault(""), TokenFault::Prefix);
        assert_eq!(fault(&shown[1..]), TokenFault::Prefix);
        assert_eq!(fault(&shown[..51]), TokenFault::Length);
        assert_eq!(fault(&format!("{shown}A")), TokenFault::Length);
        for place in 4..shown.len() {
            for other in ['A', 'b', '_', '!', '\u{e9}'] {
                let mut typed: Vec<char> = shown.chars().collect();
                if std::mem::replace(&mut typed[place], other) == other {
                    continue;
                }
                let typed: String = typed.into_iter().collect();
                let error = Error::from(fault(&typed));
                assert!(!error.to_string().contains(&shown[4..20]), "{error}");
            }
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_the_parser_panic(text in "(hkb_)?[A-Za-z0-9_\u{e9}-]{0,60}") {
            let _ = ApiToken::parse(&text);
        }
    }
}
