//! Small plots over the last two hours, drawn as SVG by the server. A service that began later shows
//! the time since then.
//!
//! Time runs to the right and ends now; the scale begins at zero and ends at the greatest value, so
//! a plot is read with the one figure that stands beside it. Beyond its width in points samples are
//! folded to their greatest, because a peak is what one looks for.

use std::fmt::Write as _;
use std::time::Duration;

use maud::{Markup, html};

use super::SAMPLE_EVERY;
use super::parts::span;
use super::samples::Sample;
use crate::base::clock::Timestamp;

/// The longest span that a plot shows, and the shortest.
const SPAN: Duration = Duration::from_hours(2);
const LEAST_SPAN: Duration = Duration::from_mins(5);
const WIDTH: f64 = 240.0;
const HEIGHT: f64 = 48.0;
/// Points across a plot.
const POINTS: usize = 120;

/// A value at a time.
type Point = (Timestamp, f64);

/// A plot with its name and its last value.
pub(super) struct Plot {
    pub(super) name: &'static str,
    pub(super) unit: &'static str,
    points: Vec<Point>,
}

impl Plot {
    /// Of a figure as it stood.
    pub(super) fn level(
        name: &'static str,
        unit: &'static str,
        samples: &[Sample],
        of: impl Fn(&Sample) -> u64,
    ) -> Self {
        let points = samples.iter().map(|s| (s.at, float(of(s)))).collect();
        Self { name, unit, points }
    }

    /// Of how fast a count grew, a minute. The count may begin anew.
    pub(super) fn rate(
        name: &'static str,
        unit: &'static str,
        samples: &[Sample],
        of: impl Fn(&Sample) -> u64,
    ) -> Self {
        let points = samples.iter().zip(samples.iter().skip(1)).map(|(a, b)| {
            let minutes = b.at.since(a.at).max(Duration::from_secs(1)).as_secs_f64() / 60.0;
            (b.at, float(of(b).saturating_sub(of(a))) / minutes)
        });
        Self {
            name,
            unit,
            points: points.collect(),
        }
    }

    /// The last value.
    pub(super) fn last(&self) -> f64 {
        self.points.last().map_or(0.0, |(_, value)| *value)
    }

    pub(super) fn draw(&self, now: Timestamp) -> Markup {
        let first = self.points.first().map_or(now, |(at, _)| *at);
        let shown = now.since(first).clamp(LEAST_SPAN, SPAN);
        let points = folded(&self.points, now, shown);
        let top = points.iter().map(|(_, v)| *v).fold(0.0, f64::max);
        let (line, area) = paths(&points, if top > 0.0 { top } else { 1.0 }, shown);
        let begin = span(shown);
        let (last, top) = (figure(self.last()), figure(top));
        let label = format!("{}: {last} now, at most {top} in {begin}", self.name);
        html! {
            figure.plot {
                figcaption {
                    span.name { (self.name) }
                    span.value { (last) " " small { (self.unit) } }
                }
                svg viewBox={ "0 0 " (WIDTH) " " (HEIGHT) } preserveAspectRatio="none" role="img" aria-label=(label) {
                    path.grid d={ "M0 " (HEIGHT - 0.5) "H" (WIDTH) } {}
                    @if !line.is_empty() {
                        path.area d=(area) {}
                        path.line d=(line) {}
                    }
                }
                p.axis { span { (begin) " ago" } span { "at most " (top) } span { "now" } }
            }
        }
    }
}

/// A figure without needless digits.
pub(super) fn figure(value: f64) -> String {
    if value >= 10.0 || value.fract() == 0.0 {
        format!("{value:.0}")
    } else {
        format!("{value:.1}")
    }
}

#[expect(
    clippy::cast_precision_loss,
    reason = "a plot of 48 points' height cannot show what is lost beyond 2^53"
)]
fn float(n: u64) -> f64 {
    n as f64
}

