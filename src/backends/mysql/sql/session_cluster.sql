/*M!100101 + @@wsrep_on */
