//! Extended attributes as objects store them: those in the metadata itself, and those in sidecars.

use std::sync::Arc;

use hakobu_core::entry::EntryMetadata;
use hakobu_core::extended::{
    ACCESS_LIST, Classes, Extended, ExtendedAsk, ExtendedRef, UNREADABLE, list_with_mode, lost_digest,
    mode_without_list,
};
use hakobu_core::listing::Detail;
use hakobu_core::losses::LossKind;
use hakobu_core::{Error, ErrorKind, Result};

use super::api::ObjectApi;
use super::keys::KeyRoot;
use super::metadata::ObjectExtended;
use super::metadata::sidecar::SidecarName;
use super::sidecars::Sidecars;

/// Reads the extended attributes of entries below a root.
#[derive(Clone, Copy)]
pub(crate) struct AttributeReader<'a> {
    pub(crate) api: &'a dyn ObjectApi,
    pub(crate) root: &'a KeyRoot,
    pub(crate) sidecars: &'a Sidecars,
    pub(crate) proof: SidecarProof,
}

/// How listings treat sidecars.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SidecarProof {
    /// They show the hashes that the metadata tells.
    Told,
    /// They show attributes as unreadable unless the sidecar is there and undamaged.
    Read,
    /// They show attributes as lost unless the sidecar is there and undamaged.
    Kept,
}

/// The extended attributes of one entry that were asked for.
#[derive(Clone, Debug)]
pub(crate) struct AskedAttributes {
    /// Those to keep, or `None` if none are.
    pub(crate) kept: Option<Arc<Extended>>,
    /// The properties that the entry loses.
    pub(crate) lost: Vec<LossKind>,
    /// The mode bits that may be set if the entry loses its access control list. All bits if it does not.
    pub(crate) mode_mask: u32,
}

impl AttributeReader<'_> {
    /// Returns all extended attributes that the object at a key has.
    async fn all(&self, key: &str, stored: &ObjectExtended) -> Result<Option<Arc<Extended>>> {
        match stored {
            ObjectExtended::None => Ok(None),
            ObjectExtended::Inline(extended) => Ok(Some(Arc::new(extended.clone()))),
            ObjectExtended::Sidecar(name) => {
                self.sidecars.read(self.api, self.root, key, name).await.map(Some)
            }
            ObjectExtended::Malformed => {
                let words =
                    "its metadata says that it has some, and not which: hakobu-attributes is malformed";
                let error = Error::new(ErrorKind::Corrupt, "reading the extended attributes", words);
                Err(error
                    .hint("copy it without them (--preserve no-xattr,no-acl), or delete it in the store and copy it to it again"))
            }
        }
    }

    /// Returns the extended attributes that are asked for of the object at a key.
    ///
    /// # Errors
    /// `Corrupt` if they cannot be read. Attributes that cannot be read never count as missing.
    pub(crate) async fn ask(
        &self,
        key: &str,
        stored: &ObjectExtended,
        ask: ExtendedAsk,
    ) -> Result<AskedAttributes> {
        let (mut lost, mut mode_mask) = (Vec::new(), 0o7777);
        if (ask.keep | ask.miss).is_empty() {
            return Ok(AskedAttributes { kept: None, lost, mode_mask });
        }
        let all = self.all(key, stored).await?;
        for (name, value) in all.iter().flat_map(|all| all.as_ref().as_ref().iter()) {
            let Some(class) = Classes::of(name).filter(|class| !ask.keep.contains(*class)) else { continue };
            if !ask.miss.contains(class) {
                continue;
            }
            if !lost.contains(&class.loss()) {
                lost.push(class.loss());
            }
            if name == ACCESS_LIST {
                mode_mask &= mode_without_list(value);
            }
        }
        let kept = match (all, ask.keep) {
            (_, Classes::NONE) => None,
            (Some(all), keep) if all.as_ref().as_ref().classes() == keep => Some(all),
            (all, keep) => Some(Arc::new(of_classes(all.as_deref().map(Extended::as_ref), keep)?)),
        };
        Ok(AskedAttributes { kept, lost, mode_mask })
    }

    /// Completes the metadata of an entry with what a listing shows of its extended attributes.
    ///
    /// # Errors
    /// If the store cannot be asked. Attributes that are missing or damaged make an entry unreadable.
    pub(crate) async fn show(
        &self,
        (key, stored): (&str, &ObjectExtended),
        Detail { extended: keep, missed: miss, .. }: Detail,
        metadata: &mut EntryMetadata,
    ) -> Result<()> {
        if let ObjectExtended::Sidecar(name) = stored
            && !(keep | miss).is_empty()
            && !self.prove(key, name).await?
        {
            metadata.missed = !miss.is_empty();
            metadata.extended = self.show_lost(name, metadata);
            return Ok(());
        }
        metadata.extended = match stored {
            _ if (keep | miss).is_empty() => 0,
            ObjectExtended::None => 0,
            ObjectExtended::Sidecar(name) if name.classes == keep && miss.is_empty() => name.listed_digest(),
            _ => match self.ask(key, stored, ExtendedAsk { keep, miss, readable: false }).await {
                Ok(AskedAttributes { kept, lost, mode_mask }) => {
                    metadata.missed = !lost.is_empty();
                    metadata.mode &= mode_mask;
                    kept.map_or(0, |kept| kept.as_ref().as_ref().digest())
                }
                // Asking for the attributes alone tells the cause.
                Err(error) if error.kind == ErrorKind::Corrupt => {
                    metadata.missed = !miss.is_empty();
                    match stored {
                        ObjectExtended::Sidecar(name) => self.show_lost(name, metadata),
                        _ => UNREADABLE,
                    }
                }
                Err(error) => return Err(error),
            },
        };
        Ok(())
    }

    /// Returns true unless the sidecar of the object at a key has to be there, and is missing, damaged or unreadable.
    pub(crate) async fn prove(&self, key: &str, name: &SidecarName) -> Result<bool> {
        if self.proof == SidecarProof::Told {
            return Ok(true);
        }
        match self.sidecars.check(self.api, self.root, key, name).await {
            Ok(()) => Ok(true),
            Err(error) if error.kind == ErrorKind::Corrupt => Ok(false),
            // It is there, or this program may not know. To write takes no right to read it.
            Err(error) if matches!(error.kind, ErrorKind::PermissionDenied | ErrorKind::Unsupported) => {
                Ok(self.proof == SidecarProof::Kept)
            }
            Err(error) => Err(error),
        }
    }

    /// Returns the hash that is shown for the attributes of a sidecar that is missing or damaged.
    fn show_lost(&self, name: &SidecarName, metadata: &mut EntryMetadata) -> u64 {
        if self.proof != SidecarProof::Kept {
            return UNREADABLE;
        }
        metadata.missed = true;
        lost_digest(name.listed_digest())
    }
}

