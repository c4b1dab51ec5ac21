//! What a page of bulk recovery did.
//!
//! Bulk recovery (replaying many deliveries, putting many dead things back) goes page by page, each
//! bounded, so that nobody else waits for long and a page that fails can be asked for again.

/// One page.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Recovered {
    /// How many fit.
    pub matched: u64,
    /// How many of them were done; none of a dry run.
    pub done: u64,
    /// Where to go on, if there is more.
    pub next_cursor: Option<String>,
}

impl Recovered {
    /// How many were left alone: they had changed, or cannot be done.
    pub const fn skipped(&self, dry_run: bool) -> u64 {
        if dry_run {
            0
        } else {
            self.matched.saturating_sub(self.done)
        }
    }
}
