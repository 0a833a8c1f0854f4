// How long a record takes from Kafka's own producer through the broker to Kafka's own consumer, one at a time.
// bench/end_to_end.py has it compiled in the JVM that runs it; it is written in the subset of Java which that compiler knows.
// Apache Kafka's EndToEndLatency does the same, but prints whole milliseconds and has its consumer poll without waiting.

import java.time.Duration;
import java.util.Arrays;
import java.util.Collections;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;

public class EndToEnd {

    /** Nanoseconds of each of `records` records of `size` bytes, in order; `discarded` more are sent before them. */
    public static long[] measure(Properties producing, Properties consuming, String topic, int records, int discarded, int size) {
        KafkaProducer producer = new KafkaProducer(producing);
        KafkaConsumer consumer = new KafkaConsumer(consuming);
        try {
            TopicPartition partition = new TopicPartition(topic, 0);
            consumer.assign(Collections.singletonList(partition));
            consumer.seekToBeginning(Collections.singletonList(partition));
            long position = consumer.position(partition);
            byte[] value = new byte[size];
            Arrays.fill(value, (byte) 120);
            long[] took = new long[records];
            for (int number = -discarded; number < records; number++) {
                long started = System.nanoTime();
                producer.send(new ProducerRecord(topic, Integer.valueOf(0), null, value));
                ConsumerRecords arrived = consumer.poll(Duration.ofSeconds(10L));
                while (arrived.isEmpty() && System.nanoTime() - started < 30000000000L) {
                    arrived = consumer.poll(Duration.ofSeconds(10L));
                }
                long ended = System.nanoTime();
                if (arrived.count() != 1) {
                    throw new IllegalStateException("one record was sent, " + arrived.count() + " arrived");
                }
                long offset = ((ConsumerRecord) arrived.iterator().next()).offset();
                if (offset != position) {
                    throw new IllegalStateException("offset " + offset + " arrived instead of " + position);
                }
                position = position + 1;
                if (number >= 0) {
                    took[number] = ended - started;
                }
            }
            return took;
        } finally {
            producer.close();
            consumer.close();
        }
    }
}