impl ObjectExtended {
    /// Returns true if the entry loses an access control list, so that its mode must not grant what the list denies. It
    /// counts as having one unless its metadata shows that it has none.
    pub(crate) fn loses_list(&self, detail: Detail) -> bool {
        let has_list = match self {
            Self::None => false,
            Self::Inline(all) => all.as_ref().get(ACCESS_LIST).is_some(),
            Self::Sidecar(name) => name.classes.contains(Classes::ACL),
            Self::Malformed => true,
        };
        has_list && detail.missed.contains(Classes::ACL) && !detail.extended.contains(Classes::ACL)
    }
}

/// Returns the mode bits that may remain without the access control list among some attributes.
pub(crate) fn mode_without_lists(all: ExtendedRef<'_>) -> u32 {
    all.get(ACCESS_LIST).map_or(0o7777, mode_without_list)
}

/// Returns some attributes with the access control list that a change of the mode leaves, or `None` if that changes nothing.
pub(crate) fn with_mode(all: ExtendedRef<'_>, mode: u32) -> Option<Extended> {
    let list = all.get(ACCESS_LIST)?;
    let changed = list_with_mode(list, mode);
    if changed == list {
        return None;
    }
    let value =
        |name: &[u8], value: &[u8]| if name == ACCESS_LIST { changed.clone() } else { value.to_vec() };
    let mut attributes: Vec<_> = all.iter().map(|(name, old)| (name.to_vec(), value(name, old))).collect();
    Extended::new(all.classes(), &mut attributes).ok()
}

/// Returns those of some attributes that are of these classes.
pub(crate) fn of_classes(all: Option<ExtendedRef<'_>>, classes: Classes) -> Result<Extended> {
    let mut some: Vec<_> = all
        .into_iter()
        .flat_map(ExtendedRef::iter)
        .map(|(name, value)| (name.to_vec(), value.to_vec()))
        .collect();
    Extended::new(classes, &mut some)
}
