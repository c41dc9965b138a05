-- Limits of endpoints, as JSON.
CREATE TABLE endpoint_limits (
  location BLOB PRIMARY KEY,
  limits TEXT NOT NULL
) STRICT, WITHOUT ROWID;
