//! Charts of bars as SVG, and that of the rows: each value relative to its aim.

use std::fmt::Write;

use super::judge::{GoalResult, GoalVerdict};
use super::results::TableResults;

const WIDTH: f64 = 900.0;
const BARS_FROM: f64 = 400.0;
const BARS_TO: f64 = 800.0;
const TOP: f64 = 56.0;
const LINE: f64 = 24.0;
/// The position of the aim as a share of the bars' width. Longer bars are cut off at the end.
const AIM_AT: f64 = 0.7;
const LABEL_CHARACTERS_MAX: usize = 34;
const GOOD: &str = "#2e8b57";
const FAIR: &str = "#4682b4";
const BAD: &str = "#c0504d";

/// A chart of horizontal bars. Positions are shares of the longest bar, from 0 to 1.
#[derive(Debug)]
pub struct BarChart {
    pub title: String,
    /// The explanation of lines and ticks.
    pub key: String,
    pub bars: Vec<ChartBar>,
    /// The positions of dashed lines over all bars.
    pub lines: Vec<f64>,
}

/// A bar with its label.
#[derive(Debug)]
pub struct ChartBar {
    pub label: String,
    /// The length and the text at the end, or `None` if there is no figure.
    pub value: Option<(f64, String)>,
    pub colour: &'static str,
    /// The position of a tick.
    pub tick: Option<f64>,
}

impl BarChart {
    /// Returns the chart as an SVG document.
    pub fn document(&self) -> String {
        let height = TOP + self.bars.len() as f64 * LINE + 16.0;
        let x_of = |share: f64| BARS_FROM + share * (BARS_TO - BARS_FROM);
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" \
             viewBox=\"0 0 {WIDTH} {height}\" font-family=\"sans-serif\" font-size=\"13\">\n\
             <rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n\
             <text x=\"12\" y=\"22\" font-size=\"16\" fill=\"#222222\">{}</text>\n\
             <text x=\"12\" y=\"42\" fill=\"#666666\">{}</text>\n",
            escaped(&self.title),
            escaped(&self.key)
        );
        for (index, bar) in self.bars.iter().enumerate() {
            let y = TOP + index as f64 * LINE;
            let (label_x, text_y, rect_y) = (BARS_FROM - 8.0, y + 16.0, y + 4.0);
            let label = escaped(&bar.label);
            let _ = writeln!(
                svg,
                "<text x=\"{label_x}\" y=\"{text_y}\" text-anchor=\"end\" fill=\"#222222\">{label}</text>"
            );
            let Some((share, text)) = &bar.value else {
                let _ =
                    writeln!(svg, "<text x=\"{BARS_FROM}\" y=\"{text_y}\" fill=\"#999999\">no figure</text>");
                continue;
            };
            let (width, colour, text_x) = (x_of(*share) - BARS_FROM, bar.colour, BARS_TO + 8.0);
            let _ = writeln!(
                svg,
                "<rect x=\"{BARS_FROM}\" y=\"{rect_y}\" width=\"{width:.1}\" height=\"16\" fill=\"{colour}\"/>\n\
                 <text x=\"{text_x}\" y=\"{text_y}\" fill=\"#222222\">{text}</text>"
            );
            if let Some(tick) = bar.tick {
                line(&mut svg, x_of(tick), (y + 2.0, y + 22.0), "stroke-width=\"2\"");
            }
        }
        for share in &self.lines {
            line(&mut svg, x_of(*share), (TOP, height - 12.0), "stroke-dasharray=\"4 3\"");
        }
        svg + "</svg>\n"
    }
}

fn line(svg: &mut String, x: f64, (from, to): (f64, f64), style: &str) {
    let _ = writeln!(
        svg,
        "<line x1=\"{x:.1}\" y1=\"{from}\" x2=\"{x:.1}\" y2=\"{to}\" stroke=\"#222222\" {style}/>"
    );
}

/// Returns the colour of a bar that reaches the aim, only the requirement, or neither.
pub fn colour(reaches_aim: bool, is_enough: bool) -> &'static str {
    match (reaches_aim, is_enough) {
        (true, _) => GOOD,
        (false, true) => FAIR,
        (false, false) => BAD,
    }
}

/// Returns a chart of each judged value relative to its aim.
pub fn of_results(results: &TableResults) -> String {
    let goals = results.rows.iter().flat_map(|row| row.goals.iter().map(move |goal| (row.key, goal)));
    let bars = goals.filter(|(_, goal)| goal.aim.is_some()).map(|(key, goal)| ChartBar {
        label: label(key, goal),
        value: goal.value.map(|value| {
            (share(goal, value), format!("{}{}", goal.judged.number(value), goal.judged.unit()))
        }),
        colour: colour(goal.verdict == GoalVerdict::Aim, goal.verdict == GoalVerdict::Enough),
        tick: goal.at_least.map(|at_least| share(goal, at_least)),
    });
    let chart = BarChart {
        title: format!("{}: what is reached, relative to the aim", results.table.heading),
        key: "line: the aim · tick: at least · numbers: times the peer, seconds, MiB".to_owned(),
        bars: bars.collect(),
        lines: vec![AIM_AT],
    };
    chart.document()
}

fn label(key: &str, goal: &GoalResult) -> String {
    let against = goal.peer.as_deref().map(|peer| format!(" : {peer}")).unwrap_or_default();
    let label = format!("{key}{against}");
    if label.chars().count() <= LABEL_CHARACTERS_MAX {
        return label;
    }
    label.chars().take(LABEL_CHARACTERS_MAX - 1).chain(['…']).collect()
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
    use super::super::goal_quantity::GoalQuantity;
    use super::*;
    use crate::table::Unit;

    fn goal(judged: GoalQuantity) -> GoalResult {
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
            verdict: GoalVerdict::Aim,
            reason: None,
        }
    }

    #[test]
    fn a_bar_at_its_aim_ends_at_the_line() {
        assert_eq!(share(&goal(GoalQuantity::TimesFaster), 3.0), AIM_AT);
        assert_eq!(share(&goal(GoalQuantity::Seconds), 3.0), AIM_AT);
        assert!(share(&goal(GoalQuantity::Seconds), 6.0) < AIM_AT);
        assert!(share(&goal(GoalQuantity::TimesFaster), 1.5) < AIM_AT);
        assert_eq!(share(&goal(GoalQuantity::TimesFaster), 300.0), 1.0);
    }

    #[test]
    fn names_cannot_break_the_document() {
        let bar = ChartBar {
            label: label("key", &goal(GoalQuantity::Seconds)),
            value: None,
            colour: colour(false, true),
            tick: None,
        };
        let chart = BarChart { title: String::new(), key: String::new(), bars: vec![bar], lines: vec![] };
        let svg = chart.document();
        assert!(svg.contains("key : a &lt;b&gt; &amp; c"), "{svg}");
    }
}
