//! The timeline of one operation as a drawing: a lane for each who acts, a thread through what
//! happened.
//!
//! A job takes hours and its end is told within a second, so a true scale would show two points.
//! Each gap is as wide as the logarithm of its length: long ones are long, short ones are seen, and
//! the true times are written below. The same moments stand beside it as a list, so nothing is in
//! the drawing alone.
//!
//! An element without content is closed all the same (`{}`): in SVG an open one takes the rest in.

use std::fmt::Write as _;

use maud::{Markup, html};

use super::parts::span;
use super::timeline::{Lane, Moment};
use crate::base::clock::Timestamp;

const WIDTH: f64 = 760.0;
const LEFT: f64 = 76.0;
const RIGHT: f64 = 34.0;
const TOP: f64 = 18.0;
const LANE: f64 = 30.0;
/// Least room of a label on the axis.
const LABEL: f64 = 74.0;
/// Most moments drawn; the list has all.
const MOST: usize = 60;

struct Dot<'m> {
    x: f64,
    y: f64,
    moment: &'m Moment,
}

/// The drawing. Nothing for fewer than two moments.
pub(super) fn draw(moments: &[Moment]) -> Markup {
    let drawn = moments
        .get(moments.len().saturating_sub(MOST)..)
        .unwrap_or_default();
    if drawn.len() < 2 {
        return html! {};
    }
    let xs = places(drawn);
    let dots: Vec<Dot<'_>> = drawn
        .iter()
        .zip(xs)
        .map(|(moment, x)| Dot {
            x,
            y: y_of(moment.lane),
            moment,
        })
        .collect();
    let height = TOP + LANE * 4.0 + 22.0;
    let axis = TOP + LANE * 4.0 - 4.0;
    let (past, ahead) = threads(&dots);
    let begin = drawn.first().map(|m| m.at).unwrap_or_default();
    html! {
        div.scroll tabindex="0" role="group" aria-label="Timeline, as a drawing; the list below says the same" {
            svg.timeline viewBox={ "0 0 " (WIDTH) " " (height) } aria-hidden="true" {
                @for lane in Lane::ALL {
                    text.lane x="0" y=(y_of(lane) + 4.0) { (lane.name()) }
                    path.rail d={ "M" (LEFT - 14.0) " " (y_of(lane)) "H" (WIDTH - RIGHT + 14.0) } {}
                }
                path.thread d=(past) {}
                path.thread.ahead d=(ahead) {}
                @for dot in &dots {
                    @let kind = if dot.moment.ahead { "ahead" } else { dot.moment.tone.class() };
                    circle class={ "dot " (kind) } cx=(round(dot.x)) cy=(dot.y) r="6" {
                        title { (dot.moment.what) }
                    }
                }
                @for (x, text) in labels(&dots, begin) {
                    path.tick d={ "M" (round(x)) " " (axis) "v5" } {}
                    text.when x=(round(x)) y=(axis + 17.0) { (text) }
                }
            }
        }
    }
}

fn y_of(lane: Lane) -> f64 {
    let n = match lane {
        Lane::Webhook => 0.0,
        Lane::Look => 1.0,
        Lane::Ledger => 2.0,
        Lane::Effect => 3.0,
    };
    TOP + n * LANE
}

fn round(x: f64) -> f64 {
    (x * 10.0).round() / 10.0
}

/// Where each moment stands from left to right.
fn places(moments: &[Moment]) -> Vec<f64> {
    let mut sum = 0.0;
    let mut sums = Vec::with_capacity(moments.len());
    let mut before: Option<&Moment> = None;
    for moment in moments {
        if let Some(before) = before {
            let gap = moment.at.since(before.at).as_secs_f64();
            // At one instant in two lanes: one above the other, so that it is seen as one.
            let apart = if before.lane == moment.lane {
                0.35
            } else {
                0.0
            };
            sum += (gap * 4.0).ln_1p().max(apart);
        }
        sums.push(sum);
        before = Some(moment);
    }
    let scale = (WIDTH - LEFT - RIGHT) / if sum > 0.0 { sum } else { 1.0 };
    sums.into_iter().map(|s| LEFT + s * scale).collect()
}

/// The thread through what was, and on to what is ahead.
fn threads(dots: &[Dot<'_>]) -> (String, String) {
    let (mut past, mut ahead) = (String::new(), String::new());
    let mut last: Option<&Dot<'_>> = None;
    for dot in dots {
        let (x, y) = (round(dot.x), dot.y);
        match last {
            None => _ = write!(past, "M{x} {y}"),
            Some(from) if dot.moment.ahead => {
                _ = write!(ahead, "M{} {}{}", round(from.x), from.y, bend(from, x, y));
                continue;
            }
            Some(from) => past.push_str(&bend(from, x, y)),
        }
        last = Some(dot);
    }
    (past, ahead)
}

/// Along the lane, then over to the other one.
fn bend(from: &Dot<'_>, x: f64, y: f64) -> String {
    let fx = round(from.x);
    let turn = round((x - 16.0).max(fx));
    let mid = round(f64::midpoint(turn, x));
    format!("H{turn}C{mid} {} {mid} {y} {x} {y}", from.y)
}

/// Times since the beginning, where there is room for them.
fn labels(dots: &[Dot<'_>], begin: Timestamp) -> Vec<(f64, String)> {
    let mut all: Vec<(f64, String)> = Vec::new();
    for dot in dots {
        let room = all.last().is_none_or(|(x, _)| dot.x - x >= LABEL);
        if room {
            let text = match dot.moment.at.since(begin) {
                d if d.is_zero() => "0".to_owned(),
                d => format!("+{}", span(d)),
            };
            all.push((dot.x, text));
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::super::parts::Tone;
    use super::*;

    fn moment(ms: i64, lane: Lane) -> Moment {
        Moment {
            at: Timestamp::from_millis(ms),
            lane,
            tone: Tone::Good,
            what: "<x>".to_owned(),
            cause: String::new(),
            way: None,
            ahead: false,
        }
    }

    #[test]
    fn hours_and_milliseconds_are_both_seen() {
        let moments = [
            moment(0, Lane::Ledger),
            moment(10_000_000, Lane::Webhook),
            moment(10_000_300, Lane::Look),
            moment(10_000_300, Lane::Ledger),
            moment(10_000_900, Lane::Effect),
        ];
        let xs = places(&moments);
        assert!(
            xs.is_sorted() && xs[0] >= LEFT && xs[4] <= WIDTH - RIGHT + 0.01,
            "{xs:?}"
        );
        assert!(xs[2] - xs[1] > 30.0, "{xs:?}");
        assert!((xs[3] - xs[2]).abs() < 0.01, "one instant: {xs:?}");
        let drawn = draw(&moments).into_string();
        assert_eq!(drawn.matches("<circle").count(), 5);
        assert!(
            drawn.contains("+2 h 46 min") && drawn.contains("&lt;x&gt;"),
            "{drawn}"
        );
    }

    #[test]
    fn labels_never_lie_on_each_other() {
        let moments: Vec<Moment> = (0..200).map(|n| moment(n * 1000, Lane::Look)).collect();
        let drawn = draw(&moments).into_string();
        assert_eq!(drawn.matches("<circle").count(), MOST);
        assert!(drawn.matches("class=\"when\"").count() <= 10);
        assert_eq!(draw(&moments[..1]).into_string(), "");
    }
}
