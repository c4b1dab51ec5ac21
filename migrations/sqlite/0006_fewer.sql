-- Each index of these tables costs every delivery an entry, and a page of the log.
-- An event's id begins with the time it came: what is older than a moment has a smaller id.
DROP INDEX captured_events_age;
-- A segment has few items, and work_queue_segment (0005) finds the open ones among them.
DROP INDEX work_queue_open_segment;
