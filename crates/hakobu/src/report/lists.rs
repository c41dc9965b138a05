//! The lists of a report: losses, failures, differences, pairs, passes.

use hakobu_core::report::{Report, ReportDeletion, ReportDifference};
use hakobu_core::units::format_bytes;

use super::page::{PageBlock, PageLine, PageSection, name, path, said, words};
use super::words as vocabulary;
use crate::language::Language;

/// Returns the section on the attributes that the target could not keep.
pub fn losses(report: &Report, language: Language) -> Option<PageSection> {
    let rows: Vec<Vec<PageLine>> = report
        .losses
        .iter()
        .map(|loss| {
            let mut example = vec![path(&loss.example, loss.example_base64.as_deref())];
            if let Some(side) = vocabulary::side(&loss.side, language) {
                example.push(words(match language {
                    Language::En => format!(" (at the {side})"),
                    Language::Ja => format!("({side}側)"),
                }));
            }
            let means = vocabulary::loss_means(&loss.what, language).map(|means| vec![words(means)]);
            vec![
                vec![vocabulary::loss(&loss.what, language)],
                vec![words(language.entries(loss.count))],
                example,
                means.unwrap_or_default(),
            ]
        })
        .collect();
    let head = [("Not kept", "失われたもの"), ("Of", "件数"), ("Such as", "例"), ("What it means", "影響")];
    records(language.say("Losses", "引き継げなかったもの"), head, rows, language)
}

/// The entries that failed.
pub fn failures(report: &Report, language: Language) -> Option<PageSection> {
    let rows: Vec<Vec<PageLine>> = report
        .failures
        .iter()
        .map(|failure| {
            let at = failure.at.as_deref().filter(|at| !at.is_empty());
            let at = at.map(|at| vec![path(at, failure.at_base64.as_deref())]);
            vec![
                vec![path(&failure.path, failure.path_base64.as_deref())],
                vec![vocabulary::kind(&failure.kind, language)],
                vec![vocabulary::step(&failure.during, language)],
                at.unwrap_or_default(),
                vec![said(&failure.error)],
            ]
        })
        .collect();
    let (listed, failed) = (rows.len() as u64, report.entries.failed);
    let head = [
        ("Entry", "項目"),
        ("Kind", "種類"),
        ("While", "処理"),
        ("At the target", "コピー先の場所"),
        ("Error", "エラー"),
    ];
    let mut section = records(language.say("Failures", "失敗した項目"), head, rows, language)?;
    if failed > listed {
        let (listed, failed) = (language.count(listed), language.count(failed));
        let words_of = match language {
            Language::En => format!("{failed} failed; the report has the first {listed} of them."),
            Language::Ja => {
                format!("失敗は全部で {failed} 件です。レポートには最初の {listed} 件が記録されています。")
            }
        };
        section.blocks.insert(0, PageBlock::Words(vec![words(words_of)]));
    }
    Some(section)
}

/// The entries that were deleted.
pub fn deletions(report: &Report, language: Language) -> Option<PageSection> {
    let row = |deletion: &ReportDeletion| vec![vec![path(&deletion.path, deletion.path_base64.as_deref())]];
    let rows: Vec<_> = report.deletions.iter().map(row).collect();
    let (listed, deleted) = (rows.len() as u64, report.entries.deleted);
    let head = [("Entry", "項目")];
    let mut section = records(language.say("Deleted", "削除した項目"), head, rows, language)?;
    if deleted > listed {
        let (listed, deleted) = (language.count(listed), language.count(deleted));
        let words_of = match language {
            Language::En => format!("{deleted} were deleted; the report has {listed} of them."),
            Language::Ja => {
                format!("削除は全部で {deleted} 件です。レポートにはそのうち {listed} 件が記録されています。")
            }
        };
        section.blocks.insert(0, PageBlock::Words(vec![words(words_of)]));
    }
    Some(section)
}

/// In what the target differs.
pub fn differences(report: &Report, language: Language) -> Option<PageSection> {
    let row = |difference: &ReportDifference| {
        let range = difference.offset_bytes.map(|offset| range(offset, difference.length_bytes, language));
        let value = |value: &Option<String>| vec![value.as_deref().map_or_else(|| words(""), name)];
        vec![
            vec![path(&difference.path, difference.path_base64.as_deref())],
            vec![vocabulary::difference(&difference.what, language)],
            value(&difference.source_value),
            value(&difference.target_value),
            range.unwrap_or_default(),
        ]
    };
    let rows = report.differences.iter().map(row).collect();
    let head = [
        ("Entry", "項目"),
        ("What differs", "差異"),
        ("Source", "コピー元"),
        ("Target", "コピー先"),
        ("Range", "範囲"),
    ];
    records(language.say("Differences", "差異"), head, rows, language)
}

/// Bytes from one up to another.
fn range(offset: u64, length: Option<u64>, language: Language) -> PageLine {
    let length = length.unwrap_or(0);
    // As the tools take them that look at such a range.
    let (from, to) = (offset, offset.saturating_add(length));
    let size = format_bytes(length);
    vec![words(match language {
        Language::En => format!("bytes {from} to {to} ({size})"),
        Language::Ja => format!("{from}〜{to} バイト({size})"),
    })]
}

/// Each source with its target.
pub fn pairs(report: &Report, language: Language) -> Option<PageSection> {
    let none = || vec![words(language.say("none", "なし"))];
    let rows = report.pairs.iter().map(|pair| {
        let digest = pair.digest_blake3.as_deref().map_or_else(none, |digest| vec![name(digest)]);
        vec![vec![name(&pair.source)], vec![name(&pair.target)], digest]
    });
    let head = [("Source", "コピー元"), ("Target", "コピー先"), ("BLAKE3 digest", "BLAKE3 ダイジェスト")];
    records(language.say("Pairs", "コピー元とコピー先の組"), head, rows.collect(), language)
}

/// The passes over a source in use.
pub fn passes(report: &Report, language: Language) -> Option<PageSection> {
    let rows: Vec<_> = (1_u64..)
        .zip(&report.passes)
        .map(|(number, pass)| {
            let bytes = pass.written_bytes;
            vec![
                language.count(number),
                language.seconds(pass.seconds),
                format_bytes(bytes),
                language.count(bytes),
            ]
        })
        .collect();
    if rows.is_empty() {
        return None;
    }
    let head = [
        ("Pass", "回数"),
        ("Took", "所要時間"),
        ("Changed and written", "変更されて書き込んだ量"),
        ("Bytes", "バイト数"),
    ];
    let head = head.map(|(english, japanese)| language.say(english, japanese).to_owned()).to_vec();
    let last = language.say(
        "The other figures of this report are those of the last pass.",
        "このレポートのほかの数値は、最後の回のものです。",
    );
    let blocks = vec![PageBlock::Table(head, rows), PageBlock::Words(vec![words(last)])];
    PageSection::of(language.say("Passes (cut-over)", "差分転送の記録(カットオーバー)"), blocks)
}

fn records<const COLUMNS: usize>(
    title: &str,
    head: [(&str, &str); COLUMNS],
    rows: Vec<Vec<PageLine>>,
    language: Language,
) -> Option<PageSection> {
    if rows.is_empty() {
        return None;
    }
    let head = head.map(|(english, japanese)| language.say(english, japanese).to_owned()).to_vec();
    let title = match language {
        Language::En => format!("{title} ({})", language.count(rows.len() as u64)),
        Language::Ja => format!("{title}({} 件)", language.count(rows.len() as u64)),
    };
    PageSection::of(&title, vec![PageBlock::Records(head, rows)])
}
