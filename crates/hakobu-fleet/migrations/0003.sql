-- Limits of groups, as JSON, which outlast the control plane.
CREATE TABLE group_limits (
  broker_group TEXT PRIMARY KEY,
  limits TEXT NOT NULL
) STRICT, WITHOUT ROWID;
