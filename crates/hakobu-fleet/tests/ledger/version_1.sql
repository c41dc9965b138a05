-- A ledger as a program of version 1 wrote it. Never changed, so that later versions show that they read it.
PRAGMA auto_vacuum = INCREMENTAL;
PRAGMA application_id = 1751862343;
PRAGMA user_version = 1;
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

-- Apart from the unit, whose row is written with each renewal.
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

INSERT INTO relationship VALUES (1, 'nightly', 2, 1700000000000, 'site-a', x'2f6100686f73743a2f62', x'2f74', '{}',
  '{"cron":"0 3 * * *"}', NULL, NULL, 'ops', '[{"environment":"KEY"}]');
INSERT INTO run VALUES (1, 1, 'site-a', '{}', 'copy', 0, x'', 3, 1, 0, '{"entries_created":12,"bytes_scanned":18446744073709551615}', 1,
  NULL, 1700000000000, NULL, NULL, 1, '{"version":1}', 0);
INSERT INTO unit VALUES (2, 1, 4, 1, NULL, NULL), (3, 1, 1, 0, 'one', 1700000030000);
INSERT INTO unit_work VALUES (2, x'0100010003612f6200000000'), (3, x'0100010003612f6200000000');
INSERT INTO committed VALUES (1, 1, 1);
INSERT INTO open_directory VALUES (1, -1, 0, x'61', x'0102');
INSERT INTO link_name VALUES (1, -1, 7, 0, x'612f6c', 5, x'03'), (1, -1, 7, 0, x'612f6d', 5, x'');
INSERT INTO failure VALUES (1, 1, 6, 'other', 0, x'66ff', 'reading', x'78ff', 'it went wrong', 'try again');
INSERT INTO broker VALUES ('one', 'site-a', '0.2.0', 1, 2, 0);
INSERT INTO token VALUES (1, x'000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f', 'page', 'admin', 1, NULL, 0, NULL);
INSERT INTO audit VALUES (1, 1700000000000, 'token 1', 'save', x'6e', '', NULL);
