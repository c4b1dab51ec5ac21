//! How far long work is, on a terminal and nowhere else.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// A line on standard error that goes away when the work ends, however it ends.
#[derive(Debug)]
pub(super) struct Progress(ProgressBar);

impl Progress {
    /// Of `whole` steps, or of nobody knows how many.
    pub(super) fn new(what: &'static str, whole: Option<u64>) -> Self {
        let bar = ProgressBar::with_draw_target(whole, ProgressDrawTarget::stderr());
        let style = match whole {
            Some(_) => ProgressStyle::with_template("{msg} {wide_bar} {pos} of {len}, {eta} left"),
            None => ProgressStyle::with_template("{msg} {spinner} {pos}"),
        };
        // Both are ours; without one the bar has its own.
        let bar = match style {
            Ok(style) => bar.with_style(style),
            Err(_) => bar,
        };
        Self(bar.with_message(what))
    }

    /// Of bytes, of which the work itself says how many there are.
    pub(super) fn of_bytes(what: &'static str) -> impl FnMut(u64, u64) + Send + 'static {
        let bar = Self::new(what, Some(0));
        if let Ok(style) =
            ProgressStyle::with_template("{msg} {wide_bar} {bytes} of {total_bytes}, {eta} left")
        {
            bar.0.set_style(style);
        }
        move |done, whole| {
            bar.0.set_length(whole);
            bar.0.set_position(done);
        }
    }

    /// So many more are done.
    pub(super) fn add(&self, steps: u64) {
        self.0.inc(steps);
    }

    /// Whether anybody sees it.
    pub(super) fn is_seen(&self) -> bool {
        !self.0.is_hidden()
    }

    /// How many there are, known only now.
    pub(super) fn whole(&self, steps: u64) {
        self.0.set_length(steps);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
