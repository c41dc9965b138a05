//! Renders the results as a Markdown page.

use super::results::{FILE_WITHIN, ProbeBenchResults, ProbeRow, TREE_WITHIN, TimeComparison};
use crate::bench::markdown::machine_line;
use crate::table::MarkdownTable;

const METHOD: &str = "\
`hakobu probe SOURCE TARGET`, then `hakobu copy SOURCE TARGET` at once, with the same throttle in place; of a tree once more,
when nothing is to be done. Seconds are the wall clock of the whole copy, and the probe's are those that it says the whole copy
takes. A ratio is predicted over came, of each pair of runs; a row is judged by the ratio in its middle. All sources
and targets are in memory, disks and what is behind the file server too, so that nothing limits but what the row says. What
is on a disk or a server is forgotten by the kernel before each run (it is mounted anew).

Disks are loop devices with ext4, which the block layer holds to a rate; processors are held by a control group; lines and
round trips are emulated; windows are the maxima of `tcp_rmem` and `tcp_wmem` at both ends. The file server is sshd, mounted
with sshfs over a link of 1 Gbit/s and 5 ms, and has 5 000 files instead of 100 000: each costs several round trips, so
that they would last for minutes. The two ends share two cores, which the emulated link needs as well.
";

/// Returns the whole page.
pub fn page(results: &ProbeBenchResults) -> String {
    let mut page = "# hakobu probe: predicted, and came\n\n".to_owned();
    page.push_str("Made by `cargo xtask bench probe`; it writes all pairs to `probe.json`.\n\n");
    if results.quick {
        page.push_str("**A quick run, sizes divided by 8: to try the bench, not to judge by.**\n\n");
    }
    page.push_str(&machine_line(&results.machine, &results.hakobu));
    page.push('\n');
    page.push_str(&table(&results.rows));
    page.push_str("\n## How it is measured\n\n");
    page.push_str(METHOD);
    page
}

fn table(rows: &[ProbeRow]) -> String {
    let headings = [
        "what limits",
        "work",
        "predicted, s",
        "came, s",
        "ratios",
        "middle",
        "bound",
        "limit: predicted",
        "reported",
        "load",
        "verdict",
    ];
    let mut table = MarkdownTable::new(headings);
    let mut title = "";
    for row in rows {
        let shown = if row.title == title { String::new() } else { row.title.clone() };
        title = &row.title;
        let list =
            |of: &dyn Fn(&TimeComparison) -> String| row.pairs.iter().map(of).collect::<Vec<_>>().join(", ");
        let said = |of: &dyn Fn(&TimeComparison) -> String| {
            let mut all: Vec<String> = row.pairs.iter().map(of).collect();
            all.dedup();
            all.join(", ")
        };
        table.push(vec![
            shown,
            row.work.clone(),
            list(&|pair| format!("{:.2}", pair.predicted_seconds)),
            list(&|pair| format!("{:.2}", pair.came_seconds)),
            list(&|pair| format!("{:.2}", pair.ratio())),
            row.median().map_or_else(|| "–".to_owned(), |ratio| format!("{ratio:.2}")),
            format!("± {:.0} %", row.within * 100.0),
            said(&|pair| pair.predicted_limit.clone()),
            said(&|pair| pair.reported_limit.clone().unwrap_or_else(|| "–".to_owned())),
            list(&|pair| format!("{:.1}", pair.load)),
            verdict(row),
        ]);
    }
    let all = rows.iter().filter(|row| !row.pairs.is_empty()).count();
    let within = rows.iter().filter(|row| row.is_within()).count();
    format!(
        "{table}\n{within} of {all} rows are within their bound: {:.0} % for a file, {:.0} % for a tree.\n",
        FILE_WITHIN * 100.0,
        TREE_WITHIN * 100.0
    )
}

fn verdict(row: &ProbeRow) -> String {
    match (&row.failed, row.is_within()) {
        (Some(why), _) => format!("failed: {why}"),
        (None, true) => "within".to_owned(),
        (None, false) => "**off**".to_owned(),
    }
}

/// Describes a row that is too far off.
pub fn shortfall(row: &ProbeRow) -> String {
    let ratio = row.median().map_or_else(|| "not measured".to_owned(), |ratio| format!("{ratio:.2}"));
    format!("{}, {}: {ratio}", row.title, row.work)
}
