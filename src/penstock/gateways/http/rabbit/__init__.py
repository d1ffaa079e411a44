"""RabbitMQ's management API."""
