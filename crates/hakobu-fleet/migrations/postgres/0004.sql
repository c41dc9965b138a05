-- Marks of the whole ledger, by their names: that of the key with which its secrets are sealed.
CREATE TABLE mark (
  name TEXT COLLATE "C" PRIMARY KEY,
  value TEXT NOT NULL
);
-- Runs that have ended, and whose end was not told to everybody yet who is to be told.
CREATE TABLE untold_run (
  run BIGINT PRIMARY KEY
);
