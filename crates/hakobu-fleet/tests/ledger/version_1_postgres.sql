-- A ledger in PostgreSQL as a program of version 1 wrote it. Never changed, so that later versions show that they read it.
--
-- Numbers of rows come from sequences, so that none is given twice, even after its row is deleted. Moments are milliseconds
-- since 1970. Numbers of file systems and inodes are the 64 bits of an unsigned number. Text has no zero bytes here: U+FFFD takes
-- their place.

-- One row. Each transaction that writes to the ledger changes it if its term is the current one, and so waits for others.
CREATE TABLE ledger (
  is_only BOOLEAN PRIMARY KEY DEFAULT true CHECK (is_only),
  version BIGINT NOT NULL,
  -- The term of the control plane that leads, from 1.
  term BIGINT NOT NULL,
  -- The number of transactions of this term: tells, after a lost connection, if one was committed.
  batch BIGINT NOT NULL,
  -- The epoch of new units.
  first_epoch BIGINT NOT NULL
);
INSERT INTO ledger VALUES (true, 1, 0, 0, 0);

-- One row. It is renewed by the leader, and apart from the other, so that neither waits for the other.
CREATE TABLE leader (
  is_only BOOLEAN PRIMARY KEY DEFAULT true CHECK (is_only),
  term BIGINT NOT NULL,
  name TEXT NOT NULL,
  -- The random name of the leader's sessions.
  session TEXT NOT NULL,
  renewals BIGINT NOT NULL,
  renewed TIMESTAMPTZ NOT NULL,
  has_resigned BOOLEAN NOT NULL
);
INSERT INTO leader VALUES (true, 0, '', '', 0, now(), true);

-- Numbers of units are taken by the thousand.
CREATE SEQUENCE unit_block AS BIGINT INCREMENT BY 1000;

CREATE TABLE relationship (
  id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  name TEXT NOT NULL UNIQUE,
  revision BIGINT NOT NULL,
  changed BIGINT NOT NULL,
  broker_group TEXT NOT NULL,
  -- With a zero byte between them.
  sources BYTEA NOT NULL,
  target BYTEA NOT NULL,
  options TEXT NOT NULL,
  schedule TEXT,
  limits TEXT,
  notification TEXT,
  owner TEXT NOT NULL,
  credentials TEXT NOT NULL
);

CREATE TABLE run (
  id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  relationship BIGINT,
  broker_group TEXT NOT NULL,
  request TEXT NOT NULL,
  phase TEXT NOT NULL,
  step BIGINT NOT NULL,
  cursor BYTEA NOT NULL,
  units_added BIGINT NOT NULL,
  units_committed BIGINT NOT NULL,
  units_given_up BIGINT NOT NULL,
  counters TEXT NOT NULL,
  failures BIGINT NOT NULL,
  forecast TEXT,
  started BIGINT NOT NULL,
  ended BIGINT,
  outcome TEXT,
  paused BIGINT NOT NULL DEFAULT 0,
  limits TEXT,
  -- 1 if the rows that only a run needs which has not ended are deleted.
  swept BIGINT NOT NULL
);
CREATE INDEX run_open ON run (id) WHERE ended IS NULL;
CREATE INDEX run_unswept ON run (id) WHERE ended IS NOT NULL AND swept = 0;
CREATE INDEX run_of_relationship ON run (relationship, id);

CREATE TABLE report (
  run BIGINT PRIMARY KEY,
  report BYTEA NOT NULL
);

CREATE TABLE unit (
  id BIGINT PRIMARY KEY,
  run BIGINT NOT NULL,
  epoch BIGINT NOT NULL,
  attempts BIGINT NOT NULL,
  -- Both are null in a unit that is ready.
  broker TEXT,
  deadline BIGINT
);
CREATE INDEX unit_of_run ON unit (run, id);
CREATE INDEX unit_ready ON unit (run, id) WHERE broker IS NULL;
CREATE INDEX unit_leased ON unit (id) WHERE broker IS NOT NULL;

-- Apart from the unit, whose row is written with each lease.
CREATE TABLE unit_work (
  unit BIGINT PRIMARY KEY,
  work BYTEA NOT NULL
);

-- The last epochs of units that are gone.
CREATE TABLE committed (
  run BIGINT NOT NULL,
  unit BIGINT NOT NULL,
  epoch BIGINT NOT NULL,
  PRIMARY KEY (run, unit)
);

