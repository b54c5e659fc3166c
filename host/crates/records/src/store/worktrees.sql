-- The identity of the repository to which the task belongs, where it works in a linked worktree of it; else NULL.
ALTER TABLE tasks ADD COLUMN home TEXT;
CREATE INDEX tasks_of_home ON tasks (home, seq) WHERE home IS NOT NULL;
