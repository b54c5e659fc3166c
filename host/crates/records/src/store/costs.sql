-- The cost of the task's requests in nano-dollars; NULL where it is not known.
ALTER TABLE tasks ADD COLUMN cost_nanos INTEGER;
