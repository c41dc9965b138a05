//! The mark of the key in the ledger. A control plane with another key file must not lead: it could open no secret that is sealed,
//! and would take brokers for strangers that hold leases.

use std::collections::BTreeSet;

use hakobu_core::error::{Error, ErrorKind, Result};

use crate::change::LedgerChange;
use crate::ids::RelationshipId;
use crate::key_file::{SealingKeys, key_of_sealed};
use crate::ledger::{Ledger, PAGE_ROWS_MAX};
use crate::notification_setting::NotificationSetting;
use crate::relationship::{CredentialReference, Relationship};

/// The name of the mark. Restoring a backup takes it away.
pub const KEY_MARK: &str = "key";
/// The operation that errors name.
const CHECKING: &str = "checking the key file for the ledger";

/// Checks that a key file has the key with which the ledger was last led. Returns true if that is its current key.
///
/// # Errors
/// `Refused` for another key file, and those of the ledger.
pub fn check_key(ledger: &mut dyn Ledger, keys: &SealingKeys) -> Result<bool> {
    let Some(mark) = ledger.mark(KEY_MARK)? else { return Ok(false) };
    if !keys.has_mark(&mark) {
        let id = mark.split(' ').next().unwrap_or_default();
        let words = format!("it was last led with the key {id}, which is not in the key file");
        return Err(Error::new(ErrorKind::Refused, CHECKING, words).hint(
            "name the key file of the control plane that led it with --key-file; if that is lost, use --restore, and set \
             sealed secrets again",
        ));
    }
    Ok(mark == keys.mark()?)
}

/// Leaves the mark of the current key in a ledger that this control plane leads.
///
/// # Errors
/// Those of [`check_key`].
pub fn mark_key(ledger: &mut dyn Ledger, keys: &SealingKeys) -> Result<()> {
    if check_key(ledger, keys)? {
        return Ok(());
    }
    ledger.apply(&[LedgerChange::SetMark(KEY_MARK, keys.mark()?)]).map(drop)
}

/// Returns the IDs of the keys with which secrets in a ledger are sealed.
///
/// # Errors
/// Those of the ledger.
pub fn keys_of_secrets(ledger: &mut dyn Ledger) -> Result<BTreeSet<String>> {
    let (mut keys, mut after) = (BTreeSet::new(), None::<RelationshipId>);
    loop {
        let records = ledger.relationships(after, PAGE_ROWS_MAX)?;
        let Some(last) = records.last() else { return Ok(keys) };
        after = Some(last.id);
        for record in &records {
            keys.extend(
                sealed(&record.relationship).iter().filter_map(|text| key_of_sealed(text)).map(str::to_owned),
            );
        }
    }
}

/// Returns the sealed texts of a relationship.
fn sealed(relationship: &Relationship) -> Vec<String> {
    let notification = relationship.notification.as_deref();
    let notification = notification.and_then(NotificationSetting::understood);
    let webhooks = notification.into_iter().flat_map(|setting| setting.webhooks);
    let references =
        webhooks.filter_map(|webhook| webhook.secret).chain(relationship.credentials.iter().cloned());
    let texts = references.filter_map(|reference| match reference {
        CredentialReference::Sealed(text) => Some(text),
        CredentialReference::File(_) | CredentialReference::Environment(_) => None,
    });
    texts.collect()
}

#[cfg(test)]
mod tests {
    use crate::ids::Moment;
    use crate::ledger::memory::MemoryLedger;
    use crate::names::GroupName;
    use crate::secret_bytes::SecretBytes;

    use super::*;

    fn keys(name: &str) -> (tempfile::TempDir, std::path::PathBuf, SealingKeys) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(name);
        let keys = SealingKeys::create(&path).unwrap();
        (folder, path, keys)
    }

    #[test]
    fn a_ledger_is_led_with_its_key_or_one_that_came_after_it() {
        let mut ledger = MemoryLedger::new();
        let (_folder, path, first) = keys("one");
        let (_other, _, stranger) = keys("two");
        assert!(!check_key(&mut ledger, &stranger).unwrap(), "nobody has led it");
        mark_key(&mut ledger, &first).unwrap();
        mark_key(&mut ledger, &first).unwrap();
        assert!(check_key(&mut ledger, &first).unwrap());
        let mark = ledger.mark(KEY_MARK).unwrap().unwrap();
        let line = std::fs::read_to_string(&path).unwrap();
        let key = line.split(' ').nth(2).unwrap().trim();
        assert!(mark.len() == 8 + 1 + 32 && !mark.contains(key), "{mark}");
        for refused in [check_key(&mut ledger, &stranger).map(drop), mark_key(&mut ledger, &stranger)] {
            let error = refused.unwrap_err();
            let words = error.to_string();
            assert!(error.kind == ErrorKind::Refused && words.contains(&mark[..8]), "{words}");
        }
        // The old key is still in the file, and then in that of the other control plane alone.
        let both = SealingKeys::rotate(&path).unwrap();
        assert!(!check_key(&mut ledger, &both).unwrap());
        mark_key(&mut ledger, &both).unwrap();
        assert!(check_key(&mut ledger, &both).unwrap() && ledger.mark(KEY_MARK).unwrap().unwrap() != mark);
        assert_eq!(check_key(&mut ledger, &first).unwrap_err().kind, ErrorKind::Refused);
        let lines = std::fs::read_to_string(&path).unwrap();
        std::fs::write(&path, lines.lines().next().unwrap().to_owned() + "\n").unwrap();
        assert!(check_key(&mut ledger, &SealingKeys::load(&path).unwrap()).unwrap());
    }

    #[test]
    fn the_keys_of_sealed_secrets_are_found() {
        let mut ledger = MemoryLedger::new();
        let (_folder, path, first) = keys("one");
        let seal = |keys: &SealingKeys| keys.seal("x", &SecretBytes::new(b"sesame".to_vec())).unwrap();
        let (old, new) = (seal(&first), seal(&SealingKeys::rotate(&path).unwrap()));
        let webhook = format!(
            r#"{{"version":1,"webhooks":[{{"url":"https://example.org/","secret":{{"sealed":"{new}"}}}}]}}"#
        );
        let mut add = |name: &str, credentials: Vec<CredentialReference>, notification: Option<String>| {
            let relationship = Relationship {
                name: name.to_owned(),
                group: GroupName::new("g").unwrap(),
                sources: vec![b"/a".to_vec()],
                target: b"/b".to_vec(),
                options: "{}".to_owned(),
                schedule: None,
                limits: None,
                notification,
                owner: String::new(),
                credentials,
            };
            let relationship = Box::new(relationship);
            let change =
                LedgerChange::SaveRelationship { replaces: None, now: Moment::default(), relationship };
            ledger.apply(&[change]).unwrap();
            keys_of_secrets(&mut ledger).unwrap()
        };
        assert!(add("plain", vec![CredentialReference::File("f".to_owned())], None).is_empty());
        let one = add("sealed", vec![CredentialReference::Sealed(old.clone())], None);
        assert_eq!(one.into_iter().collect::<Vec<_>>(), [&old[5..13]]);
        let both = add("told", Vec::new(), Some(webhook));
        assert!(both.len() == 2 && both.contains(&new[5..13]), "{both:?}");
    }
}
