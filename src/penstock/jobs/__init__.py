"""Work over whole queues and directories: pieces done by Arrow functions, here or wherever Spark schedules them."""
