-- What `dlock check` looks at: see facts[] in check.c. SHOW passes over what a server
-- does not know, which a SELECT of it would fail on.
SHOW GLOBAL VARIABLES WHERE Variable_name IN ('version', 'version_comment', 'read_only',
  'innodb_read_only', 'max_connections', 'log_bin', 'binlog_format',
  'innodb_flush_log_at_trx_commit');
