//! Floor 4: from a verified delivery to a durable work item.
