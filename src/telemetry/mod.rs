//! Floor 1: logs and metrics.
