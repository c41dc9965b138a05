//! Renders the results as a Markdown page.

use hakobu_measure::statistics::median;

use super::goal_quantity::GoalQuantity;
use super::judge::{GoalResult, GoalVerdict};
use super::machine::Machine;
use super::peers::Presence;
use super::results::{GroupResult, MethodResult, TableResults};
use crate::table::{MarkdownTable, format_figure};

/// Returns the whole page.
pub fn page(results: &TableResults) -> String {
    let (heading, key) = (results.table.heading, results.table.key);
    let mut page = format!("# {heading}\n\n");
    page.push_str(&format!("Made by `cargo xtask bench {key}`; it writes all rounds to `{key}.json`.\n\n"));
    if results.quick {
        page.push_str("**A quick run, sizes divided by 8: to try the bench, not to judge by.**\n\n");
    }
    page.push_str(&machine_line(&results.machine, &results.hakobu));
    page.push_str(&format!("\n![chart]({key}.svg)\n\n"));
    page.push_str(&table(results));
    page.push_str("\n## How it is measured\n\n");
    page.push_str(results.table.method);
    page.push_str("\n## Figures\n");
    for group in &results.groups {
        page.push_str(&figures(group));
    }
    page.push_str("\n## Tools\n\n");
    for (name, presence) in results.tools.iter() {
        match presence {
            Presence::Version(version) => page.push_str(&format!("- {name}: {version}\n")),
            Presence::Absent(why) => page.push_str(&format!("- {name}: absent ({why})\n")),
        }
    }
    page
}

/// Returns a line about the machine and the build.
pub fn machine_line(machine: &Machine, hakobu: &str) -> String {
    format!(
        "{}, {} cores, {:.1} GiB of memory, Linux {}, TCP {}. {}, {}, commit {}. Load when it began: {:.2}.\n",
        machine.cpu,
        machine.cores,
        machine.memory_bytes as f64 / f64::from(1 << 30),
        machine.kernel,
        machine.congestion_control,
        machine.measured_at,
        hakobu,
        machine.commit.as_deref().unwrap_or("unknown"),
        machine.load_at_start,
    )
}

/// Returns the table of rows and verdicts.
pub fn table(results: &TableResults) -> String {
    let headings = ["work", "against", "hakobu", "the other", "ratio", "at least", "aim", "verdict"];
    let mut table = MarkdownTable::new(headings);
    for row in &results.rows {
        for (index, goal) in row.goals.iter().enumerate() {
            let title = if index == 0 { row.title.clone() } else { String::new() };
            let mut cells = vec![title];
            cells.extend(cells_of(goal));
            table.push(cells);
        }
    }
    let mut text = table.to_string();
    if results.rows.iter().any(|row| row.goals.iter().any(|goal| goal.judged == GoalQuantity::Bytes)) {
        text.push_str("\nMemory: hakobu is the near process, the other the far one; the larger counts.\n");
    }
    text
}

fn cells_of(goal: &GoalResult) -> Vec<String> {
    let against = goal.peer.clone().unwrap_or_default();
    let figure =
        |value: Option<f64>| value.map_or_else(|| "–".to_owned(), |value| format_figure(value, goal.unit));
    let mark = |value: Option<f64>| value.map_or_else(String::new, |value| goal.judged.mark(value));
    let number = |value: f64| goal.judged.number(value);
    // The heading already says that it is a ratio.
    let unit = goal.judged.unit().trim_start_matches('×');
    let ratio = match (goal.value, goal.min, goal.max) {
        (Some(value), Some(min), Some(max)) => {
            format!("{}{unit} ({}–{})", number(value), number(min), number(max))
        }
        (Some(value), ..) => format!("{}{unit}", number(value)),
        (None, ..) => "–".to_owned(),
    };
    let verdict = match (goal.verdict, &goal.reason) {
        (GoalVerdict::Failed, Some(why)) => format!("{}: {why}", goal.verdict.word()),
        (verdict, _) => verdict.word().to_owned(),
    };
    let theirs = if goal.peer.is_none() { String::new() } else { figure(goal.theirs) };
    vec![against, figure(goal.ours), theirs, ratio, mark(goal.at_least), mark(goal.aim), verdict]
}

fn figures(group: &GroupResult) -> String {
    let headings = ["method", "seconds (least–most)", "baseline", "figure", "command"];
    let mut table = MarkdownTable::new(headings);
    for method in &group.methods {
        let mut cells = vec![method.name.to_owned()];
        if let (Some(net), Some(baseline), Some(figure)) =
            (median(&method.net_seconds), median(&method.baseline_seconds), median(&method.figures))
        {
            let min = method.net_seconds.iter().copied().fold(f64::INFINITY, f64::min);
            let max = method.net_seconds.iter().copied().fold(0.0, f64::max);
            cells.push(format!("{net:.3} ({min:.3}–{max:.3})"));
            cells.push(format!("{baseline:.3}"));
            cells.push(format_figure(figure, method.unit));
        } else {
            let why = method.absent.as_ref().map(|_| "absent").unwrap_or("failed");
            cells.extend([why, "", ""].map(str::to_owned));
        }
        let far =
            method.far_command.as_ref().map(|far| format!("; at the far end `{far}`")).unwrap_or_default();
        cells.push(format!("`{}`{far}", method.command));
        table.push(cells);
    }
    let late =
        group.link_late_most_ms.map(|ms| format!(" The link was at most {ms} ms late.")).unwrap_or_default();
    format!(
        "\n### {}\n\n{}; {}; load {:.2} when it began.{late}\n\n{table}{}",
        group.name,
        group.source,
        group.topology,
        group.load_before,
        group.methods.iter().map(remarks).collect::<String>()
    )
}

/// Returns remarks on what distinguishes a method from others of its group.
fn remarks(method: &MethodResult) -> String {
    let mut text = String::new();
    if let Some(source) = &method.source {
        text.push_str(&format!("\n{}: from {source}.\n", method.name));
    }
    if !method.tried.is_empty() {
        let tried = method.tried.iter().map(|tried| format!("`{}` {:.2} s", tried.settings, tried.seconds));
        let tried: Vec<String> = tried.collect();
        text.push_str(&format!("\n{}, tried once on an eighth: {}.\n", method.name, tried.join(", ")));
    }
    text
}
