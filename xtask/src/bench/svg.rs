//! Renders the rows as a bar chart of each value relative to its aim.

use std::fmt::Write;

use super::judge::{GoalResult, Verdict};
use super::results::Results;

const WIDTH: f64 = 900.0;
const BARS_FROM: f64 = 400.0;
const BARS_TO: f64 = 800.0;
/// The position of the aim as a share of the bars' width. Longer bars are cut off at the end.
const AIM_AT: f64 = 0.7;
const LINE: f64 = 24.0;
const TOP: f64 = 56.0;
const WORK_MOST_CHARACTERS: usize = 34;

/// Returns the chart as an SVG document.
pub fn chart(results: &Results) -> String {
    let bars: Vec<(String, &GoalResult)> = results
        .rows
        .iter()
        .flat_map(|row| row.goals.iter().map(move |goal| (label(row.key, goal), goal)))
        .filter(|(_, goal)| goal.aim.is_some())
        .collect();
    let height = TOP + bars.len() as f64 * LINE + 16.0;
    let aim_x = BARS_FROM + AIM_AT * (BARS_TO - BARS_FROM);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" \
         viewBox=\"0 0 {WIDTH} {height}\" font-family=\"sans-serif\" font-size=\"13\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n\
         <text x=\"12\" y=\"22\" font-size=\"16\" fill=\"#222222\">{}: what is reached, relative to the aim</text>\n\
         <text x=\"12\" y=\"42\" fill=\"#666666\">line: the aim · tick: at least · numbers: times the peer, seconds, MiB</text>\n",
        escaped(results.table.heading)
    );
    for (index, (label, goal)) in bars.iter().enumerate() {
        bar(&mut svg, TOP + index as f64 * LINE, label, goal);
    }
    let bottom = height - 12.0;
    let _ = writeln!(
        svg,
        "<line x1=\"{aim_x}\" y1=\"{TOP}\" x2=\"{aim_x}\" y2=\"{bottom}\" stroke=\"#222222\" stroke-dasharray=\"4 3\"/>"
    );
    svg.push_str("</svg>\n");
    svg
}

fn label(key: &str, goal: &GoalResult) -> String {
    let against = goal.peer.as_deref().map(|peer| format!(" : {peer}")).unwrap_or_default();
    let label = format!("{key}{against}");
    if label.chars().count() <= WORK_MOST_CHARACTERS {
        return label;
    }
    label.chars().take(WORK_MOST_CHARACTERS - 1).chain(['…']).collect()
}

fn bar(svg: &mut String, y: f64, label: &str, goal: &GoalResult) {
    let (middle, text_y) = (BARS_FROM - 8.0, y + 16.0);
    let _ = writeln!(
        svg,
        "<text x=\"{middle}\" y=\"{text_y}\" text-anchor=\"end\" fill=\"#222222\">{}</text>",
        escaped(label)
    );
    let Some(value) = goal.value else {
        let _ = writeln!(svg, "<text x=\"{BARS_FROM}\" y=\"{text_y}\" fill=\"#999999\">no figure</text>");
        return;
    };
    let width = share(goal, value) * (BARS_TO - BARS_FROM);
    let colour = match goal.verdict {
        Verdict::Aim => "#2e8b57",
        Verdict::Enough => "#4682b4",
        _ => "#c0504d",
    };
    let _ = writeln!(
        svg,
        "<rect x=\"{BARS_FROM}\" y=\"{}\" width=\"{width:.1}\" height=\"16\" fill=\"{colour}\"/>",
        y + 4.0
    );
    if let Some(at_least) = goal.at_least {
        let x = BARS_FROM + share(goal, at_least) * (BARS_TO - BARS_FROM);
        let (from, to) = (y + 2.0, y + 22.0);
        let _ = writeln!(
            svg,
            "<line x1=\"{x:.1}\" y1=\"{from}\" x2=\"{x:.1}\" y2=\"{to}\" stroke=\"#222222\" stroke-width=\"2\"/>"
        );
    }
    let text = format!("{}{}", goal.judged.number(value), goal.judged.unit());
    let x = BARS_TO + 8.0;
    let _ = writeln!(svg, "<text x=\"{x}\" y=\"{text_y}\" fill=\"#222222\">{text}</text>");
}

/// Returns the length of a bar, from 0 to 1. Longer is better, even if a small value is better.
fn share(goal: &GoalResult, value: f64) -> f64 {
    let Some(aim) = goal.aim else { return 0.0 };
    let reached = match goal.judged.more_is_better() {
        true => value / aim,
        false => aim / value.max(f64::MIN_POSITIVE),
    };
    (reached * AIM_AT).clamp(0.0, 1.0)
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::super::judged::Judged;
    use super::*;
    use crate::table::Unit;

    fn goal(judged: Judged) -> GoalResult {
        GoalResult {
            peer: Some("a <b> & c".to_owned()),
            unit: Unit::Bytes,
            ours: None,
            theirs: None,
            judged,
            value: Some(3.0),
            min: None,
            max: None,
            at_least: Some(2.0),
            aim: Some(3.0),
            verdict: Verdict::Aim,
            reason: None,
        }
    }

    #[test]
    fn a_bar_at_its_aim_ends_at_the_line() {
        assert_eq!(share(&goal(Judged::TimesFaster), 3.0), AIM_AT);
        assert_eq!(share(&goal(Judged::Seconds), 3.0), AIM_AT);
        assert!(share(&goal(Judged::Seconds), 6.0) < AIM_AT);
        assert!(share(&goal(Judged::TimesFaster), 1.5) < AIM_AT);
        assert_eq!(share(&goal(Judged::TimesFaster), 300.0), 1.0);
    }

    #[test]
    fn names_cannot_break_the_document() {
        let mut svg = String::new();
        let goal = goal(Judged::Seconds);
        bar(&mut svg, 0.0, &label("key", &goal), &goal);
        assert!(svg.contains("key : a &lt;b&gt; &amp; c"), "{svg}");
    }
}
