//! Floor 6: the only composition root.
