-- Do settings stay with us? Something between may share a connection among many.
SET SESSION wait_timeout = 7654;
SELECT @@SESSION.wait_timeout;