/// Points by their place, 0 to 1, at most one for each column.
fn folded(points: &[Point], now: Timestamp, shown: Duration) -> Vec<(f64, f64)> {
    let begin = now.before(shown);
    let mut columns: Vec<Option<f64>> = vec![None; POINTS + 1];
    let step = (shown.as_millis() / POINTS as u128).max(1);
    for (at, value) in points.iter().filter(|(at, _)| *at >= begin) {
        let column = usize::try_from(at.since(begin).as_millis() / step).unwrap_or(POINTS);
        if let Some(held) = columns.get_mut(column.min(POINTS)) {
            *held = Some(held.map_or(*value, |before| before.max(*value)));
        }
    }
    let place = |n: usize| float(n as u64) / float(POINTS as u64);
    let columns = columns.into_iter().enumerate();
    columns
        .filter_map(|(n, value)| Some((place(n), value?)))
        .collect()
}

/// The line, and the area below it. A time without samples breaks both.
fn paths(points: &[(f64, f64)], top: f64, shown: Duration) -> (String, String) {
    let gap = 3.0 * SAMPLE_EVERY.max(shown / 120).as_secs_f64() / shown.as_secs_f64();
    let (mut line, mut area) = (String::new(), String::new());
    let mut before: Option<f64> = None;
    for (x, value) in points {
        let y = (HEIGHT - 1.0) - value / top * (HEIGHT - 4.0);
        let px = x * WIDTH;
        match before {
            Some(last) if x - last <= gap => {
                _ = write!(line, "L{px:.1} {y:.1}");
                _ = write!(area, "L{px:.1} {y:.1}");
            }
            _ => {
                if let Some(last) = before {
                    _ = write!(area, "L{:.1} {HEIGHT}Z", last * WIDTH);
                }
                _ = write!(line, "M{px:.1} {y:.1}h0.1");
                _ = write!(area, "M{px:.1} {HEIGHT}L{px:.1} {y:.1}");
            }
        }
        before = Some(*x);
    }
    if let Some(last) = before {
        _ = write!(area, "L{:.1} {HEIGHT}Z", last * WIDTH);
    }
    (line, area)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(second: i64, deliveries: u64, queue: u64) -> Sample {
        Sample {
            at: Timestamp::from_millis(second * 1000),
            deliveries,
            queue,
            open: 0,
            effects: 0,
        }
    }

    #[test]
    fn a_rate_is_told_by_the_minute() {
        let samples = [sample(0, 5, 0), sample(10, 25, 0), sample(20, 3, 0)];
        let plot = Plot::rate("r", "a minute", &samples, |s| s.deliveries);
        let values: Vec<f64> = plot.points.iter().map(|(_, v)| *v).collect();
        assert_eq!(
            values.iter().map(|v| figure(*v)).collect::<Vec<_>>(),
            ["120", "0"]
        );
    }

    #[test]
    fn a_peak_is_seen_and_a_gap_breaks_the_line() {
        let now = Timestamp::from_millis(7_200_000);
        let mut samples: Vec<Sample> = (0..360).map(|n| sample(n * 10, 0, 1)).collect();
        samples[100].queue = 50;
        samples.extend((540..720).map(|n| sample(n * 10, 0, 2)));
        let plot = Plot::level("q", "items", &samples, |s| s.queue);
        let points = folded(&plot.points, now, SPAN);
        assert!(points.len() <= POINTS + 1);
        assert!(points.iter().any(|(_, v)| figure(*v) == "50"));
        let (line, area) = paths(&points, 50.0, SPAN);
        assert_eq!(line.matches('M').count(), 2, "{line}");
        assert_eq!(area.matches('Z').count(), 2, "{area}");
        let drawn = plot.draw(now).into_string();
        assert!(drawn.contains("q: 2 now, at most 50 in 2 h"), "{drawn}");
    }

    #[test]
    fn nothing_yet_is_a_plot_without_a_line() {
        let plot = Plot::level("q", "items", &[], |s| s.queue);
        let drawn = plot.draw(Timestamp::from_millis(0)).into_string();
        assert!(!drawn.contains("path class=\"line\""), "{drawn}");
    }
}
