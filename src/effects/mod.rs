//! Floor 3: side effects and alerts going out.
