//! Floor 4: finding what no webhook ever told.
