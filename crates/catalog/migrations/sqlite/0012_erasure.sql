-- Since when a tenant is being erased. It is never taken back.
ALTER TABLE tenants ADD COLUMN erasing INTEGER;
