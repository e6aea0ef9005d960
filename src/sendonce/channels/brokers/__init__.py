"""Message brokers as channels: RabbitMQ, NATS JetStream, Kafka and Redis streams, one module and one extra each."""
