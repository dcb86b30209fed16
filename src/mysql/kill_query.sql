KILL QUERY {connection};
