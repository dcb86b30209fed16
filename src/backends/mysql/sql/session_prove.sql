-- Is this the session that holds? Being asked keeps the connection from being idle.
SELECT 1, CONNECTION_ID(), @@GLOBAL.read_only, 0,
  @@SESSION.wait_timeout;
