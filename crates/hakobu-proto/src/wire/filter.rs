//! The wire format of filter rules.

use super::entry::Time;
use super::mirror::mirror;
use super::path::PathBytes;

mirror! {
    struct FilterRules of hakobu_core::filter::FilterRules {
        rules: Vec<Rule>,
        newer_than: Option<Time>,
        older_than: Option<Time>,
        bytes_min: Option<u64>,
        bytes_max: Option<u64>,
        only: Option<Vec<PathBytes>>,
        only_those_there: bool,
    }
}

mirror! {
    struct Rule of hakobu_core::filter::Rule {
        line: String,
        from: String,
    }
}
