//! Renders the verdicts as a page.

use super::results::{Results, Row};
use super::stages::STAGES;
use crate::table::MarkdownTable;

const METHOD: &str = "\
Both ends are on one machine, and the content is in memory. One thing is made slow, hakobu copies, and the verdict in its report
(`bottleneck.stage`) is compared with what was made slow. Nothing is set but source and target. Where a disk is slow, it is
unmounted before each run, so that nothing of it is in the page cache.
";

/// Returns the whole page.
pub fn page(results: &Results) -> String {
    let mut page = "# What limits a run: is hakobu right?\n\n".to_owned();
    page.push_str("Made by `cargo xtask bench verdicts`; it writes all runs to `verdicts.json`.\n\n");
    page.push_str(&machine(&results.rows));
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
pub fn tables(results: &Results) -> String {
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
        let (right, all) =
            rows.iter().fold((0, 0), |(right, all), row| (right + row.right(), all + row.runs.len()));
        text.push_str(&format!("\n## {heading}\n\n{table}\n"));
        text.push_str(&format!(
            "Right in {right} of {all}, {:.0} %.\n",
            100.0 * right as f64 / all.max(1) as f64
        ));
    }
    text
}

fn cells(row: &Row) -> [String; 7] {
    let stage = STAGES.iter().find(|stage| stage.key == row.key);
    let content = stage.map(|stage| if row.content == "file" { stage.file } else { stage.tree });
    let otherwise: Vec<_> =
        row.otherwise().into_iter().map(|(said, count)| format!("{said} ({count})")).collect();
    [
        stage.map_or_else(|| row.key.clone(), |stage| stage.title.to_owned()),
        row.verdict.clone(),
        format!("{} of {}", row.right(), row.runs.len()),
        otherwise.join(", "),
        content.map(|content| content.words()).unwrap_or_default(),
        format!("{:.1}", row.seconds()),
        row.machine["measured_at"].as_str().unwrap_or_default().to_owned(),
    ]
}

/// Returns a line about the machine and the build of the latest row.
fn machine(rows: &[Row]) -> String {
    let when = |row: &&Row| row.machine["measured_at"].as_str().unwrap_or_default().to_owned();
    let Some(row) = rows.iter().max_by_key(when) else { return String::new() };
    let text = |key: &str| row.machine[key].as_str().unwrap_or("unknown");
    let gibibytes = row.machine["memory_bytes"].as_f64().unwrap_or(0.0) / f64::from(1 << 30);
    format!(
        "{}, {} cores, {gibibytes:.1} GiB of memory, Linux {}, TCP {}. {}, commit {}. Load when it began: {}.\n",
        text("cpu"),
        row.machine["cores"],
        text("kernel"),
        text("congestion_control"),
        row.hakobu,
        text("commit"),
        row.machine["load_at_start"],
    )
}
