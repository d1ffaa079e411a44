"""AMQP 0.9.1 beside RabbitMQ: the same clients, the same frames."""
