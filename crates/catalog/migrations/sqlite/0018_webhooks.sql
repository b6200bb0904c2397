-- Number of the newest deleted event of the tenant; 0 if none was deleted.
ALTER TABLE tenants ADD COLUMN events_forgotten INTEGER NOT NULL DEFAULT 0;

-- The secret before the last rotation, which also signs deliveries until
-- `previous_until`; empty if there is none.
ALTER TABLE webhooks ADD COLUMN previous_secret TEXT NOT NULL DEFAULT '';
ALTER TABLE webhooks ADD COLUMN previous_until INTEGER;

CREATE INDEX webhooks_previous ON webhooks (previous_until) WHERE previous_until IS NOT NULL;
