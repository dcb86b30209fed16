KILL CONNECTION {connection};
