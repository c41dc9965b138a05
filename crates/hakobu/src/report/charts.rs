//! Charts for HTML: inline SVG with its own sizes and labels, without scripts.

use std::fmt::Write;

use hakobu_core::units::format_rate;

use super::html::escaped;
use super::page::{Chart, Series};
use crate::language::{Language, clamped};

/// The drawing's units, which the page scales to its width.
const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 220.0;
/// Where the axes are.
const LEFT: f64 = 84.0;
const RIGHT: f64 = WIDTH - 16.0;
const TOP: f64 = 12.0;
const BOTTOM: f64 = HEIGHT - 28.0;
/// As many colours the page has for series; further ones begin again.
const COLOURS: usize = 8;

/// A chart as a figure.
pub fn figure(chart: &Chart, language: Language) -> String {
    let mut figure = format!(
        "<figure>\n<figcaption>{title}</figcaption>\n<svg class=\"chart\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\">\n\
         <title>{title}</title>\n",
        title = escaped(&chart.title)
    );
    let axis = Axis { seconds: chart.seconds.max(f64::MIN_POSITIVE), interval: chart.interval_seconds };
    let labels = match &chart.series {
        Series::Rates(rates, labels) => {
            figure.push_str(&of_rates(&axis, rates));
            // A series that is zero throughout needs no color.
            let seen = [
                rates.iter().any(|(_, written)| *written > 0.0),
                rates.iter().any(|(all, written)| all > written),
            ];
            let labels = labels.iter().zip([1, 0]).zip(seen).filter(|(_, seen)| *seen);
            labels.map(|((label, colour), _)| (label.as_str(), colour)).collect()
        }
        Series::Shares(labels, samples) => {
            let colours: Vec<_> = labels.iter().map(|(_, colour)| colour % COLOURS).collect();
            figure.push_str(&of_shares(&axis, &colours, samples, language));
            labels.iter().zip(colours).map(|((label, _), colour)| (label.as_str(), colour)).collect()
        }
    };
    figure.push_str(&axis.times(language));
    figure.push_str("</svg>\n");
    figure.push_str(&legend(labels));
    figure.push_str("</figure>\n");
    figure
}

/// A bar of a share.
pub fn bar(share: f64, colour: usize) -> String {
    format!(
        "<svg class=\"bar\" viewBox=\"0 0 100 10\" preserveAspectRatio=\"none\" aria-hidden=\"true\">\
         <rect class=\"back\" width=\"100\" height=\"10\"/><rect class=\"c{}\" width=\"{:.1}\" height=\"10\"/></svg>",
        colour % COLOURS,
        clamped(share) * 100.0
    )
}

/// The axis of time.
struct Axis {
    seconds: f64,
    interval: f64,
}

impl Axis {
    fn x(&self, seconds: f64) -> f64 {
        LEFT + (RIGHT - LEFT) * (seconds / self.seconds).clamp(0.0, 1.0)
    }

    /// Where a sample begins and where it ends.
    fn ends(&self, index: usize) -> (f64, f64) {
        (self.x(index as f64 * self.interval), self.x((index + 1) as f64 * self.interval))
    }

    fn times(&self, language: Language) -> String {
        let mut times = String::new();
        for (part, anchor) in
            [(0.0, "start"), (0.25, "middle"), (0.5, "middle"), (0.75, "middle"), (1.0, "end")]
        {
            let (x, seconds) = (self.x(self.seconds * part), self.seconds * part);
            let label = if part == 0.0 { "0".to_owned() } else { language.seconds(seconds) };
            let y = HEIGHT - 8.0;
            let _ = writeln!(times, "<text x=\"{x:.1}\" y=\"{y}\" text-anchor=\"{anchor}\">{label}</text>");
        }
        times
    }
}

fn of_rates(axis: &Axis, rates: &[(f64, f64)]) -> String {
    let finite = |rate: f64| if rate.is_finite() { rate.max(0.0) } else { 0.0 };
    let most = rates.iter().map(|(all, _)| finite(*all)).fold(1.0, f64::max);
    let height = round_above(most);
    let mut drawing = grid(|part| format_rate(height * part));
    let y = |rate: f64| BOTTOM - (BOTTOM - TOP) * (finite(rate) / height).min(1.0);
    let of = |pick: fn(&(f64, f64)) -> f64| -> Vec<(f64, f64)> {
        rates.iter().map(|rate| (BOTTOM, y(pick(rate)))).collect()
    };
    // The written bytes are a part of all bytes, and are drawn in front.
    drawing.push_str(&area(axis, &of(|(all, _)| *all), 0));
    drawing.push_str(&area(axis, &of(|(_, written)| *written), 1));
    drawing
}

