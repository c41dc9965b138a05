//! Renders the results as a Markdown page.

use super::results::{FleetBenchResults, figure};
use crate::bench::markdown::machine_line;
use crate::table::MarkdownTable;

const METHOD: &str = "\
Everything is on one machine: nats-server, `hakobu serve --no-broker`, and each `hakobu broker` are processes of their own, and all
data is in memory.

**More brokers.** Each broker sees the source through a file system on which each operation takes some time, and has its own, as
hosts have their own connections to a file server. The number of connections of a broker is so small that the two cores are not
busy; the share that was is in the row. The time is that of the run, from its start to its end as the control plane has it. The
factor is the rate with so many brokers over that with one in the same round; rounds take turns.

**Beside `hakobu copy`.** The same tree without any delay, by `hakobu serve` with its built-in broker, and by `hakobu copy`, in
turns. The figure is the time of the copy over that of the run.

**Hard links.** Each file has two names, in directories that different brokers copy. What is linked with what is read from the file
system at both ends. Memory is the largest that a process had so far, with all files and with a tenth of them.

**Units.** Brokers without a mover lease units over NATS and commit each with one more, at a steady rate. Processor time and memory
are those of the process `hakobu serve`. Bytes are those that a backup grew by, over the units that were committed.

**Calls.** Eight clients read lists, pages and single relationships, 200 times a second in all, from a control plane with
relationships of which each was made by a call. A time begins when the call was due.
";

/// Returns the whole page.
pub(super) fn page(results: &FleetBenchResults) -> String {
    let mut page = "# A fleet\n\n".to_owned();
    page.push_str("Made by `cargo xtask bench fleet`; it writes all values to `fleet.json`.\n\n");
    if results.quick {
        page.push_str("**A quick run, sizes divided by 20: to try the bench, not to judge by.**\n\n");
    }
    page.push_str(&machine_line(&results.machine, &results.hakobu));
    page.push('\n');
    let mut table = MarkdownTable::new(["what", "median", "must be", "values", "notes", "verdict"]);
    for row in &results.rows {
        let values: Vec<String> = row.values.iter().map(|value| figure(*value, "")).collect();
        let verdict = if row.is_met() { "met" } else { "**not met**" };
        let cells = [
            row.title.clone(),
            row.shown(),
            row.bound(),
            values.join(", "),
            row.notes.clone(),
            verdict.to_owned(),
        ];
        table.push(cells);
    }
    page.push_str(&format!("{table}\n## How it is measured\n\n{METHOD}"));
    page
}
