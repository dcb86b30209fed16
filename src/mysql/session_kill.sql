KILL {connection};
