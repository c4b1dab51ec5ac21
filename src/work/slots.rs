//! How many things run at once.
//!
//! A slot is taken before its task is spawned, so that the next claim counts it, and given back when
//! it is dropped, however the task ends. Some slots may be kept for items that somebody waits for.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The slots of one loop.
#[derive(Debug)]
pub(super) struct Slots {
    total: usize,
    fresh_only: usize,
    taken: AtomicUsize,
    taken_old: AtomicUsize,
}

impl Slots {
    /// `total` slots, at least one; `fresh_only` of them can never be taken by old items.
    pub(super) fn new(total: usize, fresh_only: usize) -> Arc<Self> {
        let total = total.max(1);
        Arc::new(Self {
            total,
            fresh_only: fresh_only.min(total - 1),
            taken: AtomicUsize::new(0),
            taken_old: AtomicUsize::new(0),
        })
    }

    /// Free slots.
    pub(super) fn free(&self) -> usize {
        self.total
            .saturating_sub(self.taken.load(Ordering::Acquire))
    }

    /// Free slots that a fresh item may take: one is kept for old ones while none of them runs, so that
    /// a flood of webhooks cannot stop reconciliation.
    pub(super) fn free_for_fresh(&self) -> usize {
        let kept = usize::from(self.total > 1 && self.taken_old.load(Ordering::Acquire) == 0);
        self.free().saturating_sub(kept)
    }

    /// Free slots that an old item may take.
    pub(super) fn free_for_old(&self) -> usize {
        let taken = self.taken_old.load(Ordering::Acquire);
        (self.total - self.fresh_only)
            .saturating_sub(taken)
            .min(self.free())
    }

    /// Takes a slot.
    pub(super) fn take(self: &Arc<Self>, old: bool) -> Slot {
        self.taken.fetch_add(1, Ordering::AcqRel);
        if old {
            self.taken_old.fetch_add(1, Ordering::AcqRel);
        }
        Slot {
            slots: Arc::clone(self),
            old,
        }
    }
}

/// A taken slot; given back when dropped.
#[derive(Debug)]
pub(super) struct Slot {
    slots: Arc<Slots>,
    old: bool,
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.slots.taken.fetch_sub(1, Ordering::AcqRel);
        if self.old {
            self.slots.taken_old.fetch_sub(1, Ordering::AcqRel);
        }
    }
}

/// A number of slots as the store counts.
pub(super) fn count(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_items_leave_the_kept_slots_alone() {
        let slots = Slots::new(8, 4);
        let old: Vec<_> = (0..4).map(|_| slots.take(true)).collect();
        assert_eq!((slots.free(), slots.free_for_old()), (4, 0));
        assert_eq!(
            slots.free_for_fresh(),
            4,
            "an old one runs: nothing is kept"
        );
        let fresh: Vec<_> = (0..3).map(|_| slots.take(false)).collect();
        drop(old);
        assert_eq!((slots.free(), slots.free_for_old()), (5, 4));
        drop(fresh);
        assert_eq!((slots.free(), slots.free_for_old()), (8, 4));
        assert_eq!(slots.free_for_fresh(), 7, "one is kept for an old one");
    }

    #[test]
    fn there_is_always_a_slot_and_it_is_never_all_kept() {
        let slots = Slots::new(0, 9);
        assert_eq!((slots.free(), slots.free_for_old()), (1, 1));
    }
}
