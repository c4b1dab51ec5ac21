//! Floor 5: HTTP in.
