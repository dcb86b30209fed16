{session_end}
SELECT RELEASE_LOCK({key}), CONNECTION_ID(), @@GLOBAL.read_only, 0,
  @@SESSION.wait_timeout;
