-- work_queue_segment (0005) finds the open items of a segment as well: a segment has few items, and every
-- index of the queue costs each delivery an entry, each claim and each end another.
DROP INDEX work_queue_open_segment;
