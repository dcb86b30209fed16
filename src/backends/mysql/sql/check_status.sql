SHOW SESSION STATUS WHERE Variable_name IN ('Threads_connected', 'Ssl_cipher', 'wsrep_ready',
  'wsrep_cluster_size');
