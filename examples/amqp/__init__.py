"""Programs that know RabbitMQ, at Penstock."""
