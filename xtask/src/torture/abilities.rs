//! The capabilities of the target and the transport to it, as the promise of a step depends on them.

use super::environment::object_store::TortureStoreKind;
use super::key_names;
use super::model::{Name, Time};
use super::walk::{SeenEntry, SeenKind};

/// The capabilities of the target and the transport to it.
#[derive(Clone, Debug)]
pub struct Abilities {
    /// Owners and groups.
    pub owners: bool,
    /// All bits of the mode.
    pub modes: bool,
    /// Symbolic links.
    pub symlinks: bool,
    /// The maximum length in bytes of a symbolic link's target.
    pub link_bytes_max: usize,
    /// Hard links.
    pub hard_links: bool,
    /// True if the transport reports which names are one file.
    pub tells_inodes: bool,
    /// True if the transport reports which names of the source are one file.
    pub tells_source_inodes: bool,
    /// True if an inode of the target is known again after its attributes have changed. Behind FUSE it may be another one.
    pub tells_inodes_for_good: bool,
    /// The number of different inode numbers that the source reports. If it is limited, different files share a number.
    pub inode_numbers: u64,
    /// True if the target may briefly show deleted names, because the kernel caches them when it takes two files for
    /// one.
    pub remembers_names: bool,
    /// True if the target shows its times truncated to 32 bits.
    pub cuts_times: bool,
    /// Pipes and devices.
    pub special_files: bool,
    /// Extended attributes `user.*`.
    pub user_xattrs: bool,
    /// Extended attributes `trusted.*`, and capabilities.
    pub trusted_xattrs: bool,
    /// Access control lists.
    pub acls: bool,
    /// Names that are not UTF-8.
    pub any_names: bool,
    /// True if names that differ only in case are different.
    pub case_sensitive: bool,
    /// The resolution of times in nanoseconds.
    pub mtime_step_ns: u64,
    /// The first and the last second of the range of times.
    pub mtime_range_s: (i64, i64),
    /// The resolution in nanoseconds of the times that the source shows. Smaller differences are not noticed.
    pub seen_step_ns: u64,
    /// The resolution in nanoseconds for times before 1970, for which programs behind FUSE may show whole seconds only.
    pub seen_early_step_ns: u64,
    /// True if attributes are kept in ways that are not described here. Only kinds and contents are compared.
    pub loose: bool,
    /// The total size in bytes of a file's attributes that fit in any case.
    pub xattr_bytes_max: usize,
    /// The stores of which names are parts of keys, which are limited in their spelling: of the source and the target.
    pub keys: [Option<TortureStoreKind>; 2],
    /// True if files are replaced as a whole, never changed in place.
    pub replaces_whole: bool,
    /// True if the source's file system has times of changes.
    pub change_times: bool,
    /// The metadata that some step of the history excludes.
    pub left_out: Vec<String>,
}

impl Default for Abilities {
    /// Returns the capabilities of a file system that holds everything.
    fn default() -> Self {
        Self {
            owners: true,
            modes: true,
            symlinks: true,
            link_bytes_max: usize::MAX,
            hard_links: true,
            tells_inodes: true,
            tells_source_inodes: true,
            tells_inodes_for_good: true,
            inode_numbers: u64::MAX,
            remembers_names: false,
            cuts_times: false,
            special_files: true,
            user_xattrs: true,
            trusted_xattrs: true,
            acls: true,
            any_names: true,
            case_sensitive: true,
            mtime_step_ns: 1,
            seen_step_ns: 1,
            seen_early_step_ns: 1,
            mtime_range_s: (i64::MIN, i64::MAX),
            xattr_bytes_max: usize::MAX,
            loose: false,
            keys: [None, None],
            replaces_whole: false,
            change_times: true,
            left_out: Vec::new(),
        }
    }
}

/// The maximum length in bytes of a name that the server can replace on its file system: it adds 28 bytes for a
/// temporary name, and names have at most 255.
const KEY_PART_BYTES_MAX: usize = 227;
/// The maximum length in bytes of a key below the prefixes of histories.
const KEY_BYTES_MAX: usize = 980;

impl Abilities {
    /// Returns the time that the target keeps for `time`.
    pub fn time(&self, time: Time) -> Time {
        let (first, last) = self.mtime_range_s;
        if time.s < first {
            return Time { s: first, ns: 0 };
        }
        let step = self.mtime_step_ns;
        if time.s > last {
            // The last second of the transport's range may be within a step of the target.
            let seconds = (step / 1_000_000_000).max(1) as i64;
            return Time { s: last.div_euclid(seconds) * seconds, ns: 0 };
        }
        if step < 1_000_000_000 {
            return Time { s: time.s, ns: (u64::from(time.ns) / step * step) as u32 };
        }
        let seconds = (step / 1_000_000_000) as i64;
        Time { s: time.s.div_euclid(seconds) * seconds, ns: 0 }
    }

    /// Returns true if attributes of this name are kept.
    pub fn has_attribute(&self, name: &Name) -> bool {
        let text = &name.0;
        if text.starts_with(b"system.posix_acl") {
            self.acls
        } else if text.starts_with(b"user.") {
            self.user_xattrs
        } else {
            self.trusted_xattrs
        }
    }
}

impl Abilities {
    /// Returns true if the target accepts an entry of this name and kind in any case.
    pub fn takes(&self, path: &Name, entry: &SeenEntry) -> bool {
        let kind = match entry.kind {
            // A file system whose names are text also stores targets of symbolic links as text.
            SeenKind::Link(ref to) => {
                let is_text = self.any_names || std::str::from_utf8(to).is_ok();
                self.symlinks && is_text && to.len() <= self.link_bytes_max
            }
            SeenKind::Pipe | SeenKind::Character(_) | SeenKind::Block(_) => self.special_files,
            _ => true,
        };
        let plain = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
        let base = path.base();
        let name = self.any_names && self.case_sensitive
            || base.iter().all(plain) && base.len() < 200 && !base.ends_with(b".") && base != b"CON";
        kind && name && self.takes_key(path)
    }

    /// Returns true if the target accepts the key of an entry in any case.
    fn takes_key(&self, path: &Name) -> bool {
        let [source, Some(target)] = self.keys else { return true };
        let spelled = |kind| key_names::spelled(kind, &path.0);
        let key = spelled(target);
        // Between stores of two kinds a key that needs another spelling fails.
        let is_alike = source.is_none_or(|source| source == target || spelled(source) == key);
        // The server keeps objects as files.
        let is_short = target != TortureStoreKind::Versitygw
            || key_names::spelled(target, path.base()).len() <= KEY_PART_BYTES_MAX;
        is_alike && is_short && key.len() <= KEY_BYTES_MAX
    }

    /// Returns true if the attributes of an entry fit in any case.
    pub fn fits(&self, entry: &SeenEntry) -> bool {
        let held = entry.xattrs.iter().filter(|(name, _)| self.has_attribute(name));
        held.map(|(name, value)| name.0.len() + value.len() + 20).sum::<usize>() <= self.xattr_bytes_max
    }
}
