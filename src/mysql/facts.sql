-- What `dlock check` looks at, one row: see enum fact in mysql_check.c. SHOW STATUS has
-- no place in a SELECT that both servers understand but these tables, each of which the
-- other one lacks.
SELECT VERSION(), @@version_comment,
  TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)),
  @@global.read_only, @@global.max_connections, '', @@global.log_bin, @@session.binlog_format,
  @@global.innodb_flush_log_at_trx_commit, '', '';
