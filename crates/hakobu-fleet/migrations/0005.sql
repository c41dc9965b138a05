-- Large files whose drafts several units write.
CREATE TABLE open_file (
  run INTEGER NOT NULL,
  root INTEGER NOT NULL,
  path BLOB NOT NULL,
  -- 1 if the row is the reason for which a range of the file could not be copied.
  is_torn INTEGER NOT NULL,
  -- Its version, its draft and its place at the target, or the error, which only brokers read.
  detail BLOB NOT NULL,
  PRIMARY KEY (run, root, path, is_torn)
) STRICT, WITHOUT ROWID;