CREATE TABLE open_directory (
  run BIGINT NOT NULL,
  -- The depth below zero: the deepest come first.
  height BIGINT NOT NULL,
  root BIGINT NOT NULL,
  path BYTEA NOT NULL,
  -- Its attributes and its place at the target, which only brokers read.
  detail BYTEA NOT NULL
);
-- An index has no room for the longest paths: a digest takes the place of their ends. So for names of links.
CREATE UNIQUE INDEX open_directory_key ON open_directory (run, height, root, substring(path FROM 1 FOR 2000),
  (CASE WHEN length(path) > 2000 THEN sha256(path) ELSE ''::bytea END));

CREATE TABLE link_name (
  run BIGINT NOT NULL,
  file_system BIGINT NOT NULL,
  inode BIGINT NOT NULL,
  root BIGINT NOT NULL,
  path BYTEA NOT NULL,
  size BIGINT NOT NULL,
  -- Its place at the target, which only brokers read.
  detail BYTEA NOT NULL
);
CREATE UNIQUE INDEX link_name_key ON link_name (run, file_system, inode, root, substring(path FROM 1 FOR 2000),
  (CASE WHEN length(path) > 2000 THEN sha256(path) ELSE ''::bytea END));

CREATE TABLE failure (
  run BIGINT NOT NULL,
  number BIGINT NOT NULL,
  kind BIGINT NOT NULL,
  step TEXT NOT NULL,
  root BIGINT NOT NULL,
  path BYTEA NOT NULL,
  during TEXT NOT NULL,
  place BYTEA NOT NULL,
  detail TEXT NOT NULL,
  hint TEXT,
  PRIMARY KEY (run, number)
);
CREATE INDEX failure_of_kind ON failure (run, kind, number);

CREATE TABLE broker (
  name TEXT COLLATE "C" PRIMARY KEY,
  broker_group TEXT NOT NULL,
  version TEXT NOT NULL,
  first_seen BIGINT NOT NULL,
  last_seen BIGINT NOT NULL,
  is_draining BIGINT NOT NULL
);

CREATE TABLE token (
  id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  hash BYTEA NOT NULL UNIQUE,
  label TEXT NOT NULL,
  role TEXT NOT NULL,
  created BIGINT NOT NULL,
  expires BIGINT,
  is_single_use BIGINT NOT NULL,
  last_used BIGINT
);

CREATE TABLE audit (
  number BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  moment BIGINT NOT NULL,
  who TEXT NOT NULL,
  action TEXT NOT NULL,
  object BYTEA NOT NULL,
  detail TEXT NOT NULL,
  refused TEXT
);

UPDATE ledger SET term = 1, batch = 9;
UPDATE leader SET term = 1, name = 'one', session = 'hakobu 1', renewals = 5;
SELECT nextval('unit_block');
INSERT INTO relationship (name, revision, changed, broker_group, sources, target, options, schedule, owner, credentials)
  VALUES ('nightly', 2, 1700000000000, 'site-a', '\x2f6100686f73743a2f62', '\x2f74', '{}', '{"cron":"0 3 * * *"}', 'ops',
  '[{"environment":"KEY"}]');
INSERT INTO run (relationship, broker_group, request, phase, step, cursor, units_added, units_committed, units_given_up, counters,
  failures, started, paused, limits, swept)
  VALUES (1, 'site-a', '{}', 'copy', 0, '', 3, 1, 0, '{"entries_created":12,"bytes_scanned":18446744073709551615}', 1,
  1700000000000, 1, '{"version":1}', 0);
INSERT INTO unit VALUES (2, 1, 4, 1, NULL, NULL), (3, 1, 1, 0, 'one', 1700000030000);
INSERT INTO unit_work VALUES (2, '\x0100010003612f6200000000'), (3, '\x0100010003612f6200000000');
INSERT INTO committed VALUES (1, 1, 1);
INSERT INTO open_directory VALUES (1, -1, 0, '\x61', '\x0102');
INSERT INTO link_name VALUES (1, -1, 7, 0, '\x612f6c', 5, '\x03'), (1, -1, 7, 0, '\x612f6d', 5, '');
INSERT INTO failure VALUES (1, 1, 6, 'other', 0, '\x66ff', 'reading', '\x78ff', 'it went wrong', 'try again');
INSERT INTO broker VALUES ('one', 'site-a', '0.2.0', 1, 2, 0);
INSERT INTO token (hash, label, role, created, is_single_use)
  VALUES ('\x000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f', 'page', 'admin', 1, 0);
INSERT INTO audit (moment, who, action, object, detail) VALUES (1700000000000, 'token 1', 'save', '\x6e', '');
