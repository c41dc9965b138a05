-- Limits of endpoints, as JSON.
CREATE TABLE endpoint_limits (
  location BYTEA PRIMARY KEY,
  limits TEXT NOT NULL
);
