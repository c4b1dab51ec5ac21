//! How many things run at once.
//!
//! A slot is taken before its task is spawned, so that the next claim counts it, and given back when
//! it is dropped, however the task ends. Some slots may be kept for items that somebody waits for.
//!
//! What a slot bounds is the asking. An item that has its answer and waits for its commit leaves its slot
//! to the next one ([`Slot::asked`]), so that fetching goes on while the disk is waited for; but only so
//! many may wait there, or a disk that is full would fill the memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The slots of one loop.
#[derive(Debug)]
pub(super) struct Slots {
    total: usize,
    fresh_only: usize,
    taken: AtomicUsize,
    taken_old: AtomicUsize,
    writing: AtomicUsize,
}

/// As many times its slots may wait for their commit.
const WRITING: usize = 4;

impl Slots {
    /// `total` slots, at least one; `fresh_only` of them can never be taken by old items.
    pub(super) fn new(total: usize, fresh_only: usize) -> Arc<Self> {
        let total = total.max(1);
        Arc::new(Self {
            total,
            fresh_only: fresh_only.min(total - 1),
            taken: AtomicUsize::new(0),
            taken_old: AtomicUsize::new(0),
            writing: AtomicUsize::new(0),
        })
    }

    /// Free slots.
    pub(super) fn free(&self) -> usize {
        let written = self.writing.load(Ordering::Acquire);
        self.total
            .saturating_sub(self.taken.load(Ordering::Acquire))
            .min((self.total * WRITING).saturating_sub(written))
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
            asking: true,
        }
    }
}

/// A taken slot; given back when dropped.
#[derive(Debug)]
pub(super) struct Slot {
    slots: Arc<Slots>,
    old: bool,
    asking: bool,
}

impl Slot {
    /// The answer is there: the slot is free for another, and this one only waits for its commit.
    pub(super) fn asked(&mut self) {
        if std::mem::take(&mut self.asking) {
            self.slots.writing.fetch_add(1, Ordering::AcqRel);
            self.leave();
        }
    }

    fn leave(&self) {
        self.slots.taken.fetch_sub(1, Ordering::AcqRel);
        if self.old {
            self.slots.taken_old.fetch_sub(1, Ordering::AcqRel);
        }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        if self.asking {
            self.leave();
        } else {
            self.slots.writing.fetch_sub(1, Ordering::AcqRel);
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
    fn a_slot_is_free_again_once_the_answer_is_there_until_too_many_wait_to_be_written() {
        let slots = Slots::new(2, 0);
        let mut waiting = Vec::new();
        for _ in 0..2 * WRITING {
            assert!(slots.free() > 0);
            let mut slot = slots.take(true);
            slot.asked();
            slot.asked();
            waiting.push(slot);
        }
        assert_eq!(slots.free(), 0);
        waiting.pop();
        assert_eq!(slots.free(), 1);
        waiting.clear();
        assert_eq!((slots.free(), slots.free_for_old()), (2, 2));
    }

    #[test]
    fn there_is_always_a_slot_and_it_is_never_all_kept() {
        let slots = Slots::new(0, 9);
        assert_eq!((slots.free(), slots.free_for_old()), (1, 1));
    }
}
