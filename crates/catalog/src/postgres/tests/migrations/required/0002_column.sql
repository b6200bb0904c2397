ALTER TABLE rows ADD COLUMN more bigint;
