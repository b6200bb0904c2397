-- Whether a sandbox was started before; 0 during its first start. Before this
-- column, a sandbox without a reason was in its first start.
ALTER TABLE sandboxes ADD COLUMN started_before INTEGER NOT NULL DEFAULT 0
    CHECK (started_before IN (0, 1));

UPDATE sandboxes SET started_before = 1 WHERE state <> 'starting' OR reason IS NOT NULL;

-- The kind of a failure that a sandbox can recover from. Before this column,
-- the reason stated it.
ALTER TABLE sandboxes ADD COLUMN failure TEXT;

UPDATE sandboxes SET failure = 'agent-lost' WHERE state = 'error'
    AND reason = 'its agent does not answer; its processes may still run';
UPDATE sandboxes SET failure = 'container-ended' WHERE state = 'error'
    AND substr(reason, 1, 19) = 'its container ended';

-- A workspace that outlives its sandbox has a row with the state `parked`. A
-- setting named it while it had no row; without the setting, the clean-up puts
-- such a workspace into quarantine, and an operator can restore it from there.
DELETE FROM settings WHERE name LIKE 'kept-workspace:%';
