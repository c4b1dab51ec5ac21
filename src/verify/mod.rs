//! Floor 2: whether a delivery is genuine.
