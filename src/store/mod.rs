//! Floor 2: what is on disk.
