-- The limits of a tenant as JSON. A limit that is absent is that of the setting
-- `tenant-limits`.
ALTER TABLE tenants ADD COLUMN limits TEXT NOT NULL DEFAULT '{}';
-- Since when the keys of a tenant are refused.
ALTER TABLE tenants ADD COLUMN suspended INTEGER;
