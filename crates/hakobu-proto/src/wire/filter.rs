//! The wire format of filter rules.

use super::entry::FileTime;
use super::mirror::mirror;
use super::path::PathBytes;

mirror! {
    struct FilterRules of hakobu_core::filter::FilterRules {
        rules: Vec<FilterRule>,
        newer_than: Option<FileTime>,
        older_than: Option<FileTime>,
        bytes_min: Option<u64>,
        bytes_max: Option<u64>,
        only: Option<Vec<PathBytes>>,
        only_those_there: bool,
    }
}

mirror! {
    struct FilterRule of hakobu_core::filter::FilterRule {
        line: String,
        from: String,
    }
}
