-- Is it still ours? Being asked keeps the connection from being idle.
SELECT IS_USED_LOCK({key}) = CONNECTION_ID(), CONNECTION_ID(), @@GLOBAL.read_only, 0,
  @@SESSION.wait_timeout;
