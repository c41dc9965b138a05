//! The attributes of `--preserve` and `--require`.

use hakobu_core::error::{Error, ErrorKind};
use hakobu_core::extended::Classes;
use hakobu_core::losses::LossKind;
use hakobu_core::request::Preserve;

use crate::commands::shared::findings::{Findings, usage};

/// The kinds that `--require` knows.
const REQUIREMENTS: [LossKind; 8] = [
    LossKind::Xattr,
    LossKind::Acl,
    LossKind::HardLinks,
    LossKind::Holes,
    LossKind::Owner,
    LossKind::SetId,
    LossKind::Flags,
    LossKind::Times,
];

/// Returns the attributes to preserve: the defaults, plus those named, minus those named with `no-`.
pub(super) fn preserve(typed: &[String], found: &mut Findings) -> Preserve {
    let mut preserve = Preserve::default();
    for name in typed {
        let (bare, keep) = match name.strip_prefix("no-") {
            Some(bare) => (bare, false),
            None => (name.as_str(), true),
        };
        let classes = match bare {
            "all" if keep => continue,
            "owner" => {
                preserve.owner = keep;
                continue;
            }
            "hardlinks" => {
                preserve.hard_links = keep;
                continue;
            }
            "acl" => Classes::ACL,
            "xattr" => Classes::USER | Classes::TRUSTED | Classes::CAPABILITY,
            "selinux" => Classes::SELINUX,
            "mode" | "times" | "links" if keep => continue,
            _ => {
                let words = format!(
                    "{name} is not one of owner, acl, xattr, hardlinks, selinux, or these with no- in front"
                );
                found.usage("--preserve", words);
                continue;
            }
        };
        preserve.extended =
            if keep { preserve.extended | classes } else { preserve.extended.without(classes) };
    }
    preserve
}

pub(super) fn requirement(name: &str) -> Result<LossKind, Error> {
    if let Some(kind) = REQUIREMENTS.into_iter().find(|kind| kind.name() == name) {
        return Ok(kind);
    }
    if matches!(name, "direct" | "nanoseconds" | "devices" | "special") {
        let detail = format!("{name} cannot be promised by this version");
        return Err(Error::new(ErrorKind::Requirement, "option", detail).at("--require"));
    }
    let known: Vec<_> = REQUIREMENTS.iter().map(|kind| kind.name()).collect();
    Err(usage("--require", format!("{name} is not one of {}", known.join(", "))))
}
