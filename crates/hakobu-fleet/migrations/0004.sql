-- Marks of the whole ledger, by their names: that of the key with which its secrets are sealed.
CREATE TABLE mark (
  name TEXT PRIMARY KEY,
  value TEXT NOT NULL
) STRICT, WITHOUT ROWID;
