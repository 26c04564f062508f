"""What of a lowered network is in which memory when, decided on shapes alone."""
