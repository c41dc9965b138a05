-- Marks of the whole ledger, by their names: that of the key with which its secrets are sealed.
CREATE TABLE mark (
  name TEXT PRIMARY KEY,
  value TEXT NOT NULL
) STRICT, WITHOUT ROWID;
-- Runs that have ended, and whose end was not told to everybody yet who is to be told.
CREATE TABLE untold_run (
  run INTEGER PRIMARY KEY
) STRICT;
