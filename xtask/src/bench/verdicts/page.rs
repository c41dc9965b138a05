//! Renders the verdicts as a page.

use super::results::{VerdictsResults, VerdictsRow, right_of_all};
use super::stages::{STAGES, words};
use crate::bench::markdown::machine_line;
use crate::table::MarkdownTable;

const METHOD: &str = "\
Both ends are on one machine, and the content is in memory. One thing is made slow, hakobu copies, and the verdict in its report
(`bottleneck.stage`) is compared with what was made slow. Nothing is set but source and target. Where a disk is slow, it is
unmounted before each run, so that nothing of it is in the page cache.
";

/// Returns the whole page.
pub fn page(results: &VerdictsResults) -> String {
    let mut page = "# What limits a run: is hakobu right?\n\n".to_owned();
    page.push_str("Made by `cargo xtask bench verdicts`; it writes all runs to `verdicts.json`.\n\n");
    if let Some(row) = results.rows.iter().max_by_key(|row| &row.machine.measured_at) {
        page.push_str(&machine_line(&row.machine, &row.hakobu));
    }
    page.push_str(&tables(results));
    page.push_str("\n## How it is measured\n\n");
    page.push_str(METHOD);
    page.push_str("\n| slow | how |\n|---|---|\n");
    for stage in &STAGES {
        page.push_str(&format!("| {} | {} |\n", stage.title, stage.how));
    }
    page
}

/// Returns a table for each kind of content.
pub fn tables(results: &VerdictsResults) -> String {
    let mut text = String::new();
    for (content, heading) in [("file", "One large file"), ("tree", "A tree of small files")] {
        let rows: Vec<_> = results.rows.iter().filter(|row| row.content == content).collect();
        if rows.is_empty() {
            continue;
        }
        let headings =
            ["slow", "the verdict should be", "right", "said otherwise", "content", "seconds", "when"];
        let mut table = MarkdownTable::new(headings);
        for row in &rows {
            table.push(cells(row));
        }
        let (right, all) = right_of_all(rows);
        text.push_str(&format!("\n## {heading}\n\n{table}\n"));
        text.push_str(&format!(
            "Right in {right} of {all}, {:.0} %.\n",
            100.0 * right as f64 / all.max(1) as f64
        ));
    }
    text
}

fn cells(row: &VerdictsRow) -> [String; 7] {
    let stage = STAGES.iter().find(|stage| stage.key == row.key);
    let content = stage.map(|stage| if row.content == "file" { stage.file } else { stage.tree });
    let otherwise: Vec<_> =
        row.otherwise().into_iter().map(|(said, count)| format!("{said} ({count})")).collect();
    [
        stage.map_or_else(|| row.key.clone(), |stage| stage.title.to_owned()),
        row.verdict.clone(),
        format!("{} of {}", row.right(), row.runs.len()),
        otherwise.join(", "),
        content.map(words).unwrap_or_default(),
        format!("{:.1}", row.seconds()),
        row.machine.measured_at.clone(),
    ]
}
