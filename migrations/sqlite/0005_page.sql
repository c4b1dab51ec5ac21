-- What the page asks for: the looks at one operation, and how many webhooks were lost lately.
CREATE INDEX work_queue_segment ON work_queue (segment, id);
CREATE INDEX operations_rescued ON operations (settled_at_ms) WHERE told = 'rescued';
