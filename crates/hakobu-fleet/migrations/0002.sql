-- Properties that the units of a run could not keep at the target, as JSON.
ALTER TABLE run ADD COLUMN losses TEXT NOT NULL DEFAULT '[]';
