-- ShedLock writes UTC into columns that the server takes for local time. So all that use
-- a table must have the same time zone; theirs is the server's, unless told otherwise.
-- Times that do not fit are errors.
SET SESSION time_zone = {zone}, sql_mode = 'STRICT_ALL_TABLES';
