-- Large files whose drafts several units write.
CREATE TABLE open_file (
  run BIGINT NOT NULL,
  root BIGINT NOT NULL,
  path BYTEA NOT NULL,
  -- 1 if the row is the reason for which a range of the file could not be copied.
  is_torn BIGINT NOT NULL,
  -- Its version, its draft and its place at the target, or the error, which only brokers read.
  detail BYTEA NOT NULL
);
CREATE UNIQUE INDEX open_file_key ON open_file (run, root, substring(path FROM 1 FOR 2000),
  (CASE WHEN length(path) > 2000 THEN sha256(path) ELSE ''::bytea END), is_torn);
