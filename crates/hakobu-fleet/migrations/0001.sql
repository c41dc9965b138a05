-- The first version of the ledger.
--
-- Numbers of rows come from AUTOINCREMENT, so that none is given twice, even after its row is deleted. Moments are milliseconds
-- since 1970. Numbers of file systems and inodes are the 64 bits of an unsigned number.

-- Numbers that belong to the whole ledger: the epoch of new units.
CREATE TABLE setting (
  name TEXT PRIMARY KEY,
  value INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO setting VALUES ('first_epoch', 0);

CREATE TABLE relationship (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  name TEXT NOT NULL UNIQUE,
  revision INTEGER NOT NULL,
  changed INTEGER NOT NULL,
  broker_group TEXT NOT NULL,
  -- With a zero byte between them.
  sources BLOB NOT NULL,
  target BLOB NOT NULL,
  options TEXT NOT NULL,
  schedule TEXT,
  limits TEXT,
  notification TEXT,
  owner TEXT NOT NULL,
  credentials TEXT NOT NULL
) STRICT;

CREATE TABLE run (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  relationship INTEGER,
  broker_group TEXT NOT NULL,
  request TEXT NOT NULL,
  phase TEXT NOT NULL,
  step INTEGER NOT NULL,
  cursor BLOB NOT NULL,
  units_added INTEGER NOT NULL,
  units_committed INTEGER NOT NULL,
  units_given_up INTEGER NOT NULL,
  counters TEXT NOT NULL,
  failures INTEGER NOT NULL,
  forecast TEXT,
  started INTEGER NOT NULL,
  ended INTEGER,
  outcome TEXT,
  paused INTEGER NOT NULL,
  limits TEXT,
  -- 1 if the rows that only a run needs which has not ended are deleted.
  swept INTEGER NOT NULL
) STRICT;
CREATE INDEX run_open ON run (id) WHERE ended IS NULL;
CREATE INDEX run_unswept ON run (id) WHERE ended IS NOT NULL AND swept = 0;
CREATE INDEX run_of_relationship ON run (relationship, id);

CREATE TABLE report (
  run INTEGER PRIMARY KEY,
  report BLOB NOT NULL
) STRICT;

CREATE TABLE unit (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  run INTEGER NOT NULL,
  epoch INTEGER NOT NULL,
  attempts INTEGER NOT NULL,
  -- Both are null in a unit that is ready.
  broker TEXT,
  deadline INTEGER
) STRICT;
CREATE INDEX unit_of_run ON unit (run, id);
CREATE INDEX unit_ready ON unit (run, id) WHERE broker IS NULL;
CREATE INDEX unit_leased ON unit (id) WHERE broker IS NOT NULL;

-- Apart from the unit, whose row is written with each lease.
CREATE TABLE unit_work (
  unit INTEGER PRIMARY KEY,
  work BLOB NOT NULL
) STRICT;

-- The last epochs of units that are gone.
CREATE TABLE committed (
  run INTEGER NOT NULL,
  unit INTEGER NOT NULL,
  epoch INTEGER NOT NULL,
  PRIMARY KEY (run, unit)
) STRICT, WITHOUT ROWID;

CREATE TABLE open_directory (
  run INTEGER NOT NULL,
  -- The depth below zero: the deepest come first.
  height INTEGER NOT NULL,
  root INTEGER NOT NULL,
  path BLOB NOT NULL,
  -- Its attributes and its place at the target, which only brokers read.
  detail BLOB NOT NULL,
  PRIMARY KEY (run, height, root, path)
) STRICT, WITHOUT ROWID;

CREATE TABLE link_name (
  run INTEGER NOT NULL,
  file_system INTEGER NOT NULL,
  inode INTEGER NOT NULL,
  root INTEGER NOT NULL,
  path BLOB NOT NULL,
  size INTEGER NOT NULL,
  -- Its place at the target, which only brokers read.
  detail BLOB NOT NULL,
  PRIMARY KEY (run, file_system, inode, root, path)
) STRICT, WITHOUT ROWID;

CREATE TABLE failure (
  run INTEGER NOT NULL,
  number INTEGER NOT NULL,
  kind INTEGER NOT NULL,
  step TEXT NOT NULL,
  root INTEGER NOT NULL,
  path BLOB NOT NULL,
  during TEXT NOT NULL,
  place BLOB NOT NULL,
  detail TEXT NOT NULL,
  hint TEXT,
  PRIMARY KEY (run, number)
) STRICT, WITHOUT ROWID;
CREATE INDEX failure_of_kind ON failure (run, kind, number);

CREATE TABLE broker (
  name TEXT PRIMARY KEY,
  broker_group TEXT NOT NULL,
  version TEXT NOT NULL,
  first_seen INTEGER NOT NULL,
  last_seen INTEGER NOT NULL,
  is_draining INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE token (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  hash BLOB NOT NULL UNIQUE,
  label TEXT NOT NULL,
  role TEXT NOT NULL,
  created INTEGER NOT NULL,
  expires INTEGER,
  is_single_use INTEGER NOT NULL,
  last_used INTEGER
) STRICT;

CREATE TABLE audit (
  number INTEGER PRIMARY KEY AUTOINCREMENT,
  moment INTEGER NOT NULL,
  who TEXT NOT NULL,
  action TEXT NOT NULL,
  object BLOB NOT NULL,
  detail TEXT NOT NULL,
  refused TEXT
) STRICT;
