"""Reading records: from partitions chosen by hand (`consumer`) or shared among a group (`group`)."""
