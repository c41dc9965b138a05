//! The violations that are passed over: decisions that the book documents, each with its reason, and known open faults,
//! of which there should be none.

use super::check::Violation;

/// The words of a violation by a `sync` of a single file whose attributes alone differ.
pub const ATTRIBUTES_OF_ONE_FILE: &str = "only its attributes were changed, and it is not listed";
/// The words of a violation by a run that deletes while it copies, and makes the target itself.
pub const TARGET_MADE_FIRST: &str = "it was made, and is listed as one with new attributes";

/// Returns the reason why a violation is passed over, if it is.
pub fn reason(violation: &Violation) -> Option<&'static str> {
    let is_root = violation.path.as_ref().is_some_and(|path| path.0.is_empty());
    if is_root && violation.words == "it has changed: ctime" {
        return Some(
            "which times a target can hold is found out by trying, also in a plan: the directory is touched",
        );
    }
    match violation.words.as_str() {
        ATTRIBUTES_OF_ONE_FILE => Some("`sync` of a single file counts new attributes as unchanged"),
        TARGET_MADE_FIRST => Some("`--delete-during` makes the target before it counts what it makes"),
        _ => None,
    }
}
