SELECT {now};
