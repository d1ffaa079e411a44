import java.io.DataOutputStream;
import java.io.BufferedOutputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;

/** The ends of a stream of Kafka, as bench/spark/streaming.py has them for Penstock: create, produce, consume. Those
 * that go on end when their standard input does. */
public class KafkaEnds {
    private static final int VALUE_BYTES = 256;

    public static void main(String[] words) throws Exception {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", words[1]);
        switch (words[0]) {
            case "create" -> create(settings, words[2], Integer.parseInt(words[3]), words[4]);
            case "produce" -> produce(settings, words[2], Integer.parseInt(words[3]));
            case "consume" -> consume(settings, words[2], Path.of(words[3]));
            default -> throw new IllegalArgumentException(words[0]);
        }
    }

    private static void create(Properties settings, String topic, int partitions, String flushMessages) throws Exception {
        NewTopic wanted = new NewTopic(topic, partitions, (short) 1);
        if (!flushMessages.equals("-")) {
            wanted.configs(Map.of("flush.messages", flushMessages));
        }
        try (Admin admin = Admin.create(settings)) {
            admin.createTopics(List.of(wanted)).all().get();
        }
    }

    /** What is due, every hundredth of a second, and then waits until it is acknowledged. */
    private static void produce(Properties settings, String topic, int rate) throws Exception {
        settings.put("acks", "all");
        settings.put("linger.ms", "0");
        String bytes = "org.apache.kafka.common.serialization.ByteArraySerializer";
        settings.put("key.serializer", bytes);
        settings.put("value.serializer", bytes);
        long sent = 0;
        long begun = now();
        try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(settings)) {
            while (System.in.available() == 0) {
                Thread.sleep(10);
                for (long due = (now() - begun) * rate / 1_000_000_000L; sent < due; sent++) {
                    byte[] time = String.format("%020d", begun + sent * 1_000_000_000L / rate).getBytes(StandardCharsets.US_ASCII);
                    byte[] value = java.util.Arrays.copyOf(time, VALUE_BYTES);
                    byte[] key = String.format("key-%02d", sent % 100).getBytes(StandardCharsets.US_ASCII);
                    producer.send(new ProducerRecord<>(topic, key, value));
                }
                producer.flush();
            }
        }
    }

    /** Pairs of when each message was due and when it came, as the numbers of a file. */
    private static void consume(Properties settings, String topic, Path file) throws Exception {
        String bytes = "org.apache.kafka.common.serialization.ByteArrayDeserializer";
        settings.put("key.deserializer", bytes);
        settings.put("value.deserializer", bytes);
        settings.put("enable.auto.commit", "false");
        List<long[]> taken = new ArrayList<>();
        try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(settings)) {
            List<TopicPartition> partitions =
                consumer.partitionsFor(topic).stream().map(each -> new TopicPartition(topic, each.partition())).toList();
            consumer.assign(partitions);
            consumer.seekToEnd(partitions);
            while (System.in.available() == 0) {
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(100))) {
                    String due = new String(record.value(), 0, 20, StandardCharsets.US_ASCII);
                    taken.add(new long[] {Long.parseLong(due), now()});
                }
            }
        }
        try (DataOutputStream out = new DataOutputStream(new BufferedOutputStream(Files.newOutputStream(file)))) {
            for (long[] each : taken) {
                out.writeLong(Long.reverseBytes(each[0]));
                out.writeLong(Long.reverseBytes(each[1]));
            }
        }
    }

    private static long now() {
        Instant now = Instant.now();
        return now.getEpochSecond() * 1_000_000_000L + now.getNano();
    }
}
