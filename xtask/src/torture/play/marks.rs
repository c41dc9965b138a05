//! Run marks of hakobu in a target.

use std::path::Path;

use crate::torture::generate;

/// Returns true if a file is a run mark, or one whose content a power cut has erased.
pub(super) fn is_mark(path: &Path) -> bool {
    path.file_name().is_some_and(|name| generate::is_draft(name.as_encoded_bytes()))
        && std::fs::symlink_metadata(path).is_ok_and(|found| found.is_file() && found.len() <= 128)
        && std::fs::read(path)
            .is_ok_and(|bytes| bytes.starts_with(b"hakobu run mark") || bytes.iter().all(|byte| *byte == 0))
}

/// The fixed names of marks (design 0014).
const MARKS: [&str; 8] = [
    ".hakobu.wt2iljbm3ke5lpkhxkt2lnlodp",
    ".hakobu.byqlnvp2bw7ctalkg2v3kcwe6z",
    ".hakobu.pdx3w6cpf3dmlyurvm2l2yue35",
    ".hakobu.fnrhqhxghwvvqzcvrcstf7ifhn",
    ".hakobu.hj7gs23f77dhlusakjlhr36vgn",
    ".hakobu.mf7omoorvy2shjhsssoweioily",
    ".hakobu.3pnau3gzhtixot7hhy6l72fbuu",
    ".hakobu.zvygeitvl6wigcbkywfnhlcc7j",
];

/// Returns true if a file has the name of a mark and no content yet.
pub(super) fn is_blank_mark(path: &Path) -> bool {
    path.file_name().is_some_and(|name| MARKS.iter().any(|mark| name == *mark))
        && is_mark(path)
        && std::fs::read(path).is_ok_and(|bytes| bytes.iter().all(|byte| *byte == 0))
}

/// Returns true if injected failures of these calls may keep a run from removing its mark.
pub(super) fn keeps_marks(calls: &str) -> bool {
    ["unlink", "stat"].iter().any(|call| calls.contains(call))
}
