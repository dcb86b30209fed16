EXECUTE {prepared};
