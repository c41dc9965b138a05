//! AES-256-GCM with a random nonce and a context, as all sealed things have it: nonce, ciphertext, tag.

use aws_lc_rs::aead::{AES_256_GCM, Aad, NONCE_LEN, Nonce, RandomizedNonceKey};

use crate::secret_bytes::SecretBytes;

/// The length of a key in bytes.
pub(crate) const KEY_BYTES: usize = 32;

/// Seals a secret. `None` if the key has another length, or the system gives no random numbers.
pub(crate) fn seal_bytes(key: &SecretBytes, context: &[&str], secret: &SecretBytes) -> Option<Vec<u8>> {
    let key = RandomizedNonceKey::new(&AES_256_GCM, key.expose()).ok()?;
    let mut content = SecretBytes::new(secret.expose().to_vec());
    let (nonce, tag) =
        key.seal_in_place_separate_tag(Aad::from(joined(context)), content.expose_mut()).ok()?;
    Some([nonce.as_ref(), content.expose(), tag.as_ref()].concat())
}

/// Opens sealed bytes. `None` if they were changed, or have another key or context.
pub(crate) fn open_bytes(key: &SecretBytes, context: &[&str], sealed: &[u8]) -> Option<SecretBytes> {
    let key = RandomizedNonceKey::new(&AES_256_GCM, key.expose()).ok()?;
    let (nonce, content) = sealed.split_at_checked(NONCE_LEN)?;
    let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
    let mut content = SecretBytes::new(content.to_vec());
    let opened = key.open_in_place(nonce, Aad::from(joined(context)), content.expose_mut()).ok()?;
    Some(SecretBytes::new(opened.to_vec()))
}

/// Joins the parts of a context, each with its length, so that no two contexts are equal.
fn joined(context: &[&str]) -> Vec<u8> {
    let part = |part: &&str| [&(part.len() as u64).to_be_bytes()[..], part.as_bytes()].concat();
    context.iter().flat_map(part).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_context_is_part_of_the_seal() {
        let key = SecretBytes::new(vec![7; KEY_BYTES]);
        let sealed = seal_bytes(&key, &["a", "bc"], &SecretBytes::new(b"x".to_vec())).unwrap();
        assert_eq!(open_bytes(&key, &["a", "bc"], &sealed).unwrap().expose(), b"x");
        for context in [&["ab", "c"][..], &["abc"], &["a", "bc", ""], &[]] {
            assert!(open_bytes(&key, context, &sealed).is_none(), "{context:?}");
        }
        assert!(open_bytes(&SecretBytes::new(vec![8; KEY_BYTES]), &["a", "bc"], &sealed).is_none());
        assert!(open_bytes(&key, &["a", "bc"], &[0; NONCE_LEN - 1]).is_none());
        assert!(seal_bytes(&SecretBytes::new(vec![7; 16]), &[], &key).is_none());
    }
}