fn of_shares(axis: &Axis, colours: &[usize], samples: &[Vec<f64>], language: Language) -> String {
    let mut drawing = grid(|part| language.share(part));
    let mut floors = vec![0.0; samples.len()];
    for (series, colour) in colours.iter().enumerate() {
        let mut bands = Vec::with_capacity(samples.len());
        for (floor, sample) in floors.iter_mut().zip(samples) {
            let share = clamped(sample.get(series).copied().unwrap_or(0.0));
            let ceiling = clamped(*floor + share);
            bands.push((BOTTOM - (BOTTOM - TOP) * *floor, BOTTOM - (BOTTOM - TOP) * ceiling));
            *floor = ceiling;
        }
        drawing.push_str(&area(axis, &bands, *colour));
    }
    drawing
}

/// Steps: each sample is as high as it is, from its begin to its end.
fn area(axis: &Axis, bands: &[(f64, f64)], colour: usize) -> String {
    let (mut above, mut below) = (String::new(), String::new());
    for (index, (_, top)) in bands.iter().enumerate() {
        let (begin, end) = axis.ends(index);
        let command = if index == 0 { 'M' } else { 'L' };
        let _ = write!(above, "{command}{begin:.1} {top:.1}L{end:.1} {top:.1}");
    }
    for (index, (bottom, _)) in bands.iter().enumerate().rev() {
        let (begin, end) = axis.ends(index);
        let _ = write!(below, "L{end:.1} {bottom:.1}L{begin:.1} {bottom:.1}");
    }
    if bands.is_empty() {
        String::new()
    } else {
        format!("<path class=\"c{colour}\" d=\"{above}{below}Z\"/>\n")
    }
}

/// Draws horizontal lines, each with its value.
fn grid(label: impl Fn(f64) -> String) -> String {
    let mut lines = String::new();
    for part in [0.0, 0.25, 0.5, 0.75, 1.0] {
        let y = BOTTOM - (BOTTOM - TOP) * part;
        let (x, label) = (LEFT - 6.0, label(part));
        let _ = writeln!(
            lines,
            "<line x1=\"{LEFT}\" x2=\"{RIGHT}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>\
             <text x=\"{x}\" y=\"{:.1}\" text-anchor=\"end\">{label}</text>",
            y + 4.0
        );
    }
    lines
}

fn legend(labels: Vec<(&str, usize)>) -> String {
    let mut legend = "<ul class=\"legend\">".to_owned();
    for (label, colour) in labels {
        let _ = write!(
            legend,
            "<li><svg viewBox=\"0 0 10 10\" aria-hidden=\"true\">\
             <rect class=\"c{colour}\" width=\"10\" height=\"10\"/></svg>{}</li>",
            escaped(label)
        );
    }
    legend.push_str("</ul>\n");
    legend
}

/// The next number up whose quarters are easy to read: 1, 2, 4 or 8 and zeros.
fn round_above(most: f64) -> f64 {
    let unit = 10_f64.powf(most.log10().floor());
    [1.0, 2.0, 4.0, 8.0].into_iter().map(|step| step * unit).find(|step| *step >= most).unwrap_or(unit * 10.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_end_at_round_numbers() {
        for (most, end) in [(1.0, 1.0), (3.1e6, 4e6), (8.1e6, 1e7), (2e9, 2e9), (999.0, 1000.0)] {
            assert_eq!(round_above(most), end, "{most}");
        }
    }

    #[test]
    fn figures_that_make_no_sense_stay_within_the_picture() {
        let rates = vec![(f64::INFINITY, -5.0), (f64::NAN, 1e300), (1e300, f64::NAN)];
        for (seconds, interval_seconds) in [(0.0, 0.0), (1e300, 1e-9), (3.0, 1.0)] {
            let labels = ["a", "b<"].map(str::to_owned);
            let series = Series::Rates(rates.clone(), labels);
            let drawn =
                figure(&Chart { title: "t&".into(), seconds, interval_seconds, series }, Language::Ja);
            assert!(!drawn.contains("NaN") && !drawn.contains("inf"), "{drawn}");
            assert!(drawn.contains("b&lt;") && drawn.contains("t&amp;"), "{drawn}");
        }
        let shares =
            Series::Shares(vec![("a".into(), 0), ("b".into(), 9)], vec![vec![9.0, f64::NAN], vec![]]);
        for share in [f64::NAN, f64::INFINITY, -1.0, 1e308, 0.0] {
            let drawn = bar(share, 99);
            assert!(!drawn.contains("NaN") && !drawn.contains("inf") && drawn.contains("\"c3\""), "{drawn}");
        }
        let chart = Chart { title: String::new(), seconds: 2.0, interval_seconds: 1.0, series: shares };
        assert!(!figure(&chart, Language::En).contains("NaN"));
    }
}
