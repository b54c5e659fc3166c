-- The commit of HEAD when the task began, and whether files differed from it; NULL where that is not known.
ALTER TABLE tasks ADD COLUMN head TEXT;
ALTER TABLE tasks ADD COLUMN dirty INTEGER;
