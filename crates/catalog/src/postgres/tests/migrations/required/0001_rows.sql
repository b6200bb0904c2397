CREATE TABLE rows (n bigint);
