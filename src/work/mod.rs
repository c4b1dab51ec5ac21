//! Floor 4: from a work item to a settled operation and its delivered effects.
