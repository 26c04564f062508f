"""From quantised operators to the integer graph, one family a file: what every front end shares."""
